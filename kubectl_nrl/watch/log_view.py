"""What of a driver's log is shown: all of it, but for the encoded line that Ray echoes, and what is picked out of it.

The copy on disk keeps the bytes as they came (its length is an offset into the file on the head), so both work on
bytes in passing.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator

#: Ray's first words in a driver's log (ray/dashboard/modules/job/job_supervisor.py), followed by the whole entrypoint.
_ECHO = re.compile(rb"(Running entrypoint for job [^\n]*?: )(?:sh -c ['\"])?: nrl [^\n]*")
#: The echo stands among the first lines, after those of the runtime environment's set-up; then nothing is held back
#: any more.
_PRELUDE_LINES = 200
_PRELUDE_BYTES = 512 * 1024

_WANDB = re.compile(rb"https?://[^\s\x1b\"'<>]+/runs/[A-Za-z0-9_.~-]+")


class Shown:
    """Replaces the echo of the encoded entrypoint; feed it a log's bytes from the start.

    Whole lines are looked at during the log's first lines; after the echo, or after 200 lines, bytes pass untouched.
    """

    def __init__(self) -> None:
        self._held = b""
        self._lines = 0
        self._bytes = 0
        self._open = False

    def feed(self, data: bytes) -> bytes:
        if self._open:
            return data
        whole, newline, self._held = (self._held + data).rpartition(b"\n")
        lines = (whole + newline).splitlines(keepends=True) if newline else []
        for number, line in enumerate(lines):
            self._lines += 1
            self._bytes += len(line)
            shown = _ECHO.sub(rb"\1(shown by kubectl nrl check)", line)
            if shown != line or self._lines >= _PRELUDE_LINES or self._bytes >= _PRELUDE_BYTES:
                self._open = True
                lines[number] = shown
                rest, self._held = self._held, b""
                return b"".join(lines) + rest
        out = b"".join(lines)
        if len(self._held) > _PRELUDE_BYTES:
            self._open = True
            out, self._held = out + self._held, b""
        return out

    def end(self) -> bytes:
        """What was held back: a last line without its newline."""
        held, self._held, self._open = self._held, b"", True
        return _ECHO.sub(rb"\1(shown by kubectl nrl check)", held)


class WandbPage:
    """Finds the first wandb run page in a stream of log bytes."""

    def __init__(self) -> None:
        self.url = ""
        self._carry = b""

    def feed(self, data: bytes) -> str:
        """The page when these bytes complete its line for the first time, else an empty string."""
        if self.url:
            return ""
        lines = (self._carry + data).split(b"\n")
        self._carry = lines.pop()[-4096:]
        for line in lines:
            match = _WANDB.search(line) if b"wandb" in line else None
            if match:
                self.url = match[0].decode("ascii", "replace")
                return self.url
        return ""


class LastLines:
    """The last `lines` lines of what it is fed, all of it for a negative number; it holds little more than those.

    Only a newline ends a line: progress bars use `\\r`.
    """

    def __init__(self, lines: int) -> None:
        self._lines = lines
        self._pieces: deque[tuple[bytes, int]] = deque()
        self._newlines = 0

    def feed(self, data: bytes) -> None:
        count = data.count(b"\n")
        self._pieces.append((data, count))
        self._newlines += count
        # The newline before the first line of those wanted must stay as well, and the last line may end with one.
        while self._lines >= 0 and self._newlines - self._pieces[0][1] > self._lines:
            self._newlines -= self._pieces.popleft()[1]

    def take(self) -> bytes:
        """Those lines; it is empty then."""
        data = b"".join(piece for piece, _ in self._pieces)
        self._pieces.clear()
        self._newlines = 0
        if self._lines < 0:
            return data
        start = len(data) - data.endswith(b"\n")
        for _ in range(self._lines):
            start = data.rfind(b"\n", 0, start)
            if start < 0:
                return data
        return data[start + 1 :] if self._lines else b""


def shown(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """A whole log as it is shown, in pieces."""
    view = Shown()
    for chunk in chunks:
        yield view.feed(chunk)
    yield view.end()
