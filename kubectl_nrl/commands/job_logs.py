"""`kubectl nrl job logs`: the driver's log from the head while there is one, else from the copy on this machine.

Following ends with the run's state and its exit code; the end of what can be read is never taken for it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError, ExitCode, NrlError
from ..rayjob_state import outcome
from .connecting import ray_connector
from .job import connect_to_run, not_found
from .run_failure import of_rayjob
from .run_launch import commands_for, say_left_alone
from .run_result import LogFacts, RunResult
from .session import Session
from .waiting import asked

if TYPE_CHECKING:
    from ..runs import RunRecord
    from ..triage import DeadPod
    from ..watch import DriverLog, LogEnd

#: Seconds without an answer after which a head counts as gone.
HEAD_PATIENCE = 10.0


@dataclass
class Tail:
    """A sink that shows the last `lines` of what was there at first, and then everything (`lines` None: all)."""

    show: Callable[[bytes], None]
    lines: int | None
    _held: list[bytes] = field(default_factory=list)
    _open: bool = False

    def feed(self, data: bytes) -> None:
        if self._open or self.lines is None:
            self.show(data)
        else:
            self._held.append(data)

    def caught_up(self) -> None:
        """The beginning is over: show its last lines."""
        from ..watch import tail

        if self._open or self.lines is None:
            return
        self._open = True
        kept = tail(b"".join(self._held), self.lines)
        self._held.clear()
        if kept:
            self.show(kept)


def logs(args: argparse.Namespace, session: Session) -> ExitCode | int:
    """Show a run's log, following it when asked; the run's own exit code when followed, else 0."""
    try:
        cluster, namespace, run = connect_to_run(session, args.id)
    except ClusterError as error:
        copy = _local_copy(session, args.id, None)
        if copy is None or args.follow:
            raise
        session.output.warn(f"{error.message}; this is the copy on this machine")
        _show_file(session, copy, args.tail)
        return ExitCode.OK
    if run is None:
        copy = _local_copy(session, args.id, None)
        if copy is None:
            raise not_found(args.id, namespace)
        session.output.warn(f'no run "{args.id}" in namespace "{namespace}"; this is the copy on this machine')
        _show_file(session, copy, args.tail)
        return ExitCode.OK
    return _Logs(session, cluster, run, args.tail).show(follow=args.follow)


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
        if self._copy is not None and self._is_whole(run):
            _show_file(self._session, self._copy.path, self._lines)
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
        if reader.failure is not None:
            raise reader.failure
        self._tail.caught_up()
        if not end.bytes and not end.complete:
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
        record = self._copy.record if self._copy is not None else {}
        of_run = str(record.get("cluster_uid", "")).rstrip("+") == run.ray_cluster
        return run.final and of_run and bool(record.get("complete"))

    def _follow(self) -> ExitCode | int:
        from ..watch import Follow, RunTarget

        run, output = self._run, self._session.output
        reader = self._reader()
        target = RunTarget(run.namespace, run.name, run.uid, run.id)
        follow = Follow(
            self._cluster, target, say=output.progress, warn=output.warn, log=reader, providers=asked(self._session)
        )
        try:
            end = follow.until_final()
            if end.outcome is None:
                output.error(f"the outcome is unknown: {end.message}; it may still run")
                say_left_alone(self._session, run.namespace, run.id, "to come back:")
                return ExitCode.UNKNOWN
            reader.finish(HEAD_PATIENCE)
            read = None
            while read is None:
                read = reader.join(1.0)
            self._tail.caught_up()
            output.plain(f"rayjob/{run.name}: {end.outcome.words}")
            if not read.complete:
                output.warn(f"the end of the driver's log may be missing here: {read.why}")
            self._run = type(run)(follow.rayjob)
            self._result(read, follow.deaths())
            return int(end.outcome.exit_code)
        except KeyboardInterrupt:
            reader.stop()
            say_left_alone(self._session, run.namespace, run.id, "interrupted; the run goes on")
            return ExitCode.INTERRUPTED
        finally:
            reader.stop()
            follow.close()

    def _result(self, end: LogEnd | None, deaths: Sequence[DeadPod] = (), *, tell: bool = True) -> None:
        """What a failed run died of; with -o json or yaml the run as one object on stdout, the log having gone to stderr."""
        output, run = self._session.output, self._run
        ended = outcome(run.status)
        failure = None
        if ended is not None and (tell or output.format != "text"):
            failure = of_rayjob(self._session, ended, run.status, str(self._folder / "driver.log"), deaths)
        if failure and tell:
            output.plain(failure.text())
        if output.format == "text":
            return
        path = self._folder / "driver.log"
        log = None
        if path.exists():
            log = LogFacts(str(path), self._is_whole(run) or bool(end and end.complete), path.stat().st_size)
        commands = commands_for(self._session, run.namespace, run.id)
        code = int(ended.exit_code) if ended else 0
        message = ended.message if ended else ""
        made = RunResult(run.id, run.rayjob, run.state, run.reason, message, code, commands, log, self._wandb)
        output.result(replace(made, failure=failure))

    def _on_wandb(self, url: str) -> None:
        self._wandb = url
        self._session.output.progress(f"wandb: {url}")


def _local_copy(session: Session, word: str, run: RunRecord | None) -> Path | None:
    from ..watch import directory

    try:
        path = directory(run.id if run else word, session.env) / "driver.log"
    except ValueError:
        return None
    return path if path.is_file() else None


def _show_file(session: Session, path: Path, lines: int | None) -> None:
    from ..watch import shown, tail

    data = shown([path.read_bytes()])
    session.output.log(data if lines is None else tail(data, lines))
