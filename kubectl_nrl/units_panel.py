"""RayClusters and Deployments that come up together as one picture: how far all of them are, then each with its pods and reasons.

Pure, as `panel` is. Where there is no room, those that are up go first, then the lines of groups; what keeps one waiting stays longest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from . import panel
from .cells import cut, printable, wrap
from .rayjob_state import span

if TYPE_CHECKING:
    from .live import Line
    from .reasons import GroupView, Snapshot


#: The beginning of a wait, where a picture needs a time of day for it.
_ZERO = datetime(2000, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class UnitView:
    """One of them: `title` names it, `up` when nothing of it is waited for any more."""

    title: str
    snapshot: Snapshot
    up: bool = False

    @property
    def ready(self) -> tuple[int, int]:
        """Pods ready, and pods that there should be."""
        return sum(g.ready for g in self.snapshot.groups), sum(g.total for g in self.snapshot.groups)


def lines(units: Sequence[UnitView], seconds: float, columns: int, rows: int) -> list[Line]:
    """At most `rows - 1` lines, none wider than `columns - 1`; `seconds` is how long this wait has taken. There is one unit at least."""
    if len(units) == 1:
        now = _ZERO + timedelta(seconds=seconds)
        return panel.lines(units[0].title, replace(units[0].snapshot, started=_ZERO), now, columns, rows)
    room, wide = max(rows - 1, 1), max(columns - 1, 8)
    head: list[Line] = [[(line, "bold")] for line in wrap(_headline(units, seconds), wide)[:room]]
    room -= len(head)
    blocks = [_Block.of(unit, wide) for unit in units]
    if sum(block.height for block in blocks) > room:
        blocks = [block for block in blocks if not block.up]  # the headline counts the others
    return [*head, *_fitted(blocks, wide, room)]


def last_words(units: Sequence[UnitView], seconds: float) -> str:
    """What stays of the picture when all of them are up."""
    ready, total = (sum(unit.ready[at] for unit in units) for at in (0, 1))
    which = f"{units[0].title} is" if len(units) == 1 else f"{len(units)} of {len(units)} are"
    words = [f"{which} up after {span(seconds)}", f"{ready}/{total} pods ready"]
    return ", ".join([*words, *_held(units)])


@dataclass(frozen=True)
class _Block:
    """A unit's lines while there is room for all of them; `more` are those that its title goes on in."""

    up: bool
    title: Line
    more: list[Line]
    groups: Sequence[GroupView]
    why: list[Line]

    @classmethod
    def of(cls, unit: UnitView, columns: int) -> _Block:
        snapshot = unit.snapshot
        words = f"{unit.title}: {printable(snapshot.description)}"
        if not unit.up:
            title, *rest = wrap(words, columns - 4)
            more: list[Line] = [[("    ", ""), (row, "")] for row in rest]
            return cls(False, [(title, "")], more, snapshot.groups, panel.why_lines(snapshot, columns))
        ready, total = unit.ready
        words = ", ".join([words, f"{ready}/{total} pods ready", *filter(None, [panel.gpus_words(snapshot.gpus)])])
        return cls(True, [(cut(words, columns), "green")], [], (), [])

    @property
    def height(self) -> int:
        return 1 + len(self.more) + len(self.groups) + len(self.why)


def _fitted(blocks: Sequence[_Block], columns: int, room: int) -> list[Line]:
    """The blocks in that many rows."""
    if len(blocks) > room:
        more: Line = [(cut(f"and {len(blocks) - room + 1} more", columns), "dim")]
        return [*(block.title for block in blocks[: room - 1]), more] if room > 0 else []
    for_more = shares([len(block.more) for block in blocks], room - len(blocks))
    left = room - len(blocks) - sum(for_more)
    reasons = sum(len(block.why) for block in blocks)
    for_groups = shares([len(block.groups) for block in blocks], max(left - reasons, left // 3))
    for_why = shares([len(block.why) for block in blocks], left - sum(for_groups))
    every = [group for block in blocks for group in block.groups]
    found: list[Line] = []
    for block, rest, table, why in zip(blocks, for_more, for_groups, for_why, strict=True):
        found += [block.title, *block.more[:rest], *panel.group_lines(block.groups, columns, table, every)]
        found += panel.first_lines(block.why, why, columns)
    return found


def shares(wanted: Sequence[int], room: int) -> list[int]:
    """`room` dealt out one by one to those who want more, in turn; what nobody wants is left."""
    given = [0] * len(wanted)
    while room > 0 and (hungry := [at for at, number in enumerate(wanted) if given[at] < number]):
        for at in hungry[:room]:
            given[at] += 1
        room -= len(hungry[:room])
    return given


def _headline(units: Sequence[UnitView], seconds: float) -> str:
    up = sum(unit.up for unit in units)
    return ", ".join([f"{up} of {len(units)} are up", span(seconds), *_held(units)])


def _held(units: Sequence[UnitView]) -> list[str]:
    gpus = panel.gpus_words(sum(unit.snapshot.gpus for unit in units))
    return [f"{gpus} held"] if gpus else []
