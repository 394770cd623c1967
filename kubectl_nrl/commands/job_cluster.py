"""A Ray job on a long-lived cluster: what is said of it, and its end by hand. The cluster itself stays."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError, ExitCode, UsageError
from ..rayjob_state import span
from .cluster_drivers import drivers_connector
from .connecting import agree, paste
from .job_record import note_end
from .session import Session

if TYPE_CHECKING:
    from ..runs import ClusterJob
    from ..triage import Failure
    from ..watch import JobsApi, JobTarget
    from .run_result import LogFacts

#: Seconds that Ray gets to end a job: it kills what ignores SIGTERM after three.
ENDED = 60.0


@dataclass(frozen=True)
class ClusterJobResult:
    """A Ray job as it is now; `stopped`: this call stopped it, `exit_code` that of following it (0 while it runs).

    `reason` is empty where Ray's `message` says enough; `log` and `failure` are of a log that was shown.
    """

    job: ClusterJob
    now: datetime
    exit_code: int
    stopped: bool = False
    reason: str = ""
    log: LogFacts | None = None
    failure: Failure | None = None

    schema = "cluster_job"

    def text(self) -> str:
        job = self.job
        after = f" after {span(job.seconds(self.now))}" if job.ended else ""
        over = "" if self.stopped or not job.final else ", was over already"
        return f"job {job.id} on raycluster/{job.cluster.name}: {job.state}{after}{over}"

    def data(self) -> dict[str, Any]:
        job = self.job
        return {
            "id": job.id,
            "rayCluster": job.cluster.name,
            "namespace": job.cluster.namespace,
            "owner": job.owner,
            "state": job.state,
            "reason": self.reason,
            "message": job.message,
            "exitCode": self.exit_code,
            "stopped": self.stopped,
            "started": job.started.isoformat() if job.started else None,
            "ended": job.ended.isoformat() if job.ended else None,
            "durationSeconds": job.seconds(self.now),
            "log": self.log.data() if self.log else None,
            "failure": self.failure.data() if self.failure else None,
        }


def stop(args: argparse.Namespace, session: Session, cluster: Any, job: ClusterJob) -> ExitCode:
    """Stop a job, and return when it is over; of one that is over, what it left running.

    Raises `UsageError` for one that is not mine, unless forced.
    """
    require_submission(job)
    if job.final and not job.left:
        session.output.result(ClusterJobResult(job, session.now(), 0))
        return ExitCode.OK
    _guard(args, session, job)
    connect = drivers_connector(session, cluster, job.cluster.namespace)
    try:
        doing = f"ending what {job.submission_id} left running" if job.final else f"stopping {job.submission_id}"
        session.output.progress(doing)
        with connect(job.cluster.name) as jobs:
            jobs.stop(job.submission_id)
        ended = _until_over(session, cluster, job, connect)
    except KeyboardInterrupt:
        again = paste(session, job.cluster.namespace, "job", "stop", job.id)
        session.output.plain(f"interrupted; job {job.id} may go on\n  go on stopping it: {again}")
        raise
    except ClusterError as error:
        down = paste(session, job.cluster.namespace, "cluster", "list")
        message = f"job {job.id} on raycluster/{job.cluster.name} was not stopped: {error.message}"
        raise ClusterError(message, error.hint or down, status=error.status, reason=error.reason) from error
    note_end(cluster, ended, session.now())
    session.output.result(ClusterJobResult(ended, session.now(), 0, stopped=ended.state == "STOPPED" and not job.final))
    return ExitCode.OK


def exit_code(job: ClusterJob) -> ExitCode:
    """What a job's end means; UNKNOWN for one that is not over."""
    from ..runs.cluster_jobs import ENDS

    return ENDS.get(job.state, ExitCode.UNKNOWN)


def target_of(job: ClusterJob) -> JobTarget:
    """What is followed of it."""
    from ..watch import JobTarget

    return JobTarget(job.cluster.namespace, job.cluster.name, job.cluster.uid, job.submission_id)


def require_submission(job: ClusterJob) -> None:
    """Raises `UsageError` for a driver that was started by hand."""
    if job.submission_id:
        return
    driver: Mapping[str, Any] = job.job.get("driver_info") or {}
    where = f" (process {driver['pid']} on {driver.get('node_ip_address')})" if driver.get("pid") else ""
    raise UsageError(
        f"job {job.id} on raycluster/{job.cluster.name} is a driver that was started by hand{where}: Ray neither keeps its "
        "output nor can stop it",
        "see where it was started, or end that process",
    )


def _guard(args: argparse.Namespace, session: Session, job: ClusterJob) -> None:
    if job.owner == session.user.name:
        return
    whose = f'"{job.owner}"' if job.owner else "nobody (its metadata names no user)"
    if job.owner and not args.force:
        raise UsageError(
            f'job "{job.id}" belongs to {whose} (you are "{session.user.name}")',
            paste(session, job.cluster.namespace, "job", "stop", job.id, "--force", "--yes"),
        )
    agree(
        session,
        f"job {job.id} on raycluster/{job.cluster.name} ({job.state}) belongs to {whose}; stop it?",
        yes=args.yes,
    )


def _until_over(session: Session, cluster: Any, job: ClusterJob, connect: Callable[[str], JobsApi]) -> ClusterJob:
    """The job at its end. Raises `ClusterError` for one that is not over in time, or whose end cannot be told."""
    from ..watch import JobFollow

    follow = JobFollow(cluster, target_of(job), connect, say=session.output.progress)
    end = follow.until_final(ENDED)
    if end.how == "timeout":
        raise ClusterError(f"it is still {end.state or job.state} after {ENDED:.0f} s")
    if end.how != "final":
        raise ClusterError(end.message)
    return type(job)(job.cluster, follow.job)
