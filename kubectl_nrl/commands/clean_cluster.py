"""The cluster's half of `clean`: what is litter of whom, and its deletion, each object only as it was judged.

Between looking and deleting a run may start, or own what it made: an object that changed meanwhile is judged again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError, UsageError
from ..labels import RAY_API
from ..rayjob_state import outcome, status_of
from .connecting import namespace_of, open_cluster, paste
from .session import Session

if TYPE_CHECKING:
    from ..runs import Leftover, Survey

#: Seconds that pods, and then claims, get to go before what needs them is deleted.
GONE = 60.0
#: Times that an object which changed meanwhile is judged again: a Ray cluster's status changes every few seconds.
AGAIN = 5


@dataclass
class Swept:
    """What became of leftovers: those removed, and those left with the reason."""

    removed: list[Leftover] = field(default_factory=list)
    left: list[tuple[Leftover, str]] = field(default_factory=list)


class ClusterLitter:
    """The litter of one namespace, or of all, as one user sees it; `found` is what this call is about."""

    def __init__(self, session: Session, *, all_namespaces: bool, names: Sequence[str], force: bool) -> None:
        from ..runs import leftovers

        self._session = session
        self._cluster: Any = open_cluster(session)
        self.namespace = namespace_of(session, self._cluster)
        self.all_namespaces = all_namespaces
        self._words = names, [*(["--force"] if force else []), *(["-A"] if all_namespaces else [])]
        self.seen: Survey = self._look()
        everybodys = leftovers(self.seen, session.user)
        if names:
            self.found = self._named(everybodys, names, force=force)
        else:
            self.found = [left for left in everybodys if left.owner.mine]

    @property
    def where(self) -> str:
        return "any namespace" if self.all_namespaces else f'namespace "{self.namespace}"'

    def _look(self) -> Survey:
        from ..runs import survey

        return survey(self._cluster, self.namespace, all_namespaces=self.all_namespaces, clock=self._session.clock)

    def _named(self, everybodys: Sequence[Leftover], names: Sequence[str], *, force: bool) -> list[Leftover]:
        found: list[Leftover] = []
        for name in names:
            meant = [left for left in everybodys if name in (left.run, left.words, left.name)]
            if not meant:
                raise UsageError(f'nothing that "{name}" names was left behind in {self.where}', self._alive(name))
            found += [left for left in meant if left not in found]
        for left in found:
            if left.owner.owner and not left.owner.mine and not force:
                raise UsageError(
                    f'{left.words} belongs to {left.owner.words} (you are "{self._session.user.name}")',
                    paste(self._session, left.namespace, "clean", *names, "--force"),
                )
        return [left for left in everybodys if left in found]

    def _alive(self, name: str) -> str:
        """The command for somebody who named a run that is no litter."""
        from ..runs import RunRecord

        for run in map(RunRecord, self.seen.rayjobs):
            if name in (run.id, run.name, f"rayjob/{run.name}"):
                stop = paste(self._session, run.namespace, "job", "stop", run.id)
                return f"run {run.id}: {run.description}; this stops and releases it: {stop}"
        return "kubectl nrl clean --dry-run"

    def sweep(self, chosen: Sequence[Leftover]) -> Swept:
        """Delete in order: what holds pods, then claims, then what is made of neither. Never raises for one object."""
        swept, held_up = Swept(), set[str]()
        try:
            self._sweep(chosen, swept, held_up)
        except KeyboardInterrupt:
            names, flags = self._words
            again = paste(self._session, self.namespace, "clean", *names, *flags)
            count = f"{len(swept.removed)} of {len(chosen)}"
            self._session.output.plain(
                f"interrupted; {count} were removed, or their removal goes on\n  the rest: {again}"
            )
            raise
        return swept

    def _sweep(self, chosen: Sequence[Leftover], swept: Swept, held_up: set[str]) -> None:
        for wave in _waves(chosen):
            for left in wave:
                why = "its pods are still there" if left.run in held_up else self._remove(left)
                if why:
                    swept.left.append((left, why))
                    held_up.add(left.run)
                else:
                    swept.removed.append(left)
                    self._session.output.progress(_did(left))
            held_up |= self._until_gone([left for left in wave if left in swept.removed])

    def _remove(self, left: Leftover) -> str:
        """Delete it as it was judged; why it was not, or empty."""
        for _ in range(AGAIN):
            try:
                self._delete(left)
                return ""
            except ClusterError as error:
                if error.status != 409:
                    return error.message
                again = self._again(left)
                if again is None:
                    return "it changed meanwhile, and is needed now"
                left = again
        return f"it keeps changing; kubectl describe {left.kind.lower()} {left.name} -n {left.namespace}"

    def _delete(self, left: Leftover) -> None:
        if left.action == "release":
            self._release(left)
            return
        meta = left.manifest["metadata"]
        self._cluster.delete(
            left.manifest["apiVersion"],
            left.kind,
            left.name,
            left.namespace,
            uid=left.uid,
            version=meta.get("resourceVersion"),
        )

    def _release(self, left: Leftover) -> None:
        """Delete the Ray clusters of a run, which is over once for all; its RayJob stays as the record."""
        live = self._cluster.get(RAY_API, "RayJob", left.name, left.namespace)
        if live is None or live["metadata"]["uid"] != left.uid:
            return  # deleted, and its Ray clusters with it
        if outcome(status_of(live)) is None:
            raise ClusterError(f"{left.words} is not over any more", status=409, reason="Conflict")
        for name, uid in left.holds.rayclusters:
            self._cluster.delete(RAY_API, "RayCluster", name, left.namespace, uid=uid)

    def _again(self, left: Leftover) -> Leftover | None:
        """The same object as it is judged now; None when it is no litter any more."""
        from ..runs import leftovers

        self.seen = self._look()
        now = leftovers(self.seen, self._session.user)
        return next((one for one in now if one.uid == left.uid and one.action == left.action), None)

    def _until_gone(self, removed: Sequence[Leftover]) -> set[str]:
        """Wait for pods and claims of what was removed; the runs of those that stay."""
        from ..apply import Outages

        waiting = {(left.namespace, *what): left.run for left in removed for what in _waited_for(left)}
        deadline = time.monotonic() + GONE
        outages = Outages(deadline, self._session.output.progress)
        while waiting and time.monotonic() < deadline:
            waiting = {key: run for key, run in waiting.items() if outages.ask(partial(self._there, *key))}
            if waiting:
                time.sleep(0.5)
        return set(waiting.values())

    def _there(self, namespace: str, version: str, kind: str, name: str) -> bool:
        try:
            return self._cluster.get(version, kind, name, namespace) is not None
        except ClusterError as error:
            return error.status != 403  # who may not look cannot wait; an outage is waited out


def _waves(chosen: Sequence[Leftover]) -> Iterator[list[Leftover]]:
    """The leftovers in the groups that wait for each other; `leftovers` has them in order."""
    pods = [left for left in chosen if left.kind in ("RayJob", "RayCluster", "Pod")]
    claims = [left for left in chosen if left.kind == "ResourceClaim"]
    yield pods
    yield claims
    yield [left for left in chosen if left not in pods and left not in claims]


def _waited_for(left: Leftover) -> list[tuple[str, str, str]]:
    """What has to be gone before the next group: apiVersion, kind and name."""
    if left.kind in ("Pod", "ResourceClaim"):
        return [(str(left.manifest["apiVersion"]), left.kind, left.name)]
    return [("v1", "Pod", name) for name in left.holds.pods]


def _did(left: Leftover) -> str:
    what = f"released {left.words}" if left.action == "release" else f"deleted {left.words}"
    return f"{what}: {left.holds.words}" if left.holds.words else what
