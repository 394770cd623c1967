"""Watches one RayJob, of one uid, to its end: its states, its Ray cluster, its pods and their troubles, its driver's log.

Watches feed one queue and the caller's thread does the thinking, so that Ctrl-C lands in that thread and a state change is
acted on the moment it arrives. A read every half minute stands behind the watch, for a stream that died without a word.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..api import Provider
from ..errors import ClusterError
from ..labels import RAY_API, RAY_CLUSTER
from ..rayjob_state import Outcome, describe, message_of, outcome, span, status_of
from ..reasons import Snapshot, Trouble, is_worker
from ..triage import DeadPod
from .deletion import deletion
from .driver_log import DriverLog, Source
from .feeds import Feeds
from .inquiry import Inquiry
from .start_limit import StartLimit
from .wait import Wait

#: Seconds between the reads that back the watch up, and before the first one while there is nothing to be seen.
REREAD, UNSEEN = 30.0, 3.0
#: Seconds without the API server after which a run's outcome counts as unknown.
PATIENCE = 900.0


@dataclass(frozen=True)
class RunTarget:
    """What is watched: a RayJob by name and uid. `cluster` reads and watches, see `kubectl_nrl.cluster.Cluster`."""

    namespace: str
    name: str
    uid: str
    run_id: str


@dataclass(frozen=True)
class End:
    """Why watching ended: `final` (with its outcome), `timeout`, `deleted`, `lost` (unknown; `message` says why), or `stuck`.

    Deleted: the RayJob of that uid is gone, by somebody else; what it ran on may still be ending. Stuck: the run waits for something
    that does not come (`trouble`), for longer than the start may take.
    """

    how: Literal["final", "timeout", "deleted", "lost", "stuck"]
    outcome: Outcome | None = None
    message: str = ""
    trouble: Trouble | None = None


class Follow:
    """One run's event stream. `say` gets a line per change, `event` what observers are told, `view` each new picture.

    All in the caller's thread. While `shown` says that a person sees the picture, what it shows is not said as well.

    `patience`: see `PATIENCE`. `providers` are asked why the run waits. `start_limit`: seconds that a cause which does not
    heal alone may last before the driver runs; None for ever.
    """

    def __init__(
        self,
        cluster: Any,
        target: RunTarget,
        *,
        say: Callable[[str], None] = lambda text: None,
        warn: Callable[[str], None] = lambda text: None,
        event: Callable[[Mapping[str, Any]], None] = lambda event: None,
        view: Callable[[Snapshot], None] = lambda picture: None,
        shown: Callable[[], bool] = lambda: False,
        log: DriverLog | None = None,
        providers: Sequence[Provider] = (),
        start_limit: float | None = None,
        patience: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster, self._target = cluster, target
        self._say, self._warn, self._event = say, warn, event
        self._shown = shown
        self._log = log
        self._patience, self._clock = PATIENCE if patience is None else patience, clock
        self._feeds = Feeds(cluster, target.namespace)
        self._inquiry = Inquiry(cluster, target.namespace, providers, lambda answer: self._feeds.put("inquiry", answer))
        self._wait = Wait(
            self._feeds, self._inquiry, say=self._say_unseen, warn=warn, event=event, view=view, clock=clock
        )
        self._limit = StartLimit(start_limit)
        self._stop = threading.Event()
        self.rayjob: Mapping[str, Any] = {}
        self._driver_ran = False
        self._said_state, self._said_deletion = "", False
        self._lost_since: float | None = None
        self._end: End | None = None
        self._reread_at = clock() + UNSEEN
        self._feeds.watch("rayjob", RAY_API, "RayJob", self._stop, name=target.name)

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
                if not self.rayjob:
                    self._reread()  # the watch may just have begun, and what it gives up on is to be said
                if self._end is None:
                    return End("timeout", message=describe(status_of(self.rayjob)))
        self._judge()  # the last picture
        return self._end

    def until_gone(self, within: float, *, head_too: bool) -> list[Mapping[str, Any]] | None:
        """Wait until the workers (with `head_too` all pods) are gone; the pods that are left after `within` seconds.

        None when that cannot be told: pods may not be seen, or the API server has not said which there are.
        """
        deadline = self._clock() + within
        while True:
            pods = self._pods_now()
            left = None if pods is None else [p for p in pods if head_too or is_worker(p)]
            if left == [] or self._clock() >= deadline or (left is None and self._wait.refused):
                return left
            self._take(0.25 if not self._wait.refused else 1.0)

    def _pods_now(self) -> Sequence[Mapping[str, Any]] | None:
        """All pods of the present attempt; asked for where they may be listed and not watched."""
        if not self._wait.refused:
            return tuple(self.pods.values()) if self._wait.listed else None
        selector = f"{RAY_CLUSTER}={self.ray_cluster}"
        try:
            return tuple(self._cluster.list("v1", "Pod", self._target.namespace, label_selector=selector))
        except ClusterError:
            return None

    def close(self) -> None:
        self._stop.set()
        self._wait.close()
        self._inquiry.close()

    @property
    def ray_cluster(self) -> str:
        """The present attempt's RayCluster; empty before there is one."""
        return self._wait.ray_cluster

    @property
    def pods(self) -> Mapping[str, Mapping[str, Any]]:
        """The present attempt's pods, by uid."""
        return self._wait.pods

    def deaths(self) -> Sequence[DeadPod]:
        """The pods of the present attempt that died, oldest first, those that are gone by now too."""
        self._take(0)
        return tuple(self._wait.deaths.values())

    def _take(self, wait: float) -> None:
        """Handle everything that has arrived, waiting up to `wait` seconds for the first."""
        for source, item in self._feeds.arrived(wait):
            self._handle(source, item)
        if self._wait.due():
            self._judge()

    def _judge(self) -> None:
        if not self.rayjob:
            return
        picture = self._wait.judge(self.rayjob, over=self._end is not None)
        if self._end is None:
            self._consider_start(picture)

    def _consider_start(self, picture: Snapshot) -> None:
        """Give up a start that cannot succeed; not while the API server is away, since what is known may be old."""
        if self._driver_ran or self._lost_since is not None:
            return
        struck = self._limit.strikes(picture.troubles, self._clock())
        if struck is not None:
            trouble, lasted = struck
            after = f" after {span(lasted)}" if trouble.heals != "never" else ""
            self._end = End("stuck", message=f"it cannot start{after}: {trouble.line}", trouble=trouble)

    def _handle(self, source: str, item: Any) -> None:
        if source == "rayjob refused":
            self._end = self._end or End("lost", message=str(item.message))
        elif source == "rayjob" and item.type in ("LOST", "BACK"):
            self._on_connection(item)  # one outage is one line, though every watch meets it
        elif source == "rayjob":
            self._lost_since = None
            self._wait.saw(item.object)
            self._on_rayjob(item.type, item.object)
        else:
            self._wait.handle(source, item)

    def _on_connection(self, item: Any) -> None:
        if item.type == "LOST":
            self._lost_since = self._lost_since or self._clock()
            self._say(f"connection to the API server lost ({item.error}); the run goes on, reconnecting")
            return
        if self._lost_since is not None:
            self._say("connection to the API server is back")
            self._limit.skip(self._clock() - self._lost_since + REREAD)
        self._lost_since = None
        self._reread_at = self._clock()

    def _on_rayjob(self, kind: str, rayjob: Mapping[str, Any]) -> None:
        if rayjob["metadata"].get("uid") != self._target.uid:
            if self._end is None and kind != "DELETED":
                replaced = f"rayjob/{self._target.name} was deleted before it ended, and another of its name made"
                self._end = End("deleted", message=replaced)
            return
        if kind == "DELETED":
            self._on_deleted()
            return
        if not self.rayjob:
            self._reread_at = self._clock() + REREAD
        self.rayjob = rayjob
        status = status_of(rayjob)
        self._tell_deletion(rayjob)
        self._tell_state(status)
        name = str(status.get("rayClusterName") or "")
        if name and self._wait.attempt(name):
            self._driver_ran = False
            self._limit.reset()
        self._driver_ran = self._driver_ran or status.get("jobStatus") == "RUNNING"
        self._wait.changed()
        self._follow_log(status)
        end = outcome(status)
        if end is not None and self._end is None:
            self._end = End("final", end)

    def _on_deleted(self) -> None:
        if self._end is None:
            words = deletion(self._cluster, f"rayjob/{self._target.name} was deleted", self._target.namespace)
            self._end = End("deleted", message=f"{words} before it ended")

    def _tell_deletion(self, rayjob: Mapping[str, Any]) -> None:
        """KubeRay ends the job of a RayJob that is deleted before it lets it go, which may take a while."""
        if rayjob["metadata"].get("deletionTimestamp") and not self._said_deletion and self._end is None:
            self._said_deletion = True
            self._say(deletion(self._cluster, f"rayjob/{self._target.name} is being deleted", self._target.namespace))

    def _say_unseen(self, text: str) -> None:
        """A line of what the picture shows as well."""
        if not self._shown():
            self._say(text)

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
        self._say_unseen(state + (f" ({' '.join(message.split())})" if message else ""))
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

    def _consider_time(self) -> None:
        now = self._clock()
        if self._end is not None:
            return
        if self._lost_since is not None and now - self._lost_since >= self._patience:
            self._end = End("lost", message=f"the API server has not been reached for {now - self._lost_since:.0f} s")
        elif now >= self._reread_at:
            self._reread_at = now + REREAD
            self._reread()

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
