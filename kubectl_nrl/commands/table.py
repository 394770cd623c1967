"""Rows as aligned columns, for people: one line each, whatever stands in the values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..cells import fill, printable, width


@dataclass
class Columns:
    """Column names, and how wide each has been so far: rows that come later line up with those that are printed."""

    names: Sequence[str]
    widths: dict[str, int]

    @classmethod
    def of(cls, names: Sequence[str], rows: Sequence[Mapping[str, str]]) -> Columns:
        """The columns `names` as wide as these rows need."""
        columns = cls(names, {})
        columns._fit(dict(zip(names, names, strict=True)))
        for row in rows:
            columns._fit(row)
        return columns

    @property
    def header(self) -> str:
        return self._line(dict(zip(self.names, self.names, strict=True)))

    def line(self, row: Mapping[str, str]) -> str:
        """One row; a value that is wider than any before it widens its column from here on."""
        self._fit(row)
        return self._line(row)

    def _fit(self, row: Mapping[str, str]) -> None:
        for name in self.names:
            self.widths[name] = max(self.widths.get(name, 0), width(_cell(row[name])))

    def _line(self, row: Mapping[str, str]) -> str:
        return "   ".join(fill(_cell(row[name]), self.widths[name]) for name in self.names).rstrip()


def _cell(value: str) -> str:
    return printable(value) or "-"


def table(rows: Sequence[Mapping[str, str]]) -> str:
    """The rows under their column names; a column that is empty everywhere is left out. There is at least one row."""
    columns = Columns.of([name for name in rows[0] if any(row[name] for row in rows)], rows)
    return "\n".join([columns.header, *map(columns.line, rows)])
