"""A Ray job on a long-lived cluster: its log, followed to its end, and its end by hand. The cluster itself stays."""

from __future__ import annotations

import argparse
import time
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

#: Seconds that Ray gets to end a job: it kills what ignores SIGTERM after three.
ENDED = 60.0
#: Seconds between two questions to Ray.
LOOK = 1.0
#: Seconds without an answer after which the rest of a log is given up.
HEAD_PATIENCE = 10.0


@dataclass(frozen=True)
class ClusterJobResult:
    """A Ray job as it is now; `stopped`: this call stopped it, `exit_code` that of following it (0 while it runs)."""

    job: ClusterJob
    now: datetime
    exit_code: int
    stopped: bool = False

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
            "message": job.message,
            "exitCode": self.exit_code,
            "stopped": self.stopped,
            "started": job.started.isoformat() if job.started else None,
            "ended": job.ended.isoformat() if job.ended else None,
            "durationSeconds": job.seconds(self.now),
        }


def logs(session: Session, cluster: Any, job: ClusterJob, *, follow: bool, lines: int | None) -> ExitCode:
    """Show a job's log; followed, to its end and with its exit code. Raises `UsageError` for a driver without one."""
    from ..watch import DriverLog, Source
    from .job_logs import Tail

    _require_submission(job)
    output, tail = session.output, Tail(session.output.log, lines)
    connect = drivers_connector(session, cluster, job.cluster.namespace)
    reader = DriverLog(
        connect, tail.feed, say=output.progress, wandb=lambda url: output.progress(f"wandb: {url}"),
        caught_up=tail.caught_up,
    )  # fmt: skip
    reader.follow(Source(job.cluster.name, job.cluster.uid, job.submission_id))
    try:
        ended, unknown = job, ""
        if follow and not job.final:
            try:
                ended = _until_over(connect, job, output.progress, None)
            except ClusterError as error:
                unknown = error.message
        reader.finish(HEAD_PATIENCE)
        read = None
        while read is None:
            read = reader.join(LOOK)
        tail.caught_up()
    except KeyboardInterrupt:
        again = paste(session, job.cluster.namespace, "job", "logs", job.id, "-f")
        output.plain(f"interrupted; the job goes on\n  follow it again: {again}")
        return ExitCode.INTERRUPTED
    finally:
        reader.stop()
    if reader.failure is not None:
        raise reader.failure
    if not read.complete:
        output.warn(f"the end of the log may be missing here: {read.why}")
    code = _exit_code(ended) if follow else ExitCode.OK
    if unknown:
        output.error(f"the outcome is unknown: {unknown}")
    elif follow:
        note_end(cluster, ended, session.clock())
        output.plain(f"job {ended.id}: {ended.state}" + (f"\n  {ended.message}" if code and ended.message else ""))
    if output.format != "text":
        output.result(ClusterJobResult(ended, session.clock(), int(code)))
    return code


def stop(args: argparse.Namespace, session: Session, cluster: Any, job: ClusterJob) -> ExitCode:
    """Stop a job, and return when it is over; of one that is over, what it left running.

    Raises `UsageError` for one that is not mine, unless forced.
    """
    _require_submission(job)
    if job.final and not job.left:
        session.output.result(ClusterJobResult(job, session.clock(), 0))
        return ExitCode.OK
    _guard(args, session, job)
    connect = drivers_connector(session, cluster, job.cluster.namespace)
    try:
        doing = f"ending what {job.submission_id} left running" if job.final else f"stopping {job.submission_id}"
        session.output.progress(doing)
        with connect(job.cluster.name) as jobs:
            jobs.stop(job.submission_id)
        ended = _until_over(connect, job, session.output.progress, ENDED)
    except ClusterError as error:
        down = paste(session, job.cluster.namespace, "cluster", "list")
        message = f"job {job.id} on raycluster/{job.cluster.name} was not stopped: {error.message}"
        raise ClusterError(message, error.hint or down, status=error.status, reason=error.reason) from error
    note_end(cluster, ended, session.clock())
    session.output.result(
        ClusterJobResult(ended, session.clock(), 0, stopped=ended.state == "STOPPED" and not job.final)
    )
    return ExitCode.OK


def _exit_code(job: ClusterJob) -> ExitCode:
    from ..runs.cluster_jobs import ENDS

    return ENDS.get(job.state, ExitCode.UNKNOWN)


def _require_submission(job: ClusterJob) -> None:
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


def _until_over(
    connect: Callable[[str], Any], job: ClusterJob, say: Callable[[str], None], within: float | None
) -> ClusterJob:
    """Ask Ray until the job is over, `within` seconds at most. Outages are said once and waited out.

    Raises `ClusterError` when its cluster is gone, Ray has forgotten it, or the time is over.
    """
    deadline = None if within is None else time.monotonic() + within
    jobs, lost, now = None, False, job
    try:
        while not now.final:
            if deadline is not None and time.monotonic() >= deadline:
                raise ClusterError(f"it is still {now.state} after {within:.0f} s")
            try:
                jobs = jobs or connect(job.cluster.name)
                told = jobs.get(job.submission_id)
                lost = False
            except ClusterError as error:
                if error.reason == "Gone" or error.status in (401, 403):
                    raise
                jobs = jobs.close() if jobs else None
                if not lost:
                    say(f"job {job.id}: {error.message}; waiting")
                lost = True
                time.sleep(LOOK)
                continue
            if told is None:
                raise ClusterError(
                    f"job {job.id} is unknown to Ray on raycluster/{job.cluster.name}: its head was started again, and its job "
                    "history is lost",
                    reason="JobLost",
                )
            now = type(job)(job.cluster, told)
            if not now.final:
                time.sleep(LOOK)
        return now
    finally:
        if jobs is not None:
            jobs.close()
