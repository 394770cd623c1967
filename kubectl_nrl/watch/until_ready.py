"""Waits until one RayCluster or Deployment, of one uid, is up, and says meanwhile what is missing and why.

The object's state is taken from a watch that is compared with the uid each time: a name can be given to another object while
somebody waits.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any

from ..errors import ClusterError, ExitCode, NrlError
from ..labels import RAY_CLUSTER
from .pods import causes
from .readiness import Readiness, readiness_of

#: Seconds of quiet after which changes of pods are told, so that pods of one kind make one line.
SETTLE = 0.4
#: Seconds between tries to reach what should answer by now.
PROBE = 0.5
#: Seconds between looks at causes that are a matter of time.
LOOK = 10.0


class UntilReady:
    """The wait for one object. `live` is the object as it was made or found; `say` gets a line per change.

    `probe(live)` is called once the object looks ready, and again until it raises no `ClusterError`: what must answer.
    `stop` ends the wait early: `until` then gives None.
    """

    def __init__(
        self,
        cluster: Any,
        live: Mapping[str, Any],
        *,
        say: Callable[[str], None],
        probe: Callable[[Mapping[str, Any]], None] = lambda live: None,
        suspended_by: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster, self._live, self._say, self._probe = cluster, live, say, probe
        self._suspended_by, self._clock = suspended_by, clock
        self._queue: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._pods: dict[str, Mapping[str, Any]] = {}
        self._pods_changed: float | None = None
        self._next_look = clock() + LOOK
        self._said: set[Any] = set()
        self._state = ""
        self._why = ""

    @property
    def words(self) -> str:
        return f"{self._live['kind'].lower()}/{self._live['metadata']['name']}"

    def until(self, deadline: float, stop: threading.Event) -> Mapping[str, Any] | None:
        """The ready object; None when `stop` was set. `deadline` is a time of the clock.

        Raises `NrlError` with GAVE_UP at the deadline, `ClusterError` when it is deleted, replaced, or never gets ready by waiting.
        """
        readiness = readiness_of(self._live, self._suspended_by)
        if readiness.ready and self._answers():
            return self._live  # nothing is watched for what is up already
        self._watch()
        try:
            while not stop.is_set():
                readiness = readiness_of(self._live, self._suspended_by)
                if readiness.ready and self._answers():
                    return self._live
                self._tell(readiness)
                if readiness.stuck:
                    raise self._never(readiness)
                if self._clock() >= deadline:
                    why = self._why if readiness.ready else readiness.words
                    raise NrlError(
                        f"gave up waiting for {self.words}: {why}", self._look_hint(), exit_code=ExitCode.GAVE_UP
                    )
                self._take(PROBE)
            return None
        finally:
            self._closed.set()

    def _answers(self) -> bool:
        try:
            self._probe(self._live)
        except ClusterError as error:
            if error.status in (401, 403):
                raise
            self._why = error.message
            self._once("probe", f"{self.words}: its pods are ready, waiting for it to answer ({error.message})")
            return False
        return True

    def _watch(self) -> None:
        meta = self._live["metadata"]
        self._pump("object", self._live["apiVersion"], self._live["kind"], name=meta["name"])
        selector = f"{RAY_CLUSTER}={meta['name']}"
        if self._live["kind"] == "Deployment":
            labels = ((self._live.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
            selector = ",".join(f"{key}={value}" for key, value in labels.items())
        self._pump("pod", "v1", "Pod", label_selector=selector)

    def _pump(self, source: str, api: str, kind: str, **words: Any) -> None:
        namespace = self._live["metadata"]["namespace"]

        def run() -> None:
            try:
                for item in self._cluster.watch(api, kind, namespace, stop=self._closed, **words):
                    self._queue.put((source, item))
                    if self._closed.is_set():
                        return
            except ClusterError as error:
                self._queue.put((f"{source} refused", error))

        threading.Thread(target=run, name=f"ready-{source}", daemon=True).start()

    def _take(self, seconds: float) -> None:
        try:
            item = self._queue.get(timeout=seconds)
            while True:
                self._handle(*item)
                item = self._queue.get_nowait()
        except queue.Empty:
            pass
        now = self._clock()
        if (self._pods_changed is not None and now - self._pods_changed >= SETTLE) or now >= self._next_look:
            self._pods_changed, self._next_look = None, now + LOOK
            for key, line in causes(self._pods.values(), datetime.now(timezone.utc)).items():
                self._once(key, f"{self.words}: {line}")

    def _handle(self, source: str, item: Any) -> None:
        if source == "object refused":
            raise item
        if source == "pod refused":
            self._once("pods", f"{self.words}: its pods cannot be watched: {item.message}")
        elif item.type in ("LOST", "BACK"):
            if source == "object":
                state = f"lost ({item.error}), reconnecting" if item.type == "LOST" else "back"
                self._say(f"{self.words}: connection to the API server {state}")
        elif source == "object":
            self._on_object(item.type, item.object)
        else:
            self._on_pod(item.type, item.object)

    def _on_object(self, kind: str, live: Mapping[str, Any]) -> None:
        other = live["metadata"].get("uid") != self._live["metadata"]["uid"]
        if kind == "DELETED" and not other:
            raise ClusterError(f"{self.words} was deleted while it was waited for", reason="Gone")
        if kind == "DELETED":
            return
        if other:
            raise ClusterError(f"{self.words} was replaced by another of the same name while it was waited for")
        self._live = live

    def _on_pod(self, kind: str, pod: Mapping[str, Any]) -> None:
        uid = str(pod["metadata"].get("uid"))
        if kind == "DELETED":
            self._pods.pop(uid, None)
        else:
            self._pods[uid] = pod
        self._pods_changed = self._clock()

    def _tell(self, readiness: Readiness) -> None:
        if readiness.words != self._state:
            self._state = readiness.words
            self._say(f"{self.words}: {readiness.words}")

    def _once(self, key: Any, line: str) -> None:
        if key not in self._said:
            self._said.add(key)
            self._say(line)

    def _never(self, readiness: Readiness) -> ClusterError:
        hint = self._look_hint()
        if (self._live.get("spec") or {}).get("suspend"):
            meta = self._live["metadata"]
            patch = """-p '{"spec":{"suspend":false}}'"""
            hint = f"kubectl patch raycluster {meta['name']} -n {meta['namespace']} --type merge {patch}"
        return ClusterError(f"{self.words} is {readiness.words}", hint)

    def _look_hint(self) -> str:
        meta = self._live["metadata"]
        return f"kubectl describe {self._live['kind'].lower()} {meta['name']} -n {meta['namespace']}"
