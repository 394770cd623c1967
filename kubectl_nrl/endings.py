"""SIGTERM and SIGHUP (a terminal that was closed) end the program as Ctrl-C does: what was begun is taken back or named.

Python's own answer to both is to die on the spot. Whoever started the program with SIGHUP ignored (nohup) keeps it so.
"""

from __future__ import annotations

import signal
from types import FrameType

from .errors import ExitCode


class Endings:
    """Which signal asked for the end, if any."""

    def __init__(self) -> None:
        self._number = 0

    @classmethod
    def listen(cls) -> Endings:
        """Hear both signals from now on."""
        endings = cls()
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, endings._hear)
        return endings

    def exit_code(self, code: int) -> int:
        """The exit code of an interrupted command as shells and supervisors know it: 143 and 129; others as they are."""
        return 128 + self._number if self._number and code == ExitCode.INTERRUPTED else code

    def _hear(self, number: int, frame: FrameType | None) -> None:
        # Kernel and shell both tell of a closed terminal, and the second time must not cut short what the first one began.
        signal.signal(number, signal.SIG_IGN)
        self._number = number
        raise KeyboardInterrupt
