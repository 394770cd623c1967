"""What is known of one run's Ray cluster while it starts and runs: its pods and objects, judged as a whole and told.

The judges are those of `kubectl_nrl.reasons`; here is only when they are asked, and what of their answer is news.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..labels import RAY_CLUSTER
from ..reasons import Situation, Snapshot, Trouble, being_deleted, snapshot
from ..reasons.gather import unready
from ..reasons.server_clock import ServerClock
from ..triage import DeadPod, death_of
from .feeds import Feeds
from .inquiry import Answer, Inquiry
from .telling import Readiness, Telling

#: Seconds of quiet after which changes are judged, so that pods of one kind make one line; and how long to wait for quiet.
SETTLE, UNSETTLED = 0.4, 2.0
#: Seconds between two judgements without a change: some causes are a matter of time.
JUDGE = 1.0


class Wait:
    """Of the present attempt. `view` gets each new picture, `say` a line for each trouble that is news."""

    def __init__(
        self,
        feeds: Feeds,
        inquiry: Inquiry,
        *,
        say: Callable[[str], None],
        warn: Callable[[str], None],
        event: Callable[[Mapping[str, Any]], None],
        view: Callable[[Snapshot], None],
        clock: Callable[[], float],
    ) -> None:
        self._feeds, self._inquiry = feeds, inquiry
        self._say, self._warn, self._event, self._view = say, warn, event, view
        self._clock = clock
        self._server_clock = ServerClock(clock)
        self._telling, self._readiness = Telling(self._tell, clock), Readiness(say, clock)
        self._stop = threading.Event()
        self.ray_cluster = ""
        self.pods: dict[str, Mapping[str, Any]] = {}
        #: Whether `pods` are all that there are: a list of them has arrived, or why there will be none.
        self.listed, self.refused = False, False
        #: Pods of the attempt that died, by name: what killed a run is often deleted before the run is over.
        self.deaths: dict[str, DeadPod] = {}
        #: Pods of which some picture has told a trouble, and those that died and were gone before one could.
        self._told_of: set[str] = set()
        self._vanished: list[DeadPod] = []
        self._object: Mapping[str, Any] | None = None
        self._answer, self._faults_told = Answer(), set[str]()
        self._picture: Snapshot | None = None
        self._changed: tuple[float, float] | None = None
        self._judge_at = clock() + JUDGE

    def close(self) -> None:
        self._stop.set()

    def attempt(self, name: str) -> bool:
        """Look at the RayCluster of that name from now on; False when it is looked at already.

        KubeRay makes a new one for each attempt (backoffLimit).
        """
        if name == self.ray_cluster:
            return False
        self._stop.set()
        self._stop = threading.Event()
        self.ray_cluster, self.pods, self._object, self._answer = name, {}, None, Answer()
        self.deaths, self.listed, self.refused = {}, False, False
        selector = f"{RAY_CLUSTER}={name}"
        self._feeds.watch(f"pods {name}", "v1", "Pod", self._stop, whole=True, label_selector=selector)
        self._feeds.watch(f"rayclusters {name}", "ray.io/v1", "RayCluster", self._stop, name=name)
        return True

    def saw(self, obj: Mapping[str, Any]) -> None:
        """Learn the server's time from an object that has arrived."""
        self._server_clock.saw(obj)

    def changed(self) -> None:
        """Something is to be judged, when the changes have settled."""
        now = self._clock()
        self._changed = (self._changed[0] if self._changed else now, now)

    def handle(self, source: str, item: Any) -> None:
        """What the watches of `attempt` and the inquiry put into the queue."""
        kind, _, of = source.partition(" ")
        if source == "inquiry":
            self._on_answer(item)
        elif source.endswith(" refused"):
            self.refused = self.refused or (kind == "pods" and of == f"{self.ray_cluster} refused")
            self._warn(f"{kind} cannot be watched: {item.message}")
        elif source == f"pods {self.ray_cluster} listed":
            for pod in item:
                self._on_pod(str(pod["metadata"].get("uid")), pod, gone=False)
            self.listed = True
            self.changed()
        elif source.endswith(" listed"):
            return  # of an earlier attempt
        elif of == self.ray_cluster and item.type not in ("LOST", "BACK"):  # else of an earlier attempt's
            self.saw(item.object)
            gone, uid = item.type == "DELETED", str(item.object["metadata"].get("uid"))
            if kind == "rayclusters":
                self._object = None if gone else item.object
            else:
                self._on_pod(uid, item.object, gone)
            self.changed()

    def _on_pod(self, uid: str, pod: Mapping[str, Any], gone: bool) -> None:
        if gone:
            self.pods.pop(uid, None)
        else:
            self.pods[uid] = pod
        died = death_of(pod)
        if died is not None:
            self.deaths[died.name] = died
            if gone and died.name not in self._told_of:
                self._vanished.append(died)

    def _on_answer(self, answer: Answer) -> None:
        if answer != self._answer:
            self._answer = answer
            self.changed()
        for event in answer.events:
            self.saw(event)
        for fault in answer.faults:
            if fault not in self._faults_told:
                self._faults_told.add(fault)
                self._warn(fault)

    def due(self) -> bool:
        """Whether something has changed and settled, or it is time to look again."""
        now = self._clock()
        if self._changed is not None and (now - self._changed[1] >= SETTLE or now - self._changed[0] >= UNSETTLED):
            return True
        return now >= self._judge_at

    def judge(self, rayjob: Mapping[str, Any], *, over: bool) -> Snapshot:
        """The picture of now; says what is news in it, unless the run is over: how pods end is no news."""
        began, self._changed = self._clock(), None
        pods, answer = tuple(self.pods.values()), self._answer
        situation = Situation(rayjob, self._object, pods, answer.events, answer.said, answer.faults)
        picture = snapshot(situation, self._server_clock.now())
        now = self._clock()
        # A thousand pods take their time to judge, and this is not to fill a core.
        self._judge_at = now + max(JUDGE, 20 * (now - began))
        if picture != self._picture:
            self._picture = picture
            self._view(picture)
        self._told_of.update(name for trouble in picture.troubles for name in trouble.pods)
        vanished, self._vanished = self._vanished, []
        if over:
            self._inquiry.rest()
            return picture
        self._tell_vanished(vanished)
        if unready(rayjob, pods):
            self._inquiry.about(rayjob, pods)
        else:
            self._inquiry.rest()
            self._answer = replace(answer, said=())
        # What is the state itself (`Suspended`) is said as such.
        self._telling.tell(trouble for trouble in picture.troubles if trouble.reason != picture.state)
        if not all(map(being_deleted, pods)):
            self._readiness.tell(
                *(sum(getattr(group, what) for group in picture.groups) for what in ("ready", "total"))
            )
        return picture

    def _tell_vanished(self, vanished: Sequence[DeadPod]) -> None:
        """A line for all that were taken away for one reason: evicted and preempted pods are gone before a picture shows them."""
        alike: dict[tuple[str, str, str], list[DeadPod]] = {}
        for died in vanished:
            alike.setdefault((died.role, died.reason, died.message), []).append(died)
        for group in alike.values():
            more = f" (and {len(group) - 1} more)" if len(group) > 1 else ""
            self._warn(f"{group[0].line}{more}")
            self._event({"event": "cause", "message": group[0].line})

    def _tell(self, trouble: Trouble) -> None:
        self._say(trouble.line)
        self._event({"event": "cause", "message": trouble.line})
