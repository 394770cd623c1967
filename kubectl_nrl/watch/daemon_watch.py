"""Watches one submitted daemon: until it is healthy, and that it has not died.

Lost connections are no end of a daemon, a head that does not know it any more is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from ..errors import ClusterError, ExitCode, NrlError
from ..rayjob_state import LIVE, message_of
from .driver_log import JobsApi
from .log_view import LastLines, shown

#: Seconds between two looks.
POLL = 0.5
#: Seconds that a daemon without a health URL must have run to count as started: most faults of a start show by then.
STARTED = 3.0
#: Seconds without an answer of Ray after which that is an error.
PATIENCE = 60.0
#: Lines of a dead daemon's log that are shown, and the most that is read to find them.
LAST_LINES, READ_MAX = 20, 64 * 1024 * 1024


class Health(Protocol):
    """Something that is asked whether the daemon answers: raises `ClusterError` while it does not."""

    def ask(self) -> None: ...
    def close(self) -> None: ...


class DaemonWatch:
    """One daemon. `words` name it in messages, `connect` reaches Ray on its cluster, `look` is a command that shows more.

    `health` is None for one without a URL; `fresh` is False for one that ran before. `timeout` seconds until it must be healthy;
    `tell` gets what it still lacks, each time that it is looked at.
    """

    def __init__(
        self, words: str, submission_id: str, connect: Callable[[], JobsApi], health: Health | None, *, fresh: bool,
        timeout: float, look: str, key: str, tell: Callable[[str], None] = lambda why: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._words, self._id, self._connect, self._health = words, submission_id, connect, health
        self._fresh, self._timeout, self._look, self._key, self._clock = fresh, timeout, look, key, clock
        self._tell = tell
        self._jobs: JobsApi | None = None
        self._silent: float | None = None

    def until_healthy(self, stop: threading.Event) -> bool:
        """Wait until it answers; False when `stop` was set before. Raises as `check` does, and `NrlError` with GAVE_UP."""
        began, running = self._clock(), 0.0
        why = "it is not running yet"
        while not stop.is_set():
            if self.check() == "RUNNING":
                running = running or self._clock()
                if self._health is None:
                    why = f"it has not run for {STARTED:.0f} s yet"
                    if not self._fresh or self._clock() - running >= STARTED:
                        return True
                else:
                    try:
                        self._health.ask()
                        return True
                    except ClusterError as error:
                        if error.status in (401, 403):
                            raise
                        why = error.message
            if self._clock() - began >= self._timeout:
                raise NrlError(
                    f"{self._words} is not healthy after {self._timeout:.0f} s: {why}{self._said()}",
                    f"{self._look}; {self._key} gives it longer, --replace starts it anew",
                    exit_code=ExitCode.GAVE_UP,
                )
            self._tell(why)
            stop.wait(POLL)
        return False

    def stay(self, over: Callable[[], bool], stop: threading.Event) -> None:
        """Watch it until `over()`, or until `stop` is set. Raises as `check` does."""
        while not over() and not stop.is_set():
            self.check()
            stop.wait(POLL)

    def check(self) -> str:
        """Its state, empty while Ray does not answer. Raises `ClusterError` with its last lines when it has ended."""
        try:
            if self._jobs is None:
                self._jobs = self._connect()
            job = self._jobs.get(self._id)
        except ClusterError as error:
            self._lost(error)
            return ""
        self._silent = None
        if job is None:
            raise ClusterError(
                f"{self._words} is gone: its head has restarted and does not know it any more",
                self._look,
                reason="Gone",
            )
        state = str(job.get("status") or "")
        if state not in LIVE:
            # What follows its first line stands in the log as well, whose end is shown.
            message = message_of(job).partition("\n")[0]
            raise ClusterError(
                f"{self._words} has ended: {state}{f', {message}' if message else ''}{self._said()}", self._look,
                reason="DaemonEnded",
            )  # fmt: skip
        return state

    def close(self) -> None:
        if self._health is not None:
            self._health.close()
        jobs, self._jobs = self._jobs, None
        if jobs is not None:
            jobs.close()

    def _lost(self, error: ClusterError) -> None:
        jobs, self._jobs = self._jobs, None
        if jobs is not None:
            jobs.close()
        now = self._clock()
        self._silent = self._silent or now
        if error.status in (401, 403) or error.reason == "Gone" or now - self._silent >= PATIENCE:
            raise error

    def _said(self) -> str:
        """Its last lines, to stand under a message; empty when there are none."""
        last, offset = LastLines(LAST_LINES), 0
        try:
            while self._jobs is not None and offset < READ_MAX and (chunk := self._jobs.log_chunk(self._id, offset)):
                last.feed(chunk)
                offset += len(chunk)
        except ClusterError:
            pass  # what was read so far is better than nothing
        lines = b"".join(shown([last.take()])).decode("utf-8", "replace").splitlines()
        return "".join(f"\n  | {line}" for line in lines)
