"""Logs of a run on this machine, and its end by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ClusterError, ExitCode
from .local_follow import LocalFollow, commands_for
from .local_result import LocalResult
from .session import Session

if TYPE_CHECKING:
    from ..local import LocalRecord

#: Seconds that a run gets to stop: its driver may ignore the request for 5, and its processes for 2.
STOPPED = 30.0


def find(session: Session, word: str) -> LocalRecord | None:
    """The run of this machine that has this id."""
    from .. import local

    return local.find(word, session.env)


def logs(session: Session, run: LocalRecord, *, follow: bool, lines: int | None) -> ExitCode:
    """Show the driver's log; followed, to the run's end and with its exit code."""
    from .log_reading import Tail

    shown = Tail(session.output.log, lines)
    following = LocalFollow(session, run, sink=shown.feed, caught_up=shown.caught_up)
    if follow:
        return following.to_the_end()
    following.read_rest()
    if not run.log.exists():
        session.output.note(f"run {run.id} has no driver yet ({run.phase or run.state}); -f waits for it")
    if session.output.format != "text":
        session.output.result(following.result())
    session.output.require_seen()
    return ExitCode.OK


def file_logs(session: Session, path: Path, run: LocalRecord, *, follow: bool, lines: int) -> ExitCode:
    """Show another log of a run or cluster; followed, for as long as its supervisor lives."""
    import time

    from .log_reading import Tail

    shown = Tail(session.output.bytes, lines)
    with open(path, "rb") as file:
        while True:
            alive = run.alive
            while data := file.read(1024 * 1024):
                shown.feed(data)
            shown.caught_up()
            if not (follow and alive):
                return ExitCode.OK
            time.sleep(0.2)


def stop(session: Session, run: LocalRecord) -> ExitCode:
    """Stop a run with all that it started. Raises `ClusterError` when something of it stays."""
    from .. import local
    from ..local.connection import stop_and_wait

    was_over = run.final
    ended = stop_and_wait(run, STOPPED)
    if ended.orphaned:
        for left in local.leftovers(session.env):
            if left.folder == str(run.folder):
                local.clear(left)
        ended = local.find(run.id, session.env) or ended
    session.output.result(LocalResult(ended, session.clock(), commands_for(run.id)))
    if was_over:
        session.output.note(f"run {run.id} was over already")
    if not ended.torn_down:
        left_over = ", ".join(map(str, ended.left)) or "its supervisor is still at it"
        raise ClusterError(f"run {run.id} is not gone after {STOPPED:.0f} s: {left_over}", "kubectl nrl clean")
    return ExitCode.OK
