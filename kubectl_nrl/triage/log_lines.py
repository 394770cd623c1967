"""The lines of a log's end as a person would quote them, and which of them say what went wrong.

Ray and torchrun put the process in front of each line, and the output of many is interleaved: a traceback is followed
through the lines of its own process only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

#: Bytes of a log's end that are looked at. Tracebacks of a few dozen workers fit; reading it costs nothing.
END = 256 * 1024
#: Lines, characters of a line, lines shown: what bounds the work, whatever was written.
_MOST_LINES, _LONGEST, _SHOWN = 4000, 2000, 12
_SHOWN_WIDTH = 300
#: Lines of error that come this much later than the last traceback are nearer to the end than it.
_LATER = 200

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
#: `(Worker pid=12, ip=10.0.0.1) ` of Ray, `[rank3]: ` of torchrun, `ERROR 01-31 10:00:00 [core.py:12] ` of vLLM.
_PROCESS = re.compile(r"(\([^()]{0,120}pid=\d{1,10}(?:, ip=[\w.:]{1,64})?\)|\[rank\d{1,6}\]:) ?")
_LOGGER = re.compile(r"(?:ERROR|WARNING|INFO|DEBUG) \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]{1,80}\] ?")
_REPEATED = re.compile(r" \[repeated \d+x across cluster\].*$")

_TRACEBACK = "Traceback (most recent call last):"
_NEXT = ("During handling of the above exception", "The above exception was the direct cause")
#: The beginning of a line that some logger has written, which ends an exception's message of several lines.
_LOGGED = re.compile(r"\d{4}-\d\d-\d\d|\[\d|(?:INFO|WARNING|DEBUG|ERROR)\b|wandb:|\(raylet|[\w./-]+:\d+:\d+ ")
#: The first line of what was raised, with its class in front.
_RAISED = re.compile(r"[A-Za-z_][\w.]{0,120}(?:Error|Exception|Exit|Interrupt|Timeout)\w{0,40}(?:\(\w{0,60}\))?(?::|$)")
#: Lines that an exception's message may have below its first one without being indented.
_LOOSE = 4
_ERROR = re.compile(
    r"\b(?:ERROR|CRITICAL|FATAL|[Ff]atal|panic)\b|\b(?:[A-Z]\w*)?(?:Error|Exception)\b(?::|$)|^error\b|: error:|"
    r"Segmentation fault|command not found|No such file or directory|NCCL WARN|Killed$"
)


@dataclass(frozen=True)
class Line:
    """A line without its process's prefix and colours; `who` is that prefix, empty for the driver's own."""

    who: str
    text: str


def lines(data: bytes) -> list[Line]:
    """The last lines of a log, oldest first. Of a progress bar's line only what it showed last."""
    text = data[-END:].decode("utf-8", "replace")
    found = text.split("\n")[-_MOST_LINES:]
    if len(data) > END and len(found) > 1:
        found = found[1:]  # it begins in the middle
    return [_line(raw) for raw in found if raw.strip()]


def _line(raw: str) -> Line:
    # Cut twice: colours and bars may fill a line of any length.
    shown = _ANSI.sub("", raw[-4 * _LONGEST :].rstrip("\r")).rpartition("\r")[2][:_LONGEST]
    shown = _CONTROL.sub("", shown).rstrip()
    process = _PROCESS.match(shown)
    who = process[1] if process else ""
    rest = shown[process.end() :] if process else shown
    return Line(who, _REPEATED.sub("", _LOGGER.sub("", rest, count=1) if _LOGGER.match(rest) else rest))


def error_lines(found: Sequence[Line]) -> tuple[str, ...]:
    """The end of the last traceback, else the last lines that speak of an error; at most 12, none where nothing does."""
    start = _last_traceback(found)
    after = start if start is not None else 0
    marked = [n for n, line in enumerate(found) if n >= after and _ERROR.search(line.text)]
    if start is not None:
        block = _block(found, start)
        if not marked or marked[-1] - start - len(block) < _LATER:
            return _shortened(block)
    unique = dict.fromkeys(found[n].text[:_SHOWN_WIDTH] for n in marked)
    return tuple(list(unique)[-_SHOWN:])


def _last_traceback(found: Sequence[Line]) -> int | None:
    """Where the driver's last traceback begins, which quotes that of its workers; else the last of any process."""
    starts = [n for n, line in enumerate(found) if line.text.lstrip().startswith(_TRACEBACK)]
    own = [n for n in starts if not found[n].who]
    return own[-1] if own else starts[-1] if starts else None


def _block(found: Sequence[Line], start: int) -> list[str]:
    """The traceback's lines and its exception's message, from the lines of its process."""
    who, block, said, loose = found[start].who, [found[start].text], False, 0
    for line in found[start + 1 : start + 400]:
        if line.who != who:
            continue
        text, inside = line.text, line.text[:1].isspace()
        if text.startswith(_NEXT) or (said and not inside and _LOGGED.match(text)):
            break
        # A message may go on below its first line; a program that goes on printing has survived the exception.
        loose = 0 if inside or not said or _RAISED.match(text) else loose + 1
        block.append(text)
        said = said or not inside
        if loose > _LOOSE:
            return block[:-loose]
    return block


def _shortened(block: Sequence[str]) -> tuple[str, ...]:
    """The first line and the last ones, without the marks below code."""
    kept = [text[:_SHOWN_WIDTH] for text in block if text.strip(" ^~")]
    if len(kept) > _SHOWN:
        kept = [kept[0], "  ...", *kept[2 - _SHOWN :]]
    return tuple(kept)
