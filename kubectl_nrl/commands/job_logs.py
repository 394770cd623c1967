"""`kubectl nrl job logs`: the driver's log from the head while there is one, else from the copy on this machine.

Following ends with the run's state and its exit code; the end of what can be read is never taken for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ExitCode, NrlError
from ..labels import ownership
from ..rayjob_state import outcome
from .connecting import note_wandb, ray_connector
from .run_failure import of_rayjob
from .run_launch import commands_for, say_left_alone
from .run_panel import RunPanel
from .run_result import LogFacts, RunResult
from .session import Session
from .waiting import asked

if TYPE_CHECKING:
    from ..runs import ClusterJob, RunRecord
    from ..triage import DeadPod
    from ..watch import DriverLog, LogEnd

#: Seconds without an answer after which a head counts as gone.
HEAD_PATIENCE = 10.0


class Tail:
    """A sink that shows the last `lines` of what was there at first, and then everything (`lines` None: all)."""

    def __init__(self, show: Callable[[bytes], None], lines: int | None) -> None:
        from ..watch import LastLines

        self._show = show
        self._held = None if lines is None else LastLines(lines)

    def feed(self, data: bytes) -> None:
        if self._held is None:
            self._show(data)
        else:
            self._held.feed(data)

    def caught_up(self) -> None:
        """The beginning is over: show its last lines."""
        held, self._held = self._held, None
        kept = held.take() if held is not None else b""
        if kept:
            self._show(kept)


def of_job(
    session: Session, cluster: Any, job: RunRecord | ClusterJob, *, follow: bool, lines: int | None
) -> ExitCode | int:
    """Show a job's log, following it when asked; the job's own exit code when followed, else 0."""
    from ..runs import RunRecord
    from . import job_cluster

    if isinstance(job, RunRecord):
        return _Logs(session, cluster, job, lines).show(follow=follow)
    return job_cluster.logs(session, cluster, job, follow=follow, lines=lines)


def show_copy(session: Session, word: str, why: str, lines: int | None) -> bool:
    """Show the copy that this machine has of a run's log, with `why` it is only that; False when there is none."""
    from ..watch import directory

    try:
        path = directory(word, session.env) / "driver.log"
    except ValueError:
        return False
    if not os.path.isfile(path):
        return False
    session.output.warn(f"{why}; this is the copy on this machine")
    _show_file(session, path, lines)
    if session.output.unseen is not None:
        raise session.output.unseen
    return True


def follow(session: Session, cluster: Any, run: RunRecord) -> ExitCode | int:
    """Follow a run to its end; its exit code."""
    return _Logs(session, cluster, run, None).show(follow=True)


