"""Rows as aligned columns, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def table(rows: Sequence[Mapping[str, str]]) -> str:
    """The rows under their column names; a column that is empty everywhere is left out. There is at least one row."""
    names = [name for name in rows[0] if any(row[name] for row in rows)]
    lines = [names, *([row[name] or "-" for name in names] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(names))]
    return "\n".join("   ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)
