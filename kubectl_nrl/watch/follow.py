"""Watches one RayJob, of one uid, to its end: its states, its pods and their troubles, its driver's log.

Two watches feed one queue and the caller's thread does the thinking, so that Ctrl-C lands in that thread and a state
change is acted on the moment it arrives. A read every half minute stands behind the watch, for a stream that died
without a word.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal

from ..errors import ClusterError
from ..labels import RAY_CLUSTER
from ..rayjob_state import Outcome, describe, message_of, outcome, status_of
from .driver_log import DriverLog, Source
from .pods import being_deleted, causes, is_worker, readiness

RAY_API = "ray.io/v1"

#: Seconds between the reads that back the watch up.
REREAD = 30.0
#: Seconds that a ready Ray cluster may go without a driver before the operator is suspected.
NO_DRIVER = 120.0
#: Seconds without the API server after which a run's outcome counts as unknown.
PATIENCE = 900.0
#: Seconds of quiet after which changes of pods are told, so that pods of one kind make one line.
SETTLE = 0.4


@dataclass(frozen=True)
class RunTarget:
    """What is watched: a RayJob by name and uid. `cluster` reads and watches, see `kubectl_nrl.cluster.Cluster`."""

    namespace: str
    name: str
    uid: str
    run_id: str


@dataclass(frozen=True)
class End:
    """Why watching ended: `final` (with its outcome), `timeout`, or `lost` (unknown; `message` says why)."""

    how: Literal["final", "timeout", "lost"]
    outcome: Outcome | None = None
    message: str = ""


class Follow:
    """One run's event stream. `say` gets a line per change, `event` what observers are told.

    Both in the caller's thread.

    `patience`: see `PATIENCE`.
    """

    def __init__(
        self,
        cluster: Any,
        target: RunTarget,
        *,
        say: Callable[[str], None] = lambda text: None,
        warn: Callable[[str], None] = lambda text: None,
        event: Callable[[Mapping[str, Any]], None] = lambda event: None,
        log: DriverLog | None = None,
        patience: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster, self._target = cluster, target
        self._say, self._warn, self._event = say, warn, event
        self._log = log
        self._patience, self._clock = PATIENCE if patience is None else patience, clock
        self._queue: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._pods_stop = threading.Event()
        self.rayjob: Mapping[str, Any] = {}
        self.pods: dict[str, Mapping[str, Any]] = {}
        self.ray_cluster = ""
        self._said_state = ""
        self._said_causes: set[tuple[str, str, str]] = set()
        self._said_ready = ""
        self._pods_changed_at: float | None = None
        self._lost_since: float | None = None
        self._ready_since: float | None = None
        self._warned_no_driver = False
        self._end: End | None = None
        self._reread_at = clock() + REREAD
        self._pump("rayjob", RAY_API, "RayJob", self._stop, name=target.name)

    def until_final(self, timeout: float | None = None) -> End:
        """Wait for the run's end. `timeout` in seconds, None for ever.

        Raises what the log's reader failed with (a closed pipe).
        """
        end = self._until(lambda: False, timeout)
        assert end is not None
        return end

    def until_waiting(self, timeout: float | None = None) -> End | None:
        """Wait until KubeRay expects a job (InteractiveMode's Waiting), or has one; the end when that comes first."""
        return self._until(lambda: status_of(self.rayjob).get("jobDeploymentStatus") in ("Waiting", "Running"), timeout)

    def _until(self, there: Callable[[], bool], timeout: float | None) -> End | None:
        deadline = None if timeout is None else self._clock() + timeout
        while self._end is None:
            if there():
                return None
            self._take(0.25)
            self._consider_time()
            if self._log is not None and self._log.failure is not None:
                raise self._log.failure
            if self._end is None and deadline is not None and self._clock() >= deadline:
                return End("timeout", message=describe(status_of(self.rayjob)))
        return self._end

    def until_gone(self, within: float, *, head_too: bool) -> list[Mapping[str, Any]]:
        """Wait until the workers (with `head_too` all pods) are gone; the pods that are left after `within` seconds."""
        deadline = self._clock() + within
        while True:
            left = [p for p in self.pods.values() if head_too or is_worker(p)]
            if not left or self._clock() >= deadline:
                return left
            self._take(0.25)

    def close(self) -> None:
        self._stop.set()
        self._pods_stop.set()

    def _pump(self, source: str, api: str, kind: str, stop: threading.Event, **words: Any) -> None:
        def run() -> None:
            try:
                for item in self._cluster.watch(api, kind, self._target.namespace, stop=stop, **words):
                    if stop.is_set():
                        return
                    self._queue.put((source, item))
            except ClusterError as error:
                self._queue.put((f"{source} refused", error))

        threading.Thread(target=run, name=f"watch-{source}", daemon=True).start()

    def _take(self, wait: float) -> None:
        """Handle everything that has arrived, waiting up to `wait` seconds for the first."""
        try:
            item = self._queue.get(timeout=wait)
            while True:
                self._handle(*item)
                item = self._queue.get_nowait()
        except queue.Empty:
            pass
        if self._pods_changed_at is not None and self._clock() - self._pods_changed_at >= SETTLE:
            self._pods_changed_at = None
            self._tell_pods()

    def _handle(self, source: str, item: Any) -> None:
        if source == "rayjob refused":
            self._end = self._end or End("lost", message=str(item.message))
        elif source.startswith("pods ") and source.endswith(" refused"):
            self._warn(f"pods cannot be watched: {item.message}")
        elif item.type in ("LOST", "BACK"):
            if source == "rayjob":  # one outage is one line, though every watch meets it
                self._on_connection(item)
        elif source == "rayjob":
            self._lost_since = None
            self._on_rayjob(item.type, item.object)
        else:
            self._on_pod(source, item.type, item.object)

    def _on_connection(self, item: Any) -> None:
        if item.type == "LOST":
            self._lost_since = self._lost_since or self._clock()
            self._say(f"connection to the API server lost ({item.error}); the run goes on, reconnecting")
            return
        if self._lost_since is not None:
            self._say("connection to the API server is back")
        self._lost_since = None
        self._reread_at = self._clock()

    def _on_rayjob(self, kind: str, rayjob: Mapping[str, Any]) -> None:
        if rayjob["metadata"].get("uid") != self._target.uid:
            if self._end is None and kind != "DELETED":
                self._end = End("lost", message=f"rayjob/{self._target.name} was replaced by another of the same name")
            return
        if kind == "DELETED":
            self._on_deleted()
            return
        self.rayjob = rayjob
        status = status_of(rayjob)
        self._tell_state(status)
        name = str(status.get("rayClusterName") or "")
        if name and name != self.ray_cluster:
            self._watch_pods(name)
        self._follow_log(status)
        end = outcome(status)
        if end is not None and self._end is None:
            self._end = End("final", end)

    def _on_deleted(self) -> None:
        self._end = self._end or End("lost", message=f"rayjob/{self._target.name} was deleted before it ended")

    def _tell_state(self, status: Mapping[str, Any]) -> None:
        state = describe(status)
        if state == self._said_state:
            return
        self._said_state = state
        # In a run's normal states the message only repeats them ("Job is currently running.").
        told = (
            status.get("jobDeploymentStatus") in ("Initializing", "Running", "Waiting") or outcome(status) is not None
        )
        message = "" if told else message_of(status)
        self._say(state + (f" ({' '.join(message.split())})" if message else ""))
        self._event(
            {
                "event": "state",
                "deploymentStatus": status.get("jobDeploymentStatus") or "",
                "jobStatus": status.get("jobStatus") or "",
                "reason": status.get("reason") or "",
            }
        )

    def _follow_log(self, status: Mapping[str, Any]) -> None:
        submitted = status.get("jobStatus") or status.get("jobDeploymentStatus") in ("Running", "Complete", "Failed")
        if self._log is None or not submitted or not self.ray_cluster:
            return
        if status.get("jobDeploymentStatus") in ("Retrying", "Suspending", "Suspended"):
            return
        # The cluster's name is as good as its uid: KubeRay makes a new random one for each attempt.
        self._log.follow(Source(self.ray_cluster, self.ray_cluster, str(status.get("jobId") or self._target.run_id)))

    def _watch_pods(self, ray_cluster: str) -> None:
        self._pods_stop.set()
        self._pods_stop = threading.Event()
        self.ray_cluster, self.pods = ray_cluster, {}
        self._ready_since = None
        selector = f"{RAY_CLUSTER}={ray_cluster}"
        self._pump(f"pods {ray_cluster}", "v1", "Pod", self._pods_stop, label_selector=selector)

    def _on_pod(self, source: str, kind: str, pod: Mapping[str, Any]) -> None:
        if source != f"pods {self.ray_cluster}":
            return  # of an earlier attempt's cluster
        uid = str(pod["metadata"].get("uid"))
        if kind == "DELETED":
            self.pods.pop(uid, None)
        else:
            self.pods[uid] = pod
        self._pods_changed_at = self._clock()

    def _tell_pods(self) -> None:
        """Say what changed about the pods, until the run is over: how pods end is no news."""
        if self._end is not None:
            return
        found = causes(self.pods.values(), datetime.now(timezone.utc))
        for key in found.keys() - self._said_causes:
            self._say(found[key])
            self._event({"event": "cause", "message": found[key]})
        self._said_causes |= found.keys()
        ready = readiness(self.pods.values())
        if ready != self._said_ready and not all(map(being_deleted, self.pods.values())):
            self._said_ready = ready
            self._say(ready)

    def _consider_time(self) -> None:
        now = self._clock()
        if self._end is not None:
            return
        if self._lost_since is not None and now - self._lost_since >= self._patience:
            self._end = End("lost", message=f"the API server has not been reached for {now - self._lost_since:.0f} s")
        elif now >= self._reread_at:
            self._reread_at = now + REREAD
            self._reread()
            self._tell_pods()  # some causes are a matter of time, not of change
        self._consider_driver(now)

    def _reread(self) -> None:
        if self._lost_since is not None:
            return
        try:
            live = self._cluster.get(RAY_API, "RayJob", self._target.name, self._target.namespace)
        except ClusterError:
            return  # the watch will say so, or has
        if live is None:
            self._on_deleted()
        else:
            self._on_rayjob("MODIFIED", live)

    def _consider_driver(self, now: float) -> None:
        """Name a cluster that is ready and gets no driver: the operator submits it, and may not reach the dashboard."""
        status = status_of(self.rayjob)
        ready = (status.get("rayClusterStatus") or {}).get("state") == "ready" and not status.get("jobStatus")
        if not ready or status.get("jobDeploymentStatus") not in ("Initializing", "Running"):
            self._ready_since = None
            return
        self._ready_since = self._ready_since or now
        if now - self._ready_since >= NO_DRIVER and not self._warned_no_driver:
            self._warned_no_driver = True
            self._warn(
                f"the Ray cluster {self.ray_cluster} has been ready for {NO_DRIVER:.0f} s and KubeRay has not "
                "submitted the driver: the operator may not reach the head's port 8265 (NetworkPolicy, Ray token), or its "
                "submitter pod does not start"
            )
