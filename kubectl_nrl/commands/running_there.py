"""What runs on a long-lived cluster: the jobs that Ray has, and the drivers that only a run's record knows of."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import ExitCode, NrlError
from .driver import recorded
from .handover import Reached
from .session import Session

if TYPE_CHECKING:
    from ..ray_jobs import RayJobs
    from ..runs import ClusterRun

#: Ray's states of a job that has not ended.
LIVE = frozenset({"PENDING", "RUNNING"})
#: Seconds that a job which is stopped gets to end; Ray itself kills it after some.
STOPPED = 60.0


@dataclass(frozen=True)
class Running:
    """A job that has not ended, and whose it is; with its `record` when Ray does not keep it."""

    id: str
    user: str
    record: ClusterRun | None = None


def running_on(session: Session, cluster: Any, raycluster: Mapping[str, Any], jobs: RayJobs) -> list[Running]:
    """All of them; drivers that somebody started by hand have no id and are left out. Raises `ClusterError`."""
    from ..runs import open_runs_on

    known = {str(job["submission_id"]): job for job in jobs.list() if job.get("submission_id")}
    running = [
        Running(id, str((job.get("metadata") or {}).get("user") or ""))
        for id, job in known.items()
        if job.get("status") in LIVE
    ]
    for record in open_runs_on(cluster, raycluster):
        if record.submission_id not in known and _state(session, cluster, jobs, record) in LIVE:
            running.append(Running(record.id, record.owner, record))
    return running


def stop_all(session: Session, cluster: Any, jobs: RayJobs, running: Sequence[Running]) -> None:
    """Stop them, and return when they have ended. Raises `NrlError` for one that does not."""
    for job in running:
        if job.record is None:
            jobs.stop(job.id)
    for job in running:
        if job.record is not None:
            submitter, run = recorded(session, job.record)
            submitter.stop(run, Reached(job.record.namespace, jobs, cluster))
    _until_ended(jobs, [job.id for job in running if job.record is None])


def _state(session: Session, cluster: Any, jobs: RayJobs, record: ClusterRun) -> str:
    submitter, run = recorded(session, record)
    return submitter.state(run, Reached(record.namespace, jobs, cluster)).status


def _until_ended(jobs: RayJobs, ids: Sequence[str]) -> None:
    deadline = time.monotonic() + STOPPED
    left = list(ids)
    while left:
        left = [one for one in left if (jobs.get(one) or {}).get("status") in LIVE]
        if left and time.monotonic() >= deadline:
            raise NrlError(
                f"still running {STOPPED:.0f} s after they were stopped: {', '.join(left)}",
                exit_code=ExitCode.GAVE_UP,
            )
        if left:
            time.sleep(0.25)
