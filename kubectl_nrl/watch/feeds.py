"""Watches in threads of their own, all of which feed one queue, so that one thread does the thinking."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

from ..errors import ClusterError


class Feeds:
    """What is watched of one namespace. `cluster` watches, see `kubectl_nrl.cluster.Cluster`."""

    def __init__(self, cluster: Any, namespace: str) -> None:
        self._cluster, self._namespace = cluster, namespace
        self._queue: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()

    def watch(
        self, source: str, api: str, kind: str, stop: threading.Event, *, whole: bool = False, **words: Any
    ) -> None:
        """Feed that kind's changes as `source` until `stop`, and the error that ends it early as `SOURCE refused`.

        With `whole`, all that is there comes at once as well, as `SOURCE listed`: only then is nothing there known to be none.
        """
        if whole:
            words["listed"] = lambda items: self.put(f"{source} listed", items)

        def run() -> None:
            try:
                for item in self._cluster.watch(api, kind, self._namespace, stop=stop, **words):
                    if stop.is_set():
                        return
                    self.put(source, item)
            except ClusterError as error:
                self.put(f"{source} refused", error)

        threading.Thread(target=run, name=f"watch-{source}", daemon=True).start()

    def put(self, source: str, item: Any) -> None:
        self._queue.put((source, item))

    def arrived(self, wait: float) -> Iterator[tuple[str, Any]]:
        """Everything that has come, waiting up to `wait` seconds for the first."""
        try:
            yield self._queue.get(timeout=wait)
            while True:
                yield self._queue.get_nowait()
        except queue.Empty:
            return
