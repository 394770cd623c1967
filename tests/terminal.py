"""A terminal in memory: rows as a person sees them, made narrower the way real ones are, which break long rows in two."""

from __future__ import annotations

import io
import re
import threading
from types import SimpleNamespace
from typing import TextIO

import pytest


class Terminal(io.StringIO):
    """Takes what is written to it; knows the few sequences that a panel needs and fails on any other."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        super().__init__()
        self.columns, self.height = columns, rows
        #: Who looks at the screen from another thread sees what is written at once whole or not at all.
        self._lock = threading.RLock()
        #: (text, whether the row goes on in the next one)
        self._rows: list[tuple[str, bool]] = [("", False)]
        self._row = self._column = 0

    def isatty(self) -> bool:
        return True

    @property
    def screen(self) -> list[str]:
        """All rows from the first that was written, those that scrolled away too; without blanks at the end."""
        with self._lock:
            rows = [text.rstrip() for text, _ in self._rows]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def size(self) -> tuple[int, int]:
        return self.columns, self.height

    def resize(self, columns: int, rows: int | None = None) -> None:
        """Break every row anew, keeping the cursor on the text that it stood on (it stands at the start of a row)."""
        with self._lock:
            self.columns, self.height = columns, rows or self.height
            fresh: list[tuple[str, bool]] = []
            line, cursor = "", 0
            for number, (text, wrapped) in enumerate(self._rows):
                if number == self._row:
                    cursor = len(fresh)
                line += text
                if wrapped:
                    continue
                pieces = [line[at : at + columns] for at in range(0, len(line), columns)] or [""]
                fresh += [(piece, at < len(pieces) - 1) for at, piece in enumerate(pieces)]
                line = ""
            self._rows, self._row = fresh, cursor

    def write(self, text: str) -> int:
        with self._lock:
            for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|[^\x1b]", text):
                if part.startswith("\x1b"):
                    self._sequence(part)
                else:
                    self._character(part)
        return len(text)

    def _sequence(self, part: str) -> None:
        number = int(part[2:-1] or 0) if part[2:-1].isdigit() or not part[2:-1] else 0
        if part.endswith("A"):
            top = max(0, len(self._rows) - self.height)
            self._row = max(top, self._row - max(number, 1))
        elif part.endswith("K"):
            text, wrapped = self._rows[self._row]  # that it goes on in the next row is not forgotten (tmux)
            self._rows[self._row] = (text[: self._column], wrapped)
        elif part.endswith("M"):
            number = min(number, len(self._rows) - self._row)
            self._rows[self._row : self._row + number] = [] if self._row + number < len(self._rows) else [("", False)]
        elif part == "\x1b[J":
            if self._row == max(0, len(self._rows) - self.height) and self._column == 0:
                self._scroll_away()
            text, _ = self._rows[self._row]
            self._rows[self._row :] = [(text[: self._column], False)]
        else:
            assert part.endswith("m"), f"unknown sequence {part!r}"

    def _scroll_away(self) -> None:
        """What tmux does with a whole screen that is to be cleared: it is kept above."""
        while self._row < len(self._rows) and any(text.rstrip() for text, _ in self._rows[self._row :]):
            self._row += 1
        self._rows += [("", False)] * (self._row + 1 - len(self._rows))

    def _character(self, character: str) -> None:
        if character == "\n":
            self._down()
            self._column = 0
        elif character == "\r":
            self._column = 0
        else:
            if self._column == self.columns:
                text, _ = self._rows[self._row]
                self._rows[self._row] = (text, True)
                self._down()
                self._column = 0
            text, wrapped = self._rows[self._row]
            text = text.ljust(self._column)
            self._rows[self._row] = (text[: self._column] + character + text[self._column + 1 :], wrapped)
            self._column += 1

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self._rows):
            self._rows.append(("", False))


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, terminal: Terminal, stdout: TextIO | None = None) -> None:
    """What is printed from now on goes to the terminal, but for data where `stdout` is given."""
    # Not sys.stderr itself: pytest puts its own there between a fixture and its test.
    streams = SimpleNamespace(stdout=stdout or terminal, stderr=terminal)
    for module in ("output", "streams"):
        monkeypatch.setattr(f"kubectl_nrl.{module}.sys", streams)
    monkeypatch.setattr("kubectl_nrl.output._size", lambda stream=None: terminal.size())
