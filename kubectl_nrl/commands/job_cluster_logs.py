"""`job logs` of a Ray job on a long-lived cluster, by Ray's submission or by exec: shown, kept on this machine, followed to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import ExitCode
from .cluster_drivers import drivers_connector
from .job_cluster import ClusterJobResult, exit_code, require_submission, target_of
from .job_record import HEAD_RESTARTED, note_end, note_page
from .log_reading import ShownLog
from .run_attend_job import left_alone
from .run_deleted import see_deleted
from .run_failure import of_cluster_job
from .run_follow import REST_GOING
from .session import Session

if TYPE_CHECKING:
    from ..runs import ClusterJob
    from ..watch import JobEnd, LogEnd


def logs(session: Session, cluster: Any, job: ClusterJob, *, follow: bool, lines: int | None) -> ExitCode:
    """Show a job's log; followed, to its end and with its exit code. Raises `UsageError` for a driver without one, `NrlError`."""
    require_submission(job)
    return _JobLogs(session, cluster, job, lines).show(follow=follow)


class _JobLogs:
    def __init__(self, session: Session, cluster: Any, job: ClusterJob, lines: int | None) -> None:
        from ..watch import Source

        self._session, self._cluster, self._job = session, cluster, job
        self._connect = drivers_connector(session, cluster, job.cluster.namespace)
        # A daemon's id says nothing of when and where it ran, and its log ends with its cluster.
        self._log = ShownLog(
            session, self._connect, job.id, lines=lines, wandb=self._on_wandb, keep=not job.daemon
        )  # fmt: skip
        self._source = Source(job.cluster.name, job.cluster.uid, job.submission_id)

    def show(self, *, follow: bool) -> ExitCode:
        job = self._job
        try:
            if follow and not job.final:
                return self._follow()
            end = self._log.all_there_is(self._source, f"job {job.id}", over=job.final)
            if follow:
                return self._tell(job, end)
            self._result(job, end, ExitCode.OK)
            self._session.output.require_seen()
            return ExitCode.OK
        except KeyboardInterrupt:
            left_alone(self._session, job.cluster.namespace, job.id, "interrupted; the job goes on")
            return ExitCode.INTERRUPTED
        finally:
            self._log.reader.stop()

    def _follow(self) -> ExitCode:
        from ..watch import JobFollow

        job = self._job
        self._log.reader.follow(self._source)
        follow = JobFollow(
            self._cluster, target_of(job), self._connect, say=self._session.output.progress, log=self._log.reader
        )  # fmt: skip
        end = follow.until_final()
        if end.how == "deleted":
            return self._deleted(end)
        if end.how == "final":
            return self._tell(type(job)(job.cluster, follow.job), self._log.rest())
        read = self._log.rest(0.0, over=end.how == "forgotten")
        if end.how == "forgotten":
            dead = type(job)(job.cluster, {**job.job, "status": "FAILED", "message": end.message})
            return self._tell(dead, read, HEAD_RESTARTED)
        self._session.output.error(f"the outcome is unknown: {end.message}; it may still run")
        left_alone(self._session, job.cluster.namespace, job.id, "to come back:")
        return self._result(job, read, ExitCode.UNKNOWN)

    def _deleted(self, end: JobEnd) -> ExitCode:
        """Somebody deleted the cluster: what is left of it, and how far the log was read."""
        where = self._job.cluster
        self._log.reader.finish(REST_GOING, over=False)
        gone = see_deleted(self._session, self._cluster, where.namespace, end.message, where.name, uid=where.uid)
        return self._result(self._job, self._log.rest(0.0, over=False), gone.exit_code, "ClusterDeleted")

    def _tell(self, job: ClusterJob, read: LogEnd, reason: str = "") -> ExitCode:
        """The end of a job, with what it died of."""
        output, code = self._session.output, exit_code(job)
        note_end(self._cluster, job, self._session.now(), reason)
        if not read.complete:
            output.warn(f"the end of the log may be missing here: {read.why}")
        why = f"\n  {job.message}" if code and job.message else ""
        output.plain(f"job {job.id}: {job.state}{f' ({reason})' if reason else ''}{why}")
        return self._result(job, read, code, reason)

    def _result(self, job: ClusterJob, read: LogEnd, code: ExitCode, reason: str = "") -> ExitCode:
        output, failure = self._session.output, None
        if job.state == "FAILED" and (code or output.format != "text"):
            failure = of_cluster_job(self._session, self._log.path, [reason, job.message])
        if failure and code:
            output.plain(failure.text())
        if output.format != "text":
            facts = self._log.facts(complete=read.complete and job.final)
            now = self._session.now()
            output.result(ClusterJobResult(job, now, int(code), reason=reason, log=facts, failure=failure or None))
        return code

    def _on_wandb(self, url: str) -> None:
        self._session.output.progress(f"wandb: {url}")
        note_page(self._cluster, self._job, self._session.user.name, url)
