"""Pieces of a log from a server that sends it whole each time, in memory that does not grow with it.

One answer serves many reads: it is read on from where the last read ended. What comes of an answer says nothing of the log
after that answer was made, so that there is nothing more is only said of one that was asked for at that moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress

#: Bytes that are kept of what was given out: a reader asks for some of them again.
KEPT = 4096
#: An answer that took seconds is asked for again after so many times as many, at most so many seconds later.
REST, LONGEST = 2.0, 10.0


class Shorter(Exception):
    """The log ends before the place that was asked for; `size` is its length in bytes."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class WholeLog:
    """`ask` begins a new answer: the log's bytes from the first on. What it raises, reads raise."""

    def __init__(self, ask: Callable[[], Iterator[bytes]]) -> None:
        self._ask = ask
        self._answer: Iterator[bytes] | None = None
        #: The part of the answer that is kept, and where in the log it begins.
        self._kept, self._start = bytearray(), 0
        #: Its length, once it has ended; and how far it was given out.
        self._size: int | None = None
        self._given = 0
        self._began, self._rests_until = 0.0, 0.0

    def read(self, offset: int, limit: int) -> bytes:
        """Bytes from `offset` on, `limit` unless the log ends before. Raises `Shorter`."""
        if self._answer is not None and offset >= self._start:
            data = self._on(offset, limit)
            if offset + len(data) > self._given:
                self._given = offset + len(data)
                return data
        self._begin()
        data = self._on(offset, limit)
        if self._size is not None and self._size < offset:
            raise Shorter(self._size)
        self._given = offset + len(data)
        return data

    def _begin(self) -> None:
        """Ask anew, not too soon."""
        self.close()
        time.sleep(max(0.0, self._rests_until - time.monotonic()))
        self._began, self._answer, self._size = time.monotonic(), self._ask(), None

    def close(self) -> None:
        """Let the answer go."""
        answer, self._answer = self._answer, None
        self._kept, self._start = bytearray(), 0
        close = getattr(answer, "close", None)
        if close is not None:
            with suppress(OSError):
                close()

    def _on(self, offset: int, limit: int) -> bytes:
        """Read the answer on as far as is needed; at its end there is none any more."""
        assert self._answer is not None
        try:
            while self._start + len(self._kept) < offset + limit:
                piece = next(self._answer, None)
                if piece is None:
                    self._size = self._start + len(self._kept)
                    self._answer = None
                    now = time.monotonic()
                    self._rests_until = now + min(LONGEST, REST * (now - self._began))
                    break
                self._kept += piece
                self._drop(min(offset, self._start + len(self._kept)) - KEPT)
        except BaseException:
            self.close()
            raise
        at = max(0, offset - self._start)
        data = bytes(self._kept[at : at + limit])
        self._drop(offset + len(data) - KEPT)
        return data

    def _drop(self, before: int) -> None:
        """Keep nothing from before that place."""
        if before > self._start:
            del self._kept[: before - self._start]
            self._start = before
