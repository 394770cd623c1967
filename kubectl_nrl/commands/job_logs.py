"""`kubectl nrl job logs`: the driver's log from the head while there is one, else from the copy on this machine.

Following ends with the run's state and its exit code; the end of what can be read is never taken for it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import ExitCode
from ..labels import ownership
from ..rayjob_state import outcome
from ..run_directory import directory
from .connecting import note_wandb, paste, ray_connector
from .log_reading import ShownLog, show_file
from .run_deleted import see_deleted
from .run_failure import of_rayjob
from .run_follow import REST_GOING
from .run_launch import commands_for, say_left_alone
from .run_panel import RunPanel
from .run_result import LogFacts, RunResult
from .session import Session
from .waiting import asked

if TYPE_CHECKING:
    from ..runs import ClusterJob, RunRecord
    from ..triage import DeadPod
    from ..watch import End, Follow, LogEnd


def of_job(
    session: Session, cluster: Any, job: RunRecord | ClusterJob, *, follow: bool, lines: int | None
) -> ExitCode | int:
    """Show a job's log, following it when asked; the job's own exit code when followed, else 0."""
    from ..runs import RunRecord
    from . import job_cluster_logs

    if isinstance(job, RunRecord):
        return _Logs(session, cluster, job, lines).show(follow=follow)
    return job_cluster_logs.logs(session, cluster, job, follow=follow, lines=lines)


def follow(session: Session, cluster: Any, run: RunRecord) -> ExitCode | int:
    """Follow a run to its end; its exit code."""
    return _Logs(session, cluster, run, None).show(follow=True)


class _Logs:
    def __init__(self, session: Session, cluster: Any, run: RunRecord, lines: int | None) -> None:
        self._session, self._cluster, self._run, self._lines = session, cluster, run, lines
        self._folder = directory(run.id, session.env)
        self._wandb = run.wandb
        self._copy_lost = ""

    def show(self, *, follow: bool) -> ExitCode | int:
        run = self._run
        if follow and not run.final:
            return self._follow()
        if not run.final and not run.status.get("jobStatus"):
            self._session.output.note(f"run {run.id} has no driver yet ({run.description}); -f waits for it")
            self._result(None)
            return ExitCode.OK
        end = self._read_once()
        if follow:
            self._session.output.plain(f"rayjob/{run.name}: {run.state}{f' ({run.reason})' if run.reason else ''}")
        self._result(end, tell=follow)
        if follow:
            return int(run.exit_code or 0)
        self._session.output.require_seen()
        return ExitCode.OK

    def _log(self) -> ShownLog:
        connect = ray_connector(self._cluster, self._run.namespace)
        return ShownLog(self._session, connect, self._run.id, lines=self._lines, wandb=self._on_wandb)

    def _read_once(self) -> LogEnd | None:
        """What there is now: from the head, else from the copy. Raises `NrlError` when there is neither."""
        from ..watch import Source

        run = self._run
        if self._is_whole(run):
            show_file(self._session, self._folder / "driver.log", self._lines)
            return None
        if not run.ray_cluster:
            self._session.output.note(f"run {run.id} ended without a driver ({run.state})")
            return None
        log, source = self._log(), Source(run.ray_cluster, run.ray_cluster, run.submission_id)
        end = log.all_there_is(source, f"run {run.id}", over=run.final)
        self._copy_lost = log.reader.copy_lost
        return end

    def _is_whole(self, run: RunRecord) -> bool:
        """Whether the copy is of this run's last attempt, to its last byte."""
        from ..watch import read_record

        record = read_record(self._folder)
        return run.final and record.get("cluster_uid") == run.ray_cluster and bool(record.get("complete"))

    def _follow(self) -> ExitCode | int:
        from ..watch import Follow, RunTarget

        run, output, log = self._run, self._session.output, self._log()
        target = RunTarget(run.namespace, run.name, run.uid, run.id)
        panel = RunPanel(self._session, f"rayjob/{run.name}", output.progress)
        follow = Follow(
            self._cluster,
            target,
            say=panel.say,
            warn=output.warn,
            view=panel.view,
            shown=lambda: panel.shown,
            log=log.reader,
            providers=asked(self._session),
        )
        try:
            end = follow.until_final()
            panel.close()
            if end.how == "deleted":
                return self._deleted(log, end, follow)
            if end.outcome is None:
                output.error(f"the outcome is unknown: {end.message}; it may still run")
                say_left_alone(self._session, run.namespace, run.id, "to come back:")
                return ExitCode.UNKNOWN
            read = log.rest()
            self._copy_lost = log.reader.copy_lost
            output.plain(f"rayjob/{run.name}: {end.outcome.words}")
            if not read.complete:
                output.warn(f"the end of the driver's log may be missing here: {read.why}")
            self._run = type(run)(follow.rayjob)
            self._result(read, follow.deaths())
            self._say_forgotten(follow)
            return int(end.outcome.exit_code)
        except KeyboardInterrupt:
            panel.close(keep=True)
            log.reader.stop()
            say_left_alone(self._session, run.namespace, run.id, "interrupted; the run goes on")
            return ExitCode.INTERRUPTED
        finally:
            panel.close()
            log.reader.stop()
            follow.close()

    def _deleted(self, log: ShownLog, end: End, follow: Follow) -> ExitCode:
        """Somebody deleted the run: what is left of it, and how far its log was read."""
        output, run = self._session.output, self._run
        log.reader.finish(REST_GOING, over=False)
        gone = see_deleted(
            self._session, self._cluster, run.namespace, end.message, follow.ray_cluster, rayjob=run.name
        )
        log.rest(0.0, over=False)
        if output.format != "text":
            commands, code = commands_for(self._session, run.namespace, run.id), int(gone.exit_code)
            facts = log.facts(complete=False)
            made = RunResult(run.id, run.rayjob, "DELETED", "", end.message, code, commands, facts, self._wandb)
            output.result(replace(made, not_gone=gone.left))
        return gone.exit_code

    def _result(self, end: LogEnd | None, deaths: Sequence[DeadPod] = (), *, tell: bool = True) -> None:
        """What a failed run died of; with -o json or yaml the run as one object on stdout, the log having gone to stderr."""
        output, run = self._session.output, self._run
        ended = outcome(run.status)
        failure = None
        if ended is not None and (tell or output.format != "text"):
            copy = "" if self._copy_lost else str(self._folder / "driver.log")
            failure = of_rayjob(self._session, ended, run.status, copy, deaths)
        if failure and tell:
            output.plain(failure.text())
        if output.format == "text":
            return
        path = self._folder / "driver.log"
        log = None
        if os.path.isfile(path):
            whole = not self._copy_lost and bool(end and end.complete)
            log = LogFacts(str(path), self._is_whole(run) or whole, path.stat().st_size)
        commands = commands_for(self._session, run.namespace, run.id)
        code = int(ended.exit_code) if ended else 0
        message = ended.message if ended else ""
        made = RunResult(run.id, run.rayjob, run.state, run.reason, message, code, commands, log, self._wandb)
        output.result(replace(made, failure=failure))

    def _say_forgotten(self, follow: Follow) -> None:
        """Name what a run holds that nothing will take from it, as one that was stopped: who only follows releases nothing."""
        from ..runs.holds import held

        run, output = type(self._run)(follow.rayjob, held(follow.pods.values())), self._session.output
        if run.forgotten:
            output.warn(f"it still holds {run.forgotten}, which nothing will take from it")
            output.hint(paste(self._session, run.namespace, "job", "stop", run.id))

    def _on_wandb(self, url: str) -> None:
        self._wandb = url
        self._session.output.progress(f"wandb: {url}")
        if self._run.wandb != url and ownership(self._run.rayjob, self._session.user).mine:
            note_wandb(self._session, self._cluster, self._run.rayjob, url)
