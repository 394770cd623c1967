"""What `driver.sh` answers, and what it means in Ray's words."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import ClusterError
from ..exit_words import status_words

#: The first word of an answer's first line; the number is that of the protocol.
MAGIC = b"nrl1 "
#: Digits of the largest number that is believed: bytes of a log, which are the most.
_DIGITS = 15


@dataclass(frozen=True)
class Answer:
    """A driver as the head tells it.

    `word` is `absent` (the head has no such driver), `staged`, `running`, `stopping`, `ended`, `gone` (no process, and no exit
    status) or `restarted` (the container was started anew since); `ended` seconds since 1970; `size` that of the log in bytes,
    `asked` whether somebody asked it to end, `full` whether its disk has no room left, `left` what it started and that lives (both
    where that was looked for).
    """

    word: str
    exit_status: int | None = None
    ended: int | None = None
    size: int = 0
    asked: bool = False
    full: bool = False
    left: tuple[int, ...] = ()
    log: bytes = field(default=b"", repr=False)

    @property
    def live(self) -> bool:
        return self.word in ("running", "stopping")

    @property
    def status(self) -> str:
        """Ray's word for it, `UNKNOWN` for one that never started here."""
        if self.live:
            return "RUNNING"
        if self.word in ("absent", "staged"):
            return "UNKNOWN"
        if self.asked:
            return "STOPPED"
        return "SUCCEEDED" if self.word == "ended" and self.exit_status == 0 else "FAILED"

    @property
    def message(self) -> str:
        """Why, in a line; empty where there is nothing to say."""
        return "; ".join(part for part in (self._why, self._no_room, self._who_is_left) if part)

    @property
    def _why(self) -> str:
        said = {
            "absent": "the head does not know this driver",
            "staged": "its files are on the head, but it was not started",
            "stopping": "asked to end",
            "gone": "the driver is gone and left no exit status: it was killed, perhaps by the system, out of memory",
            "restarted": "the head's container was started anew, and the driver went with the one before",
        }.get(self.word, "")
        if self.word == "ended" and self.status == "FAILED" and self.exit_status is not None:
            return status_words(self.exit_status)
        return "" if self.word == "gone" and self.asked else said

    @property
    def _no_room(self) -> str:
        return "the disk of the head is full, and the end of its log may be missing" if self.full else ""

    @property
    def _who_is_left(self) -> str:
        if self.live or not self.left:
            return ""
        pids = ", ".join(map(str, self.left[:8])) + (", ..." if len(self.left) > 8 else "")
        return f"{len(self.left)} of the processes that it started still run (pid {pids}); job stop ends them"


def parse(output: bytes, doing: str) -> Answer:
    """Raises `ClusterError` (reason `ConnectionLost`) for an output that is no whole answer."""
    start = 0 if output.startswith(MAGIC) else output.find(b"\n" + MAGIC) + 1
    line, newline, log = output[start:].partition(b"\n")
    words = line.decode("ascii", "replace").split()
    if not newline or not line.startswith(MAGIC) or len(words) < 8:
        raise ClusterError(f"cannot {doing}: the answer broke off", reason="ConnectionLost")
    status, ended, size = map(_number, words[2:5])
    left = tuple(pid for pid in map(_number, words[7:]) if pid is not None)
    return Answer(words[1], status, ended, size or 0, words[5] == "stop", words[6] == "full", left, log)


def _number(word: str) -> int | None:
    """A count, a time, or a process; None for what is none, or an absurd one: an image's own `date` may say anything."""
    return int(word) if word.isdecimal() and len(word) <= _DIGITS else None
