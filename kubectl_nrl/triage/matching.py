"""Which known failures a run's end speaks of.

What is specific hides what is vague (a dead actor, a timeout): those are mostly consequences of the former.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..api import FailurePattern

#: Hints shown: more would be guessing.
MOST = 2
_LONGEST = 300


@dataclass(frozen=True)
class Hint:
    """A known failure, what helps, and the line in which it was recognized (`where`: of the log, a pod, the run's end)."""

    id: str
    summary: str
    hint: str
    line: str
    where: str = "log"

    def data(self) -> dict[str, str]:
        return {"id": self.id, "summary": self.summary, "hint": self.hint, "line": self.line}


def hints(patterns: Iterable[FailurePattern], texts: Mapping[str, Sequence[str]]) -> tuple[Hint, ...]:
    """The first patterns that match, in their order. `texts` are lines by where a pattern looks (`log`, `pod`, `end`)."""
    joined = {where: "\n".join(lines) for where, lines in texts.items()}
    specific: list[Hint] = []
    vague: list[Hint] = []
    for pattern in patterns:
        found = re.search(pattern.match, joined.get(pattern.where, ""))
        if found is None:
            continue
        hint = Hint(
            pattern.id, pattern.summary, pattern.hint, _line_around(joined[pattern.where], found), pattern.where
        )
        (vague if pattern.vague else specific).append(hint)
        if len(specific) == MOST:
            break
    return tuple(specific or vague[:1])


def _line_around(text: str, found: re.Match[str]) -> str:
    start = text.rfind("\n", 0, found.start()) + 1
    end = text.find("\n", found.start())
    return text[start : end if end >= 0 else None].strip()[:_LONGEST]
