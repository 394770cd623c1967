"""How far a log was read, so that reading can go on there after anything, and only in the same log.

An offset alone would splice two logs silently when the second one is already longer: each read begins a few bytes before it, and
those must be the bytes that were read last.
"""

from __future__ import annotations

from collections.abc import Callable

from ..errors import ClusterError

#: Bytes that are read again each time.
OVERLAP = 64


class Place:
    """An offset in bytes, with the bytes before it."""

    def __init__(self, offset: int = 0, before: bytes = b"") -> None:
        self.offset = offset
        self._before = before[-OVERLAP:]

    def read(self, chunk: Callable[[int], bytes]) -> bytes:
        """What comes next, b"" when nothing does yet; `chunk` gives a log's bytes from an offset on.

        Raises `ClusterError`, with reason `LogReplaced` when the log does not go on from this place.
        """
        again = len(self._before)
        data = chunk(self.offset - again)
        if data[:again] != self._before:
            raise ClusterError(
                f"the log does not go on where it was read to (byte {self.offset})", reason="LogReplaced"
            )
        fresh = data[again:]
        self.offset += len(fresh)
        self._before = (self._before + fresh[-OVERLAP:])[-OVERLAP:]
        return fresh
