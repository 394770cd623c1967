"""Faults made into problems: each with the place where its value was written, in the order of those places."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..errors import Origin, Problem
from .engine import Fault
from .words import Path, path_text

#: Where the value at a path was written; asked for the path of a missing key too, and then answers for what encloses
#: it.
OriginOf = Callable[[Path], "Origin | None"]


def to_problems(faults: Iterable[Fault], origin_of: OriginOf, prefix: str = "") -> list[Problem]:
    """One problem a fault, once each, ordered by file, line and column; what has no place comes last."""
    problems: dict[tuple[str, Origin | None], Problem] = {}
    for fault in faults:
        place = origin_of(fault.path[:-1] if fault.missing else fault.path)
        between = ": " if fault.message.startswith("unknown key") else " "
        text = f"{path_text(fault.path, prefix)}{between}{fault.message}"
        problems.setdefault((text, place), Problem(text, place, severity=fault.severity))
    return sorted(problems.values(), key=_place)


def _place(problem: Problem) -> tuple[bool, str, int, int]:
    origin = problem.origin
    if origin is None:
        return (True, "", 0, 0)
    return (not origin.line, origin.file, origin.line, origin.column)
