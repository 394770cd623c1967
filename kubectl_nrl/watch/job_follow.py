"""Follows one driver on a long-lived Ray cluster to its final state.

Ray has no watch for jobs, so the state is asked for twice a second over one kept connection. That a head does not answer is no end;
that it answers and does not know a job which it had is one: the head was replaced, and the driver went with it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import ClusterError
from ..labels import RAY_API
from ..rayjob_state import FAILED, STOPPED, SUCCEEDED
from .deletion import deletion
from .driver_log import DriverLog, JobsApi

#: Seconds between two questions for the state.
POLL = 0.5
#: Seconds without an answer before that is said.
QUIET = 3.0
FINAL = frozenset({SUCCEEDED, FAILED, STOPPED})


@dataclass(frozen=True)
class JobTarget:
    """What is followed: a job by its id, on the RayCluster of that name and uid."""

    namespace: str
    ray_cluster: str
    uid: str
    submission_id: str


@dataclass(frozen=True)
class JobEnd:
    """Why following ended: `final` (Ray's `state`), `forgotten` (a new head does not know the job), `timeout`, or `lost` (unknown).

    `gone`: it is lost because its cluster is not there any more, so that there is nothing to come back to.
    """

    how: Literal["final", "forgotten", "timeout", "lost"]
    state: str = ""
    message: str = ""
    gone: bool = False


class JobFollow:
    """One driver's event stream. `connect` makes a `JobsApi` for a RayCluster's name; `say` gets a line per change.

    `patience`: seconds without an answer after which the outcome counts as unknown.
    """

    def __init__(
        self,
        cluster: Any,
        target: JobTarget,
        connect: Callable[[str], JobsApi],
        *,
        say: Callable[[str], None],
        event: Callable[[Mapping[str, Any]], None] = lambda event: None,
        log: DriverLog | None = None,
        patience: float = 900.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster, self._target, self._connect = cluster, target, connect
        self._say, self._event, self._log = say, event, log
        self._patience, self._clock = patience, clock
        self._jobs: JobsApi | None = None
        self._state = ""
        self._silent_since: float | None = None
        self._said_silence = False
        self._woken = threading.Event()

    def until_final(self, timeout: float | None = None) -> JobEnd:
        """Wait for the end, `timeout` seconds at most (None: for ever). Raises what the log's reader failed with (a closed pipe)."""
        deadline = None if timeout is None else self._clock() + timeout
        try:
            while True:
                end = self._look()
                if end is not None:
                    return end
                if self._log is not None and self._log.failure is not None:
                    raise self._log.failure
                if deadline is not None and self._clock() >= deadline:
                    return JobEnd("timeout", self._state, self._state or "no driver yet")
                self._woken.wait(POLL)
        finally:
            self._disconnect()

    def _look(self) -> JobEnd | None:
        try:
            if self._jobs is None:
                self._jobs = self._connect(self._target.ray_cluster)
            job = self._jobs.get(self._target.submission_id)
        except ClusterError as error:
            return self._trouble(error)
        if self._said_silence:
            self._say(f"raycluster/{self._target.ray_cluster} answers again")
        self._silent_since, self._said_silence = None, False
        if job is None:
            return JobEnd("forgotten", "", self._what_happened())
        return self._tell(str(job.get("status") or "UNKNOWN"), str(job.get("message") or ""))

    def _tell(self, state: str, message: str) -> JobEnd | None:
        if state != self._state:
            self._state = state
            self._event({"event": "state", "jobStatus": state})
            if state not in FINAL:
                self._say(f"driver {state}")
        return JobEnd("final", state, message.partition(", last available logs")[0].strip()) if state in FINAL else None

    def _trouble(self, error: ClusterError) -> JobEnd | None:
        self._disconnect()
        now = self._clock()
        self._silent_since = self._silent_since or now
        if error.reason == "Gone":
            return JobEnd("lost", self._state, self._replaced() or error.message, gone=True)
        if error.status in (401, 403):
            return JobEnd("lost", self._state, error.message)
        if now - self._silent_since >= self._patience:
            return JobEnd("lost", self._state, f"no answer for {now - self._silent_since:.0f} s: {error.message}")
        if error.reason in ("NoHead", "PortClosed"):
            gone = self._replaced()
            if gone:
                return JobEnd("lost", self._state, gone, gone=True)
        if not self._said_silence and now - self._silent_since >= QUIET:
            self._said_silence = True
            self._say(f"no answer from raycluster/{self._target.ray_cluster} ({error.message}); asking again")
        return None

    def _replaced(self) -> str:
        """What became of the RayCluster, when it is not the one that was submitted to any more."""
        target = self._target
        try:
            live = self._cluster.get(RAY_API, "RayCluster", target.ray_cluster, target.namespace)
        except ClusterError:
            return ""
        if live is None or live["metadata"].get("deletionTimestamp"):
            words = deletion(self._cluster, f"raycluster/{target.ray_cluster} was deleted", target.namespace)
            return f"{words}, and the driver with it"
        other = live["metadata"]["uid"] != target.uid
        return f"raycluster/{target.ray_cluster} was replaced by another of the same name" if other else ""

    def _what_happened(self) -> str:
        from ..ray_jobs import head_history

        return self._replaced() or head_history(self._cluster, self._target.namespace, self._target.ray_cluster)

    def _disconnect(self) -> None:
        jobs, self._jobs = self._jobs, None
        if jobs is not None:
            jobs.close()
