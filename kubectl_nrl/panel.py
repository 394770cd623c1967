"""A run at one moment as lines for a terminal of any size: what it does, its pods, why they wait.

Pure: a `Snapshot` and a size give lines, so that the picture is tested without a terminal. What explains the waiting is
kept longest when there is no room: causes are wrapped, not cut; groups that are ready go first.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from .cells import cut, fill, printable, width, wrap
from .rayjob_state import span

if TYPE_CHECKING:
    from .live import Line, Span
    from .reasons import GroupView, Snapshot

#: Rows that one cause may take; the rest of a longer one stands in `kubectl nrl status`.
CAUSE_ROWS = 5
#: Columns for the names of groups at most.
NAME_COLUMNS = 30


def lines(title: str, snapshot: Snapshot, now: datetime, columns: int, rows: int) -> list[Line]:
    """At most `rows - 1` lines, none wider than `columns - 1`; `title` names the run, `now` is aware."""
    room, wide = max(rows - 1, 1), max(columns - 1, 8)
    head = _head(title, snapshot, now, wide)[:room]
    why = why_lines(snapshot, wide)
    groups = list(snapshot.groups)
    room -= len(head)
    for_groups = max(room - len(why), min(len(groups), room // 3))
    table = group_lines(groups, wide, for_groups)
    return [*head, *table, *first_lines(why, room - len(table), wide)]


def group_lines(groups: Sequence[GroupView], columns: int, rows: int, beside: Sequence[GroupView] = ()) -> list[Line]:
    """A line for each group; where there are more groups than rows, those that are ready are told together.

    The lines line up with those of the groups `beside`.
    """
    if rows <= 0:
        return []
    shown, folded = list(groups), []
    if len(shown) > rows:
        waiting_first = sorted(shown, key=lambda group: group.ready >= group.total)
        kept = {id(group) for group in waiting_first[: rows - 1]}
        shown = [group for group in groups if id(group) in kept]
        folded = [group for group in groups if id(group) not in kept]
    aligned = [*shown, *beside]
    names = min(max((width(printable(g.name)) for g in aligned), default=0), NAME_COLUMNS)
    counts = max((len(_ready(g)) for g in aligned), default=0)
    gpus = max((len(gpus_words(g.gpus)) for g in aligned), default=0)
    table = [_group(group, names, counts, gpus, columns) for group in shown]
    if folded:
        ready, total = sum(g.ready for g in folded), sum(g.total for g in folded)
        held = gpus_words(sum(g.gpus for g in folded))
        which = f"and {len(folded)} more groups" if shown else f"{len(folded)} groups"
        words = f"  {which}, {ready}/{total} ready" + (f", {held}" if held else "")
        table.append([(cut(words, columns), "dim")])
    return table


def headline(title: str, snapshot: Snapshot, now: datetime) -> str:
    """`rayjob/x: Initializing: its Ray cluster is starting, 1m12s, 16 GPUs held`."""
    words = [f"{title}: {printable(snapshot.description)}"]
    if snapshot.started is not None:
        words.append(span(max(0.0, (now - snapshot.started).total_seconds())))
    if snapshot.gpus:
        words.append(f"{gpus_words(snapshot.gpus)} held")
    return ", ".join(words)


def _head(title: str, snapshot: Snapshot, now: datetime, columns: int) -> list[Line]:
    return [[(line, "bold")] for line in wrap(headline(title, snapshot, now), columns)]


def _group(group: GroupView, names: int, counts: int, gpus: int, columns: int) -> Line:
    ready = group.total and group.ready >= group.total
    name = fill(cut(printable(group.name), names), names)
    states = ", ".join(
        f"{count} {printable(state)}" for state, count in sorted(group.states.items()) if state != "Ready"
    )
    spans: list[Span] = [(f"  {name}  ", ""), (_ready(group).rjust(counts), "green" if ready else "yellow")]
    held = f"  {gpus_words(group.gpus).rjust(gpus)}" if gpus and (group.gpus or states) else ""
    spans += [(f" ready{held}", ""), (f"  {states}" if states else "", "yellow")]
    return _cut_line(spans, columns)


def _cut_line(spans: Sequence[Span], columns: int) -> Line:
    """The line in at most that many columns."""
    left, kept = columns, []
    for text, colour in spans:
        part = cut(text, left).rstrip() if width(text) > left else text
        left -= width(part)
        if part:
            kept.append((part, colour))
        if part != text:
            break
    return kept


def why_lines(snapshot: Snapshot, columns: int) -> list[Line]:
    """Why it waits, and what may not be looked at."""
    return [*_causes(snapshot, columns), *_notes(snapshot, columns)]


def first_lines(found: list[Line], rows: int, columns: int) -> list[Line]:
    """As many of the lines as there are rows; how many are left out is the last of them."""
    if len(found) <= max(rows, 0):
        return found
    if rows <= 0:
        return []
    left = len(found) - rows + 1
    return [*found[: rows - 1], [(cut(f"  and {left} more lines: kubectl nrl status", columns), "dim")]]


def _causes(snapshot: Snapshot, columns: int) -> list[Line]:
    lines: list[Line] = []
    for trouble in snapshot.troubles:
        rows = wrap(printable(trouble.line), columns - 4)
        if len(rows) > CAUSE_ROWS:
            rows = [*rows[: CAUSE_ROWS - 1], cut(" ".join(rows[CAUSE_ROWS - 1 :]), columns - 4)]
        colour = "yellow" if trouble.heals == "alone" else "red"
        lines += [[("  " if at == 0 else "    ", ""), (row, colour)] for at, row in enumerate(rows)]
    return lines


def _notes(snapshot: Snapshot, columns: int) -> list[Line]:
    return [
        [("  " if at == 0 else "    ", ""), (row, "dim")]
        for note in snapshot.notes
        for at, row in enumerate(wrap(printable(note), columns - 4))
    ]


def _ready(group: GroupView) -> str:
    return f"{group.ready}/{group.total}"


def gpus_words(count: int) -> str:
    """`1 GPU`, `16 GPUs`; empty for none."""
    return f"{count} GPU{'' if count == 1 else 's'}" if count else ""
