"""The known failures as a table in a page, between two marks: `python -m kubectl_nrl.triage.reference FILE`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from ..api import FailurePattern

COMMAND = "python -m kubectl_nrl.triage.reference docs/troubleshooting.md"
BEGIN, END = f"<!-- Generated. Refresh it with: {COMMAND} -->", "<!-- end -->"

_WHERE = {"log": "the driver's log", "pod": "a pod that died", "end": "the run's own end"}


def refreshed(page: str, patterns: Iterable[FailurePattern]) -> str:
    """The page with its table made anew. Raises ValueError where the marks are not there."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n{table(patterns)}\n{END}{after}"


def table(patterns: Iterable[FailurePattern]) -> str:
    """One row for each: its name, what happened, what helps."""
    rows = ["| name | found in | what happened | what helps |", "|---|---|---|---|"]
    for pattern in patterns:
        cells = (f"`{pattern.id}`", _WHERE[pattern.where], pattern.summary, pattern.hint)
        rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    from ..manager import Manager

    target = Path(sys.argv[1])
    known = Manager.load(env={}, path=()).failure_patterns()
    target.write_text(refreshed(target.read_text(encoding="utf-8"), known), encoding="utf-8")
