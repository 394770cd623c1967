"""What runs left behind, judged from a `Survey`: pure, so that `clean`, `runs`, `status` and `doctor` say the same.

What may still be needed is not litter: a live run, what a run was told to keep, and what is so young that another
terminal may be in the middle of making it. Ages are by the API server's clock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from ..api import User
from ..labels import RUN, Ownership, labels_of, ownership
from ..rayjob_state import STOPPED, Outcome, outcome, parse_time, span, status_of
from .holds import NOTHING, Holds, held
from .lifetimes import lifetimes
from .named import Named
from .ownership_graph import Graph
from .survey import Survey

#: Seconds for which an object without an owner may be one that a run being created is about to own.
SETTLING = 300.0
#: Seconds after a run's end in which whoever follows it reads its log and releases it.
SETTLED = 15.0
#: Seconds that KubeRay may be late with what it was told to delete, and Kubernetes with what is being deleted.
LATE = 60.0
#: Days after which a finished run is forgotten where KubeRay was not told to do it.
RECORD = timedelta(days=7)
#: Seconds that a run waits for the code of a laptop, where the RayJob does not say (`plan.assemble.WAITING`).
UNSUBMITTED = 3600.0

Action = Literal["release", "delete", "look"]


@dataclass(frozen=True)
class Leftover(Named):
    """One object that is litter, and `why`.

    `action`: `release` deletes a finished run's Ray clusters and keeps its RayJob as the record, `delete` deletes the
    object, `look` means that it is being deleted already and something holds it. `busy`: something may still run in it.
    """

    why: str
    action: Action
    owner: Ownership
    run: str
    age: float
    holds: Holds = NOTHING
    busy: bool = False

    @property
    def kind(self) -> str:
        return str(self.manifest["kind"])

    @property
    def words(self) -> str:
        """`rayjob/x`."""
        return f"{self.kind.lower()}/{self.name}"


def leftovers(seen: Survey, user: User) -> list[Leftover]:
    """Everything that nobody needs any more, everybody's, in the order in which it may be deleted: what holds pods first,
    then claims, then what they are made of, domains last. `owner.mine` tells whose it is."""
    return sorted(_Judge(seen, user).all(), key=lambda left: (_ORDER.get(left.kind, 2), left.namespace, left.name))


#: A ComputeDomain goes last: deleted under its pods it takes NVLink from them (dra-driver-nvidia-gpu PR #384).
_ORDER = {"RayJob": 0, "RayCluster": 0, "Pod": 0, "ResourceClaim": 1, "ComputeDomain": 3}


@dataclass(frozen=True)
class _Judge:
    seen: Survey
    user: User

    def all(self) -> Iterator[Leftover]:
        graph = Graph.of(self.seen)
        runs = [left for rayjob in self.seen.rayjobs for left in self._run(rayjob, graph)]
        yield from runs
        for raycluster in self.seen.rayclusters:
            yield from self._raycluster(raycluster, graph)
        for pod in self.seen.pods:
            yield from self._pod(pod, graph)
        for claim in self.seen.claims:
            yield from self._claim(claim, graph)
        going = {left.uid for left in runs if left.action != "look"}
        for child in self.seen.children:
            yield from self._child(child, graph, going)

    def _left(
        self, obj: Mapping[str, Any], why: str, action: Action, *, of: Mapping[str, Any] | None = None, **more: Any
    ) -> Leftover:
        """`of` is what says whose it is, where the object itself does not."""
        labelled = of or obj
        run = str(labels_of(labelled).get(RUN) or "")
        return Leftover(obj, why, action, ownership(labelled, self.user), run, self._age(obj), **more)

    def _run(self, rayjob: Mapping[str, Any], graph: Graph) -> Iterator[Leftover]:
        holds = graph.held_by_run(rayjob)
        if _being_deleted(rayjob):
            yield from self._stuck(rayjob, holds)
            return
        end = outcome(status_of(rayjob))
        if end is None:
            yield from self._unsubmitted(rayjob, holds)
        elif holds.pods or holds.rayclusters:
            yield from self._held_after_the_end(rayjob, end, holds, graph)
        else:
            yield from self._old_record(rayjob, end)

    def _held_after_the_end(
        self, rayjob: Mapping[str, Any], end: Outcome, holds: Holds, graph: Graph
    ) -> Iterator[Leftover]:
        due = lifetimes(rayjob)
        ended = parse_time(status_of(rayjob).get("endTime"))
        if due.kept or (ended is not None and self._since(ended) < SETTLED):
            return
        if due.head is None and due.workers is None:
            busy = end.state != STOPPED  # KubeRay gave up on it, which does not end a driver
            why = f"over ({end.words}), matches no deletion rule"
            yield self._left(rayjob, why, "release", holds=holds, busy=busy)
        elif self._late(due.head):
            why = f"over ({end.words}), and its Ray cluster was due to go {self._ago(due.head)}"
            yield self._left(rayjob, why, "release", holds=holds)
        elif self._late(due.workers) and (workers := graph.workers_of(rayjob)).pods:
            why = f"over ({end.words}), and its workers were due to go {self._ago(due.workers)}"
            yield self._left(rayjob, why, "release", holds=replace(workers, rayclusters=holds.rayclusters))

    def _old_record(self, rayjob: Mapping[str, Any], end: Outcome) -> Iterator[Leftover]:
        ended = parse_time(status_of(rayjob).get("endTime")) or _created(rayjob)
        planned = lifetimes(rayjob).record
        if ended is None or self.seen.now < max(ended + RECORD, planned or ended):
            return
        yield self._left(rayjob, f"the record of a run that ended {self._ago(ended)} ({end.words})", "delete")

    def _unsubmitted(self, rayjob: Mapping[str, Any], holds: Holds) -> Iterator[Leftover]:
        """A run whose code never came. Only while its Ray cluster is ready: before, the laptop waits for the queue too."""
        spec, status = rayjob.get("spec") or {}, status_of(rayjob)
        if spec.get("submissionMode") != "InteractiveMode" or spec.get("jobId"):
            return
        if status.get("jobDeploymentStatus") != "Waiting":
            return
        cluster = status.get("rayClusterStatus") or {}
        since = parse_time((cluster.get("stateTransitionTimes") or {}).get("ready")) or _created(rayjob)
        allowed = float(spec.get("preRunningDeadlineSeconds") or UNSUBMITTED)
        if since is not None and self._since(since) > allowed + LATE:
            why = f"its code was never submitted, and its Ray cluster has been ready for {span(self._since(since))}"
            yield self._left(rayjob, why, "delete", holds=holds)

    def _raycluster(self, raycluster: Mapping[str, Any], graph: Graph) -> Iterator[Leftover]:
        """A Ray cluster of a RayJob that is gone: its owner was deleted and it was told to stay."""
        holds = graph.held_by_cluster(raycluster)
        if _being_deleted(raycluster):
            yield from self._stuck(raycluster, holds)
        elif graph.made_by_rayjob(raycluster) and not graph.has_owner(raycluster) and self._settled(raycluster):
            yield self._left(raycluster, "its RayJob is gone", "delete", holds=holds, busy=bool(holds.pods))

    def _pod(self, pod: Mapping[str, Any], graph: Graph) -> Iterator[Leftover]:
        if _being_deleted(pod):
            yield from self._stuck(pod, held([pod]))
        elif labels_of(pod).get(RUN) and not graph.has_owner(pod) and self._settled(pod):
            yield self._left(pod, "its Ray cluster is gone", "delete", holds=held([pod]), busy=True)

    def _claim(self, claim: Mapping[str, Any], graph: Graph) -> Iterator[Leftover]:
        maker = graph.maker_of_claim(claim)
        if maker is None or graph.has_owner(claim):
            return
        if _being_deleted(claim):
            yield from self._stuck(claim, NOTHING, of=maker)
        elif self._settled(claim) and not (claim.get("status") or {}).get("reservedFor"):
            yield self._left(claim, "its pod is gone", "delete", of=maker)

    def _child(self, child: Mapping[str, Any], graph: Graph, going: Collection[str]) -> Iterator[Leftover]:
        if _being_deleted(child):
            yield from self._stuck(child, NOTHING)
        elif self._settled(child) and (why := graph.orphaned(child, going)):
            yield self._left(child, why, "delete")

    def _stuck(self, obj: Mapping[str, Any], holds: Holds, of: Mapping[str, Any] | None = None) -> Iterator[Leftover]:
        """Something whose deletion does not come to an end, with what holds it; the pods of a dead node among them."""
        since = parse_time(obj["metadata"].get("deletionTimestamp"))
        if since is None or self._since(since) < LATE or not labels_of(of or obj).get(RUN):
            return
        finalizers = ", ".join(obj["metadata"].get("finalizers") or ())
        node = (obj.get("spec") or {}).get("nodeName") if obj["kind"] == "Pod" else ""
        by = (
            f"held by finalizer {finalizers}" if finalizers else f"node {node} has not ended it" if node else "not gone"
        )
        yield self._left(obj, f"being deleted since {span(self._since(since))}, {by}", "look", of=of, holds=holds)

    def _since(self, time: datetime) -> float:
        return (self.seen.now - time).total_seconds()

    def _ago(self, time: datetime | None) -> str:
        return f"{span(self._since(time))} ago" if time else ""

    def _late(self, due: datetime | None) -> bool:
        return due is not None and self._since(due) > LATE

    def _age(self, obj: Mapping[str, Any]) -> float:
        created = _created(obj)
        return self._since(created) if created else 0.0

    def _settled(self, obj: Mapping[str, Any]) -> bool:
        return self._age(obj) > SETTLING


def _created(obj: Mapping[str, Any]) -> datetime | None:
    return parse_time(obj["metadata"].get("creationTimestamp"))


def _being_deleted(obj: Mapping[str, Any]) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))
