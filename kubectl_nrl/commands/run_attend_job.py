"""Stays with a run on a long-lived cluster to its end: its log, its state, its record, its result; the cluster stays up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError, ExitCode
from .connecting import paste
from .job_record import HEAD_RESTARTED
from .log_reading import driver_log
from .run_cluster_result import ClusterRunResult
from .run_deleted import see_deleted
from .run_failure import of_cluster_job
from .run_follow import REST_GOING
from .run_launch import commands_for
from .run_result import LogFacts
from .session import Session

if TYPE_CHECKING:
    from ..runs import ClusterRun
    from ..watch import JobEnd, JobsApi, LogEnd

#: Seconds without a byte after which the rest of a log is given up.
REST = 15.0
#: Seconds that the result waits for the log's last bytes.
RESULT_WITHIN = 0.7

Tell = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Submitted:
    """A run that Ray has: its record, and how its driver is reached by the RayCluster's name.

    `down` takes down all that it uses (`commands_of`); `in_ray` is that of its submitter (`Submitter`).
    """

    record: ClusterRun
    connect: Callable[[str], JobsApi]
    down: str | None = ""
    in_ray: bool = True


class AttendJob:
    """One submitted run, attended to its end."""

    def __init__(self, session: Session, cluster: Any, run: Submitted, event: Tell) -> None:
        from ..watch import JobFollow, JobTarget

        self._session, self._cluster, self._run, self._event = session, cluster, run, event
        self._wandb = ""
        record, output = run.record, session.output
        self._log, self._path = driver_log(session, run.connect, record.id, poll=0.25, wandb=self._on_wandb)
        target = JobTarget(record.namespace, record.ray_cluster, record.ray_cluster_uid, record.submission_id)
        self._follow = JobFollow(cluster, target, run.connect, say=output.progress, event=event, log=self._log)

    def to_the_end(self, timeout: float) -> ExitCode | int:
        """Attend until the end, `timeout` seconds at most; the exit code of the run, or of why it is not known."""
        from ..watch import Source

        record = self._run.record
        self._log.follow(Source(record.ray_cluster, record.ray_cluster_uid, record.submission_id))
        try:
            end = self._follow.until_final(timeout)
            if end.how in ("final", "forgotten"):
                return self._finish(end)
            return self._deleted(end) if end.how == "deleted" else self._not_the_end(end)
        except (KeyboardInterrupt, BrokenPipeError) as error:
            why = "interrupted" if isinstance(error, KeyboardInterrupt) else "nobody reads the output any more"
            left_alone(self._session, record.namespace, record.id, f"{why}; the run goes on")
            if isinstance(error, BrokenPipeError):
                raise
            return ExitCode.INTERRUPTED
        finally:
            self._log.stop()

    def _finish(self, end: JobEnd) -> ExitCode | int:
        output, ended = self._session.output, self._session.now()
        state, reason = (end.state, "") if end.how == "final" else ("FAILED", HEAD_RESTARTED)
        self._log.finish(REST if end.how == "final" else 0.0)
        self._event({"event": "final", "state": state, "reason": reason})
        if state == "SUCCEEDED" and end.message and not self._run.in_ray:
            output.warn(end.message)  # Ray's own message of a success says no more than the state
        log = self._log.join(RESULT_WITHIN)
        output.plain(self._result(state, reason, end.message, ended, log).text())
        self._note(state, reason, end.message if state != "SUCCEEDED" else "", ended)
        log = log or self._log.to_the_end()
        if self._log.failure is not None:
            raise self._log.failure
        if not log.complete:
            output.warn(f"the end of the driver's log may be missing here ({log.bytes} bytes were read): {log.why}")
        path = "" if self._log.copy_lost else self._path
        failure = of_cluster_job(self._session, path, [reason, end.message]) if state == "FAILED" else None
        if failure:
            output.plain(failure.text())
        result = replace(self._result(state, reason, end.message, ended, log), failure=failure or None)
        if output.format != "text":
            output.result(result)
        return result.exit_code

    def _deleted(self, end: JobEnd) -> ExitCode:
        """Somebody deleted the cluster: what is left of it, and how far the log was read."""
        output, record = self._session.output, self._run.record
        self._log.finish(REST_GOING, over=False)
        self._event({"event": "final", "state": "DELETED", "reason": ""})
        gone = see_deleted(
            self._session, self._cluster, record.namespace, end.message, record.ray_cluster,
            uid=record.ray_cluster_uid,
        )  # fmt: skip
        read = self._log.to_the_end()
        if self._path and read.bytes and not self._log.copy_lost:
            output.plain(f"log, as far as it was read: {self._path}")
        if output.format != "text":
            ended = self._session.now()
            output.result(self._result("DELETED", "", end.message, ended, read, gone.exit_code))
        return gone.exit_code

    def _not_the_end(self, end: JobEnd) -> ExitCode:
        output, record = self._session.output, self._run.record
        gave_up = end.how == "timeout"
        code = ExitCode.GAVE_UP if gave_up else ExitCode.UNKNOWN
        said = (
            f"gave up waiting ({end.message}); the run goes on" if gave_up else f"the outcome is unknown: {end.message}"
        )
        output.error(said)
        left_alone(self._session, record.namespace, record.id, f"run {record.id} in namespace {record.namespace}:")
        if output.format != "text":
            state = end.state if gave_up else "UNKNOWN"
            output.result(self._result(state, "", end.message, None, None, code))
        return code

    def _result(
        self, state: str, reason: str, message: str, ended: datetime | None, log: LogEnd | None,
        code: ExitCode | None = None,
    ) -> ClusterRunResult:  # fmt: skip
        from ..runs.cluster_jobs import ENDS

        record = self._run.record
        kept = self._path and not self._log.copy_lost
        facts = LogFacts(self._path, bool(log and log.complete), log.bytes if log else 0) if kept else None
        return ClusterRunResult(
            record.id, record.namespace, record.ray_cluster, record.ray_cluster_uid, record.submitter, state, reason,
            message, int(ENDS.get(state, ExitCode.UNKNOWN) if code is None else code), record.started or ended, ended,
            commands_of(self._session, record, self._run.down), facts, self._wandb,
        )  # fmt: skip

    def _on_wandb(self, url: str) -> None:
        """Say the page, and keep it on the run's record, which other laptops read."""
        from ..runs import note

        self._wandb = url
        self._session.output.progress(f"wandb: {url}")
        try:
            note(self._cluster, self._run.record, wandbUrl=url)
        except ClusterError as error:
            self._session.output.debug(f"wandb page not recorded: {error.message}")

    def _note(self, state: str, reason: str, message: str, ended: datetime) -> None:
        from ..runs import note, remember

        try:
            noted = note(self._cluster, self._run.record, ended=ended, state=state, reason=reason, message=message)
            remember(noted, self._cluster.server, self._session.env)
        except ClusterError as error:
            self._session.output.debug(f"end not recorded: {error.message}")


def commands_of(session: Session, record: ClusterRun, down: str | None = "") -> dict[str, str]:
    """The lines that go on with a run, and `down`, the one that gives back what its clusters hold; empty: its own cluster, None: none."""
    if down is None:
        return commands_for(session, record.namespace, record.id)
    down = down or paste(session, record.namespace, "cluster", "down", record.ray_cluster)
    return {**commands_for(session, record.namespace, record.id), "down": down}


def left_alone(session: Session, namespace: str, run_id: str, why: str) -> None:
    """The lines that follow a run again and that stop it, whatever -q says; its cluster stays up with or without it."""
    commands = commands_for(session, namespace, run_id)
    session.output.plain(f"{why}\n  follow it again: {commands['logs']}\n  stop it: {commands['stop']}")
