"""What goes when something long-lived is deleted, and who must agree to it.

My own idle objects go without a question where there is no terminal; what is busy or nobody's is asked about, and what is another
owner's takes --force as well.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError, UsageError
from ..labels import Ownership, ownership
from ..raycluster_state import head_ready
from .connecting import again, agree
from .session import Session

if TYPE_CHECKING:
    from ..apply import TakenDown


def say_interrupted(session: Session, done: TakenDown, all_of_it: Sequence[str], namespace: str) -> None:
    """What of a deletion that was interrupted goes on by itself, what was not asked for yet, and the command for the rest."""
    begun = [*done.deleted, *done.gone_before]
    stays = [words for words in all_of_it if words not in begun]
    parts = [f"{', '.join(done.deleted)}: the deletion goes on"] if done.deleted else []
    parts += [f"{', '.join(stays)}: may stay"] if stays else []
    session.output.plain(
        f"interrupted; {'; '.join(parts) or 'all of it is deleted'}\n  go on: {again(session, namespace)}"
    )


@dataclass(frozen=True)
class Goer:
    """A RayCluster or Deployment that would be deleted: whose, the GPUs it holds, its running jobs (None: unknown)."""

    live: Mapping[str, Any]
    owner: Ownership
    gpus: int | None
    jobs: tuple[str, ...] | None

    @property
    def words(self) -> str:
        return f"{self.live['kind'].lower()}/{self.live['metadata']['name']}"

    @property
    def busy(self) -> bool:
        return self.jobs is None or bool(self.jobs)

    @property
    def line(self) -> str:
        """`raycluster/x: owner "jdoe", 8 GPUs, running jobs: a, b`"""
        gpus = "GPUs unknown" if self.gpus is None else f"{self.gpus} GPUs"
        jobs = "jobs unknown" if self.jobs is None else f"running jobs: {', '.join(self.jobs)}" if self.jobs else "idle"
        if self.live["kind"] != "RayCluster":
            return f"{self.words}: owner {self.owner.words}, {gpus}"
        return f"{self.words}: owner {self.owner.words}, {gpus}, {jobs}"

    def data(self) -> dict[str, Any]:
        jobs = None if self.jobs is None else list(self.jobs)
        return {"name": self.words, "owner": self.owner.owner, "gpus": self.gpus, "runningJobs": jobs}


def goer(session: Session, cluster: Any, live: Mapping[str, Any], selector: str) -> Goer:
    """Look at what would be deleted; `selector` are the labels of its pods."""
    jobs = running_jobs(session, cluster, live) if live["kind"] == "RayCluster" else ()
    return Goer(live, ownership(live, session.user), _gpus(cluster, live, selector), jobs)


def running_jobs(session: Session, cluster: Any, raycluster: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Ids of the jobs that have not ended, without the user's own daemons, which live and go with their cluster.

    None when Ray cannot be asked, and none without a head that is or was up: nothing runs on one that is only starting.
    """
    from ..runs.cluster_jobs import ENDS
    from ..watch import is_daemon
    from .cluster_drivers import drivers_of

    try:
        with drivers_of(session, cluster, raycluster) as jobs:
            found = jobs.list()
    except ClusterError as error:
        starting = error.reason == "PortClosed" and not head_ready(raycluster)
        return () if error.reason == "NoHead" or starting else None
    live = [
        j
        for j in found
        if j.get("status") not in ENDS and not (is_daemon(j) and j["metadata"].get("user") == session.user.name)
    ]
    return tuple(str(j.get("submission_id") or j.get("job_id")) for j in live)


def guard(session: Session, goers: Sequence[Goer], namespace: str, *, yes: bool, force: bool) -> None:
    """Return when all of them may go. Raises `UsageError` otherwise, with what was typed and the flags that allow it."""
    others = [g for g in goers if g.owner.owner and not g.owner.mine]
    if others and not force:
        raise UsageError(
            f'{others[0].words} belongs to {others[0].owner.words} (you are "{session.user.name}")',
            again(session, namespace, "--force", "--yes"),
        )
    asked = [g for g in goers if g.busy or not g.owner.mine]
    terminal = sys.stdin.isatty() and sys.stderr.isatty()
    if len(goers) > 1 or not (asked or terminal):  # else the question says it
        for found in goers:
            session.output.progress(found.line)
    if goers and (asked or terminal):
        first = (asked or list(goers))[0]
        more = f" and {len(goers) - 1} more" if len(goers) > 1 else ""
        agree(session, f"{first.line}; delete it{more}?", yes=yes)


def may_stop(session: Session, namespace: str, what: str, whose: Collection[str], *, yes: bool, force: bool) -> None:
    """Return when `--replace` may stop jobs that these people started (an empty name: nobody knows who). Raises `UsageError`."""
    strangers = set(whose) - {session.user.name}
    others = ", ".join(f'"{user}"' for user in sorted(strangers) if user)
    if others and not force:
        raise UsageError(
            f'--replace would stop {what}, started by {others} (you are "{session.user.name}")',
            again(session, namespace, "--force", "--yes"),
        )
    if strangers:
        question = f"{what}, started by {others or 'nobody that is known'}; stop it?"
        agree(session, question, yes=yes, flag="--replace --yes")


def _gpus(cluster: Any, live: Mapping[str, Any], selector: str) -> int | None:
    from ..manifests.amounts import gpus_held

    try:
        pods = cluster.list("v1", "Pod", live["metadata"]["namespace"], label_selector=selector) if selector else []
    except ClusterError as error:
        if error.status == 403:
            return None
        raise
    return sum(map(gpus_held, pods))
