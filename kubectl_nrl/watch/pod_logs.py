"""The logs of several pods of one Ray cluster at once, and of those that take their place while they are followed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import ClusterError
from ..labels import RAY_CLUSTER, RAY_NODE_TYPE
from .pod_log import LOOK, PodLog

Pod = Mapping[str, Any]


def pods_of(cluster: Any, namespace: str, ray_cluster: str, node_type: str) -> list[Pod]:
    """The pods of a Ray cluster that are `head` or `worker`, by name; one that goes away only where no other is."""
    selector = f"{RAY_CLUSTER}={ray_cluster},{RAY_NODE_TYPE}={node_type}"
    found = sorted(cluster.list("v1", "Pod", namespace, label_selector=selector), key=lambda p: p["metadata"]["name"])
    return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")] or found


class PodLogs:
    """Reads the pods that `choose` picks of those that are there, one thread each.

    `make` makes the reader of a pod; `say` gets a line for a person. `over` says whether no pod will come any more.
    """

    def __init__(
        self, find: Callable[[], Sequence[Pod]], make: Callable[[Pod, threading.Event], PodLog], over: Callable[[], bool],
        say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._find, self._make, self._over, self._say = find, make, over, say
        self._stop = threading.Event()
        self._threads: dict[str, threading.Thread] = {}
        self._failure: BaseException | None = None

    def follow(self, pods: Sequence[Pod]) -> None:
        """Follow `pods`, and each that comes later, until no pod is left and none will come.

        Raises what ended a reader: a refusal, or a pipe that was closed.
        """
        lost = False
        try:
            while True:
                for pod in pods:
                    self._start(pod)
                self._stop.wait(LOOK)
                if self._failure is not None:
                    raise self._failure
                try:
                    pods = self._find()
                    done = self._all_read(pods) and self._over()
                except ClusterError as error:
                    if error.status in (401, 403):
                        raise
                    if not lost:
                        self._say(f"connection to the API server lost ({error.message}); reconnecting")
                    lost, done = True, False
                else:
                    lost = False
                if done:
                    return
        finally:
            self._stop.set()

    def _all_read(self, pods: Sequence[Pod]) -> bool:
        known = all(str(pod["metadata"]["uid"]) in self._threads for pod in pods)
        return known and not any(thread.is_alive() for thread in self._threads.values())

    def _start(self, pod: Pod) -> None:
        uid = str(pod["metadata"]["uid"])
        if uid in self._threads:
            return
        reader = self._make(pod, self._stop)

        def read() -> None:
            try:
                reader.read(follow=True)
            except (ClusterError, OSError) as error:  # handed to the thread that waits
                self._failure = self._failure or error
                self._stop.set()

        thread = threading.Thread(target=read, name=f"log of {reader.name}", daemon=True)
        self._threads[uid] = thread
        thread.start()
