"""Follows one driver on a long-lived Ray cluster to its final state.

Ray has no watch for jobs, so the state is asked for twice a second over one kept connection. That a head does not answer is no end;
that another head answers and does not know the job is one: the driver went with the head that had it. That the same head does not know it
any more (somebody removed what it knew it by) says nothing of the driver.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import ClusterError
from ..labels import RAY_API
from ..rayjob_state import FAILED, STOPPED, SUCCEEDED, message_of
from .deletion import deletion
from .driver_log import DriverLog, JobsApi

#: Seconds between two questions for the state.
POLL = 0.5
#: Seconds without an answer before that is said.
QUIET = 3.0
#: Seconds for which a head that says it was not replaced is asked again for a job that it has forgotten: what Kubernetes tells of a
#: container that was started again comes after it.
FORGETFUL = 10.0
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
    """Why following ended: `final` (Ray's `state`), `forgotten` (a new head does not know the job), `timeout`, `deleted`, or `lost`.


    Deleted: the RayCluster of that uid is gone, or going, by somebody else. Lost: the outcome is unknown.
    """

    how: Literal["final", "forgotten", "timeout", "deleted", "lost"]
    state: str = ""
    message: str = ""


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
        #: The life of the head that knew the job last, and since when one of that life does not.
        self._life = ""
        self._forgotten_since: float | None = None
        #: The job as it was told last.
        self.job: Mapping[str, Any] = {}
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
            return self._unknown()
        self.job, self._life, self._forgotten_since = job, self._jobs.life, None
        return self._tell(str(job.get("status") or "UNKNOWN"), message_of(job))

    def _tell(self, state: str, message: str) -> JobEnd | None:
        if state != self._state:
            self._state = state
            self._event({"event": "state", "jobStatus": state})
            if state not in FINAL:
                self._say(f"driver {state}")
        return JobEnd("final", state, message) if state in FINAL else None

    def _trouble(self, error: ClusterError) -> JobEnd | None:
        self._disconnect()
        now = self._clock()
        self._silent_since = self._silent_since or now
        if error.reason == "Gone":
            return JobEnd("deleted", self._state, self._deleted() or error.message)
        if error.status in (401, 403):
            return JobEnd("lost", self._state, error.message)
        if now - self._silent_since >= self._patience:
            return JobEnd("lost", self._state, f"no answer for {now - self._silent_since:.0f} s: {error.message}")
        if error.reason in ("NoHead", "PortClosed"):
            gone = self._deleted()
            if gone:
                return JobEnd("deleted", self._state, gone)
        if not self._said_silence and now - self._silent_since >= QUIET:
            self._said_silence = True
            self._say(f"no answer from raycluster/{self._target.ray_cluster} ({error.message}); asking again")
        return None

    def _unknown(self) -> JobEnd | None:
        """The head answers, and does not know the job."""
        from ..ray_jobs import head_history

        target, now = self._target, self._clock()
        gone = self._deleted()
        if gone:
            return JobEnd("deleted", self._state, gone)
        if self._jobs is not None and self._life and self._jobs.life == self._life:
            self._disconnect()
            self._forgotten_since = self._forgotten_since or now
            if now - self._forgotten_since < FORGETFUL:
                return None
            why = (
                f"raycluster/{target.ray_cluster} does not know the driver any more, and its head was not started again"
            )
            return JobEnd("lost", self._state, why)
        return JobEnd("forgotten", "", head_history(self._cluster, target.namespace, target.ray_cluster))

    def _deleted(self) -> str:
        """What became of the RayCluster, when it is not the one that was submitted to any more."""
        target = self._target
        try:
            live = self._cluster.get(RAY_API, "RayCluster", target.ray_cluster, target.namespace)
        except ClusterError:
            return ""
        if live is None:
            words = deletion(self._cluster, f"raycluster/{target.ray_cluster} was deleted", target.namespace)
            return f"{words} before the run ended"
        if live["metadata"].get("deletionTimestamp"):
            words = deletion(self._cluster, f"raycluster/{target.ray_cluster} is being deleted", target.namespace)
            return f"{words}, before the run ended"
        other = live["metadata"]["uid"] != target.uid
        return f"raycluster/{target.ray_cluster} was replaced by another of the same name" if other else ""

    def _disconnect(self) -> None:
        jobs, self._jobs = self._jobs, None
        if jobs is not None:
            jobs.close()
