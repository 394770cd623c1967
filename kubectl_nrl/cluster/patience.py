"""How long to wait, and whether anybody still wants the answer.

Every blocking step of a connection waits in slices of a fraction of a second, so that a stop is noticed although
nothing arrives.
"""

from __future__ import annotations

import time
from collections.abc import Callable

SLICE = 0.4


class Cancelled(Exception):
    """Whoever asked does not want the answer any more."""


class Patience:
    """A number of seconds from now (None: for ever), and a question to ask between slices."""

    def __init__(self, seconds: float | None, cancelled: Callable[[], bool] | None = None) -> None:
        self.seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds
        self._cancelled = cancelled

    def slice(self) -> float:
        """Seconds to block for now. Raises `TimeoutError` at the end and `Cancelled` when nobody waits."""
        if self._cancelled is not None and self._cancelled():
            raise Cancelled
        if self._end is None:
            return SLICE
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"no answer within {self.seconds:g} s")
        return min(left, SLICE)

    def within(self, seconds: float) -> Patience:
        """The same, but at most that many seconds from now."""
        left = seconds if self._end is None else min(seconds, self._end - time.monotonic())
        return Patience(left, self._cancelled)

    def renewed(self) -> Patience:
        """The same patience, counted from now: progress was made."""
        return Patience(self.seconds, self._cancelled)
