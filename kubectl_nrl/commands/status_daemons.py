"""What runs on the long-lived clusters that `status` tells in full: daemons, each with whether it answers, and everybody's other jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError
from .status_item import Item

if TYPE_CHECKING:
    from ..runs import ClusterJob
    from .session import Session


@dataclass(frozen=True)
class DaemonView:
    """One daemon. `healthy` is None where that is not known, and `why` says what its URL did instead, or why nobody asked."""

    role: str
    submission_id: str
    state: str
    url: str
    healthy: bool | None
    why: str

    @property
    def words(self) -> str:
        health = {True: "healthy", False: f"not healthy: {self.why}", None: self.why}[self.healthy]
        return f"{self.submission_id} of {self.role}: {self.state}{f', {health}' if health else ''}"

    def data(self) -> dict[str, Any]:
        return {
            "role": self.role, "submissionId": self.submission_id, "state": self.state, "healthCheckUrl": self.url,
            "healthy": self.healthy, "why": self.why,
        }  # fmt: skip


def with_jobs(session: Session, cluster: Any, items: Sequence[Item]) -> list[Item]:
    """The items, each long-lived cluster with its daemons and the jobs that go on; one whose Ray does not say gets a note."""
    from ..runs import ClusterRecord
    from .job_target import ray_jobs_of

    records = [ClusterRecord(item.obj) for item in items if item.kind == "raycluster"]
    if not records:
        return list(items)
    told = ray_jobs_of(session, cluster, records)
    views = daemons_among(cluster, told.jobs)
    found = []
    for item in items:
        snapshot = item.snapshot
        why = told.silent.get(item.name) if item.kind == "raycluster" else None
        if why:
            snapshot = replace(snapshot, notes=(*snapshot.notes, f"daemons and jobs are not known: {why}"))
        mine = [view for uid, view in views if uid == item.obj["metadata"]["uid"]]
        jobs = None
        if item.kind == "raycluster" and not why and ClusterRecord(item.obj).may_answer:
            jobs = [
                j for j in told.jobs if j.cluster.uid == item.obj["metadata"]["uid"] and not j.final and not j.daemon
            ]
        found.append(replace(item, snapshot=snapshot, daemons=sorted(mine, key=lambda view: view.role), jobs=jobs))
    return found


def daemons_among(cluster: Any, jobs: Sequence[ClusterJob]) -> list[tuple[str, DaemonView]]:
    """The daemon of each role among Ray's jobs, by its RayCluster's uid, with what its health URL answers now."""
    from ..cluster.side_by_side import side_by_side

    daemons = [job for job in jobs if job.daemon]
    newest = {(job.cluster.uid, job.daemon): job for job in sorted(daemons, key=_last_counts)}
    views = side_by_side([partial(_view, cluster, job) for job in newest.values()])
    return [(uid, view) for (uid, _), view in zip(newest, views, strict=True)]


def _last_counts(job: ClusterJob) -> tuple[bool, float]:
    """The order in which what is last is the one to show: it runs, or is the newest of those that have ended."""
    return not job.final, job.started.timestamp() if job.started else 0.0


def _view(cluster: Any, job: ClusterJob) -> DaemonView:
    healthy, why = (None, job.message if job.state == "FAILED" else "") if job.final else _health(cluster, job)
    return DaemonView(job.daemon, job.submission_id, job.state, job.health_url, healthy, why)


def _health(cluster: Any, job: ClusterJob) -> tuple[bool | None, str]:
    from ..watch import ask_health, parts_of

    url = job.health_url
    asked = parts_of(url, job.cluster.namespace) if url else None
    if asked is None:
        return None, f"{url} is asked only while it starts" if url else ""
    try:
        ask_health(cluster, asked)
    except ClusterError as error:
        return (None if error.status == 403 else False), error.message
    return True, ""