class _Logs:
    def __init__(self, session: Session, cluster: Any, run: RunRecord, lines: int | None) -> None:
        from ..watch import LogCopy, directory

        self._session, self._cluster, self._run, self._lines = session, cluster, run, lines
        self._folder = directory(run.id, session.env)
        self._tail = Tail(session.output.log, lines)
        self._wandb = run.wandb
        self._copy_lost = ""
        try:
            self._copy = LogCopy.open(self._folder)
        except OSError as error:
            self._copy = None
            session.output.warn(f"no copy of the log is kept on this machine: {error}")

    def show(self, *, follow: bool) -> ExitCode | int:
        try:
            return self._show(follow)
        finally:
            if self._copy is not None:
                self._copy.close()

    def _show(self, follow: bool) -> ExitCode | int:
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
        if self._session.output.unseen is not None and not follow:
            raise self._session.output.unseen
        return int(run.exit_code or 0) if follow else ExitCode.OK

    def _reader(self) -> DriverLog:
        from ..watch import DriverLog

        return DriverLog(
            ray_connector(self._cluster, self._run.namespace),
            self._tail.feed,
            copy=self._copy,
            say=self._session.output.progress,
            wandb=self._on_wandb,
            caught_up=self._tail.caught_up,
        )

    def _read_once(self) -> LogEnd | None:
        """What there is now: from the head, else from the copy. Raises `NrlError` when there is neither."""
        from ..watch import Source

        run = self._run
        if self._is_whole(run):
            _show_file(self._session, self._folder / "driver.log", self._lines)
            return None
        if not run.ray_cluster:
            self._session.output.note(f"run {run.id} ended without a driver ({run.state})")
            return None
        reader = self._reader()
        reader.follow(Source(run.ray_cluster, run.ray_cluster, run.submission_id))
        reader.finish(HEAD_PATIENCE)
        end = None
        while end is None:
            end = reader.join(1.0)
        self._copy_lost = reader.copy_lost
        if reader.failure is not None:
            raise reader.failure
        self._tail.caught_up()
        kept = self._folder / "driver.log"
        if not end.bytes and self._copy is None and os.path.isfile(kept):
            # Another process of this machine keeps it: what that one has so far is what there is.
            _show_file(self._session, kept, self._lines)
        elif not end.bytes and not end.complete:
            raise NrlError(
                f"the log of run {run.id} is out of reach: {end.why}; there is no copy on this machine",
                "launch.logDir in the infra file keeps a copy on shared storage",
                exit_code=ExitCode.CLUSTER,
            )
        if not end.complete:
            self._session.output.warn(f"this is the copy on this machine, its end may be missing: {end.why}")
        return end

    def _is_whole(self, run: RunRecord) -> bool:
        """Whether the copy is of this run's last attempt, to its last byte."""
        from ..watch import read_record

        record = read_record(self._folder)
        return run.final and record.get("cluster_uid") == run.ray_cluster and bool(record.get("complete"))

    def _follow(self) -> ExitCode | int:
        from ..watch import Follow, RunTarget

        run, output = self._run, self._session.output
        reader = self._reader()
        target = RunTarget(run.namespace, run.name, run.uid, run.id)
        panel = RunPanel(self._session, f"rayjob/{run.name}", output.progress)
        follow = Follow(
            self._cluster,
            target,
            say=panel.say,
            warn=output.warn,
            view=panel.view,
            shown=lambda: panel.shown,
            log=reader,
            providers=asked(self._session),
        )
        try:
            end = follow.until_final()
            panel.close()
            if end.outcome is None:
                output.error(f"the outcome is unknown: {end.message}{'' if end.gone else '; it may still run'}")
                if not end.gone:
                    say_left_alone(self._session, run.namespace, run.id, "to come back:")
                return ExitCode.UNKNOWN
            reader.finish(HEAD_PATIENCE)
            read = None
            while read is None:
                read = reader.join(1.0)
            self._copy_lost = reader.copy_lost
            self._tail.caught_up()
            output.plain(f"rayjob/{run.name}: {end.outcome.words}")
            if not read.complete:
                output.warn(f"the end of the driver's log may be missing here: {read.why}")
            self._run = type(run)(follow.rayjob)
            self._result(read, follow.deaths())
            return int(end.outcome.exit_code)
        except KeyboardInterrupt:
            panel.close(keep=True)
            reader.stop()
            say_left_alone(self._session, run.namespace, run.id, "interrupted; the run goes on")
            return ExitCode.INTERRUPTED
        finally:
            panel.close()
            reader.stop()
            follow.close()

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

    def _on_wandb(self, url: str) -> None:
        self._wandb = url
        self._session.output.progress(f"wandb: {url}")
        if self._run.wandb != url and ownership(self._run.rayjob, self._session.user).mine:
            note_wandb(self._session, self._cluster, self._run.rayjob, url)


def _show_file(session: Session, path: Path, lines: int | None) -> None:
    from ..watch import shown

    sink = Tail(session.output.log, lines)
    for piece in shown(_readable(path)):
        sink.feed(piece)
    sink.caught_up()


def _readable(path: Path) -> Iterator[bytes]:
    """The copy's bytes. Raises `NrlError` for one that another user wrote, or that breaks off under a bad disk."""
    from ..watch import pieces

    try:
        yield from pieces(path)
    except OSError as error:
        raise NrlError(
            f"the copy {path} cannot be read: {error.strerror or error}", f"ls -l {path}", exit_code=ExitCode.CLUSTER
        ) from error
