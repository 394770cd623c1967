"""Lines of a container's log, each once, however often the connection that brings them breaks.

The API resumes by whole seconds only (`sinceTime`), and lines of stdout and stderr may swap by a moment; so reading
goes on a second early, and what was seen since then is known by time and content and left out.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from datetime import datetime, timezone

_SECOND = 1_000_000_000
#: How long a line is remembered, in nanoseconds: from the second before the last line's second on.
_MEMORY = 2 * _SECOND


class Lines:
    """Takes a stream of timestamped lines (`timestamps=true`) apart; `resume` says where the next stream begins."""

    def __init__(self) -> None:
        self._oldest = self._newest = 0
        self._seen: deque[tuple[int, int]] = deque()
        self._skip: Counter[tuple[int, int]] = Counter()
        self._part = bytearray()

    @property
    def resume(self) -> str:
        """`sinceTime` of the next stream, empty before the first line."""
        if not self._newest:
            return ""
        second = self._newest // _SECOND - 1
        return datetime.fromtimestamp(second, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

    def reopened(self) -> None:
        """Another stream begins, from `resume` on: a line that was cut comes again whole, and seen ones are left out."""
        self._part = bytearray()
        self._skip = Counter(self._seen)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The new lines that these bytes complete, without their times, with their newline."""
        self._part += data
        if b"\n" not in data:
            return
        *whole, self._part = self._part.split(b"\n")
        for line in whole:
            text = self._new(line)
            if text is not None:
                yield text + b"\n"

    def end(self) -> bytes:
        """A last line without a newline, once nothing more can come of it."""
        part, self._part = self._part, bytearray()
        return (self._new(part) or b"") if part else b""

    def _new(self, line: bytearray) -> bytes | None:
        """The line's text, None when it was seen before."""
        stamp, _, text = bytes(line).partition(b" ")
        time = _nanoseconds(stamp)
        if time is None:  # kubelet's own words carry no time: a log file that was rotated away, ...
            return bytes(line)
        key = (time, hash(text))
        if self._skip[key] > 0:
            self._skip[key] -= 1
            return None
        if time < self._oldest:  # before the first line that was asked for
            return None
        self._oldest = self._oldest or time
        self._newest = max(self._newest, time)
        self._seen.append(key)
        while self._seen and self._seen[0][0] < self._newest - _MEMORY:
            self._seen.popleft()
        return text


def _nanoseconds(stamp: bytes) -> int | None:
    """An RFC 3339 time as nanoseconds since 1970, None for what is none."""
    text = stamp.decode("ascii", "replace")
    head, _, rest = text[:19], text[19:20], text[19:]
    digits = ""
    if rest.startswith("."):
        digits = rest[1:].rstrip("Z").partition("+")[0].partition("-")[0]
        rest = rest[1 + len(digits) :]
    try:
        moment = datetime.fromisoformat(head + ("+00:00" if rest == "Z" else rest))
        fraction = int(digits.ljust(9, "0")[:9]) if digits else 0
    except ValueError:
        return None
    if moment.tzinfo is None or len(head) < 19:
        return None
    return int(moment.timestamp()) * _SECOND + fraction
