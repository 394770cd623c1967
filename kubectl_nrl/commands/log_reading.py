"""A driver's log as commands show it: from its head while there is one, kept on this machine meanwhile, else from that copy.

One way for every run on a cluster, whatever submitted it: a RayJob's, a job of a long-lived cluster, a driver by exec.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ExitCode, NrlError
from .run_result import LogFacts
from .session import Session

if TYPE_CHECKING:
    from ..watch import DriverLog, JobsApi, LogCopy, LogEnd, Source

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


def open_copy(session: Session, run_id: str) -> LogCopy | None:
    """The copy of a run's log, to be written; None when another process writes it, or, with a warning, when nothing can."""
    from ..run_directory import LOCAL_RECORD
    from ..watch import LogCopy, directory

    try:
        folder = directory(run_id, session.env)
        if os.path.lexists(folder / LOCAL_RECORD):
            raise ValueError(f"a run of this machine has the id {run_id}")
        return LogCopy.open(folder)
    except (OSError, ValueError) as error:
        session.output.warn(f"no copy of the log is kept on this machine: {error}")
        return None


def driver_log(
    session: Session, connect: Callable[[str], JobsApi], run_id: str, *, wandb: Callable[[str], None],
    poll: float = 0.5, tail: Tail | None = None, keep: bool = True,
) -> tuple[DriverLog, str]:  # fmt: skip
    """A reader of a run's log that shows it and keeps a copy; with it the copy's path, empty when none is kept.

    `connect` reaches the driver by its RayCluster's name.
    """
    from ..watch import DriverLog

    copy, tail = open_copy(session, run_id) if keep else None, tail or Tail(session.output.log, None)
    reader = DriverLog(
        connect, tail.feed, copy=copy, say=session.output.progress, wandb=wandb, caught_up=tail.caught_up, poll=poll
    )
    return reader, str(copy.path) if copy else ""


class ShownLog:
    """The log of one run, shown (of what was there at first the last `lines` only); `keep`: with a copy on this machine."""

    def __init__(
        self, session: Session, connect: Callable[[str], JobsApi], run_id: str, *, lines: int | None,
        wandb: Callable[[str], None], keep: bool = True,
    ) -> None:  # fmt: skip
        self._session, self._lines = session, lines
        self._tail = Tail(session.output.log, lines)
        self.reader, self._path = driver_log(session, connect, run_id, wandb=wandb, tail=self._tail, keep=keep)
        self.kept = _kept(session, run_id) if keep else None

    def rest(self, patience: float = HEAD_PATIENCE, *, over: bool = True) -> LogEnd:
        """Read what is left, as `DriverLog.finish` does. Raises what the reader failed with."""
        self.reader.finish(patience, over=over)
        end = self.reader.to_the_end()
        if self.reader.failure is not None:
            raise self.reader.failure
        self._tail.caught_up()
        return end

    def all_there_is(self, source: Source, words: str, *, over: bool) -> LogEnd:
        """What there is now: from the head, else from the copy; `over`: the run is. Raises `NrlError` when there is neither."""
        self.reader.follow(source)
        end = self.rest(over=over)
        if not end.bytes and not self._path and self.kept is not None and os.path.isfile(self.kept):
            # Another process of this machine keeps it: what that one has so far is what there is.
            show_file(self._session, self.kept, self._lines)
        elif not end.bytes and not end.complete:
            raise NrlError(
                f"the log of {words} is out of reach: {end.why}; there is no copy on this machine",
                "launch.logDir in the infra file keeps a copy on shared storage",
                exit_code=ExitCode.CLUSTER,
            )
        if not end.complete:
            self._session.output.warn(f"this is the copy on this machine, its end may be missing: {end.why}")
        return end

    def facts(self, *, complete: bool) -> LogFacts | None:
        """Of the copy, where there is one."""
        if self.kept is None or not os.path.isfile(self.kept):
            return None
        return LogFacts(str(self.kept), complete and not self.reader.copy_lost, self.kept.stat().st_size)

    @property
    def path(self) -> str:
        """Of a copy that holds all that was read, else empty."""
        return str(self.kept) if self.kept is not None and not self.reader.copy_lost else ""


def from_copy(session: Session, word: str, error: NrlError, lines: int | None, *, follow: bool = False) -> ExitCode:
    """Show the copy that this machine has of the log of the run called `word`, since `error` is all that the cluster says of it.

    Followed, that is an answer only for a run whose end is on record, and a whole copy of it; raises `error` where there is none.
    """
    from ..watch import read_record
    from .job_record import Forgotten

    path = _kept(session, word)
    if path is None or not os.path.isfile(path):
        raise error
    if follow and not isinstance(error, Forgotten):
        session.output.note("there is a copy of its log on this machine: the same without -f shows it")
        raise error
    whole = bool(read_record(path.parent).get("complete"))
    session.output.warn(f"{error.message}; this is the copy on this machine, {_extent(path, whole)}")
    show_file(session, path, lines)
    if not follow:
        session.output.require_seen()
        return ExitCode.OK
    if not isinstance(error, Forgotten) or error.ended is None or not whole:
        raise error
    return error.ended


def show_file(session: Session, path: Path, lines: int | None) -> None:
    """Show a copy. Raises `NrlError` for one that cannot be read."""
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


def _kept(session: Session, run_id: str) -> Path | None:
    """Where the copy of a run's log is, if there is one; None for what cannot be a run's id."""
    from ..watch import directory

    try:
        return directory(run_id, session.env) / "driver.log"
    except ValueError:
        return None


def _extent(path: Path, whole: bool) -> str:
    """How far a copy goes."""
    if whole:
        return "and it is whole"
    found = path.stat()
    until = datetime.fromtimestamp(found.st_mtime, timezone.utc)
    return f"{found.st_size} bytes, the last of them read at {until:%Y-%m-%d %H:%M:%S} UTC; its end may be missing"
