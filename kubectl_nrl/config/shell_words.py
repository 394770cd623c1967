"""Finds the simple commands of a shell script and the words of each, with their places.

It is no shell: it knows quoting, comments, operators and `$(...)`, enough to tell a literal word from one that a shell would
change. What it cannot judge it calls not literal, so that nobody rewrites it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from .brackets import closing

#: Turns a new word into what must stand in the script for it, by the quotes around the command.
Quote = Callable[[str], str]

#: Shells inside one another (`bash -c '...'`, `$(...)`).
MAX_DEPTH = 8

#: The word after `<<`: an optional dash, an optional quote, the delimiter.
_HEREDOC = re.compile(r"(-?)[ \t]*(['\"\\]?)([\w.-]+)\2?")

_BLANK = " \t\r"
_BREAK = "\n;|&()"


@dataclass(frozen=True)
class Word:
    """A word of a command: its place in the script, and its value, or None when a shell would change it (`$X`, globs of `$()`)."""

    start: int
    end: int
    value: str | None


@dataclass
class Command:
    """One simple command. `quote` writes a new piece of shell text into its place, whatever quotes stand around it."""

    words: list[Word] = field(default_factory=list)
    quote: Quote = field(default=str)


def commands(text: str) -> list[Command]:
    """Every simple command of a script, those inside `$(...)`, backquotes and quoted scripts (`bash -c '...'`) as well."""
    found: list[Command] = []
    _Scanner(text, 0, len(text), str, found, 0).run()
    return found


class _Scanner:
    """Reads `text[at:end]` as shell, adding commands to `found`."""

    def __init__(self, text: str, at: int, end: int, quote: Quote, found: list[Command], depth: int) -> None:
        self.text = text
        self.at = at
        self.end = end
        self.quote = quote
        self.found = found
        self.depth = depth
        self.command = Command(quote=quote)
        self.skip_target = False
        self.heredocs: list[tuple[str, bool]] = []

    def run(self) -> None:
        while self.at < self.end:
            char = self.text[self.at]
            if char in _BLANK:
                self.at += 1
            elif self._continues_line():
                pass
            elif char == "#":
                newline = self.text.find("\n", self.at, self.end)
                self.at = self.end if newline < 0 else newline
            elif char in "<>" or (char == "&" and self._peek(1) == ">"):
                self._redirect()
            elif char in _BREAK:
                self._finish()
                self.at += 1
                if char == "\n":
                    self._heredoc_bodies()
            else:
                self._word()
        self._finish()

    def _finish(self) -> None:
        if self.command.words:
            self.found.append(self.command)
        self.command = Command(quote=self.quote)
        self.skip_target = False

    def _peek(self, ahead: int) -> str:
        position = self.at + ahead
        return self.text[position] if position < self.end else ""

    def _continues_line(self) -> bool:
        """Skips a backslash at the end of a line."""
        for ending in ("\\\n", "\\\r\n"):
            if self.text.startswith(ending, self.at, self.end):
                self.at += len(ending)
                return True
        return False

    def _redirect(self) -> None:
        """Skips `2>`, `>>`, `<<<`, `>&` and their like; the word after it is a file, no argument."""
        words = self.command.words
        if words and words[-1].end == self.at and (words[-1].value or "").isdigit():
            words.pop()
        start = self.at
        while self.at < self.end and self.text[self.at] in "<>&|":
            self.at += 1
        operator = self.text[start : self.at]
        if operator == "<<":
            heredoc = _HEREDOC.match(self.text, self.at, self.end)
            if heredoc:
                self.heredocs.append((heredoc[3], bool(heredoc[1])))
                self.at = heredoc.end()
                return
        self.skip_target = True

    def _heredoc_bodies(self) -> None:
        """Skips the bodies of the here-documents that the line before began; a script in one is read as well."""
        for delimiter, tabs in self.heredocs:
            start = self.at
            while self.at < self.end:
                newline = self.text.find("\n", self.at, self.end)
                line_end = self.end if newline < 0 else newline
                line = self.text[self.at : line_end].rstrip("\r")
                if (line.lstrip("\t") if tabs else line) == delimiter:
                    break
                self.at = min(line_end + 1, self.end)
            self._nested(start, self.at, self.quote)
            newline = self.text.find("\n", self.at, self.end)
            self.at = self.end if newline < 0 else newline + 1
        self.heredocs.clear()

    def _word(self) -> None:
        start, value = self.at, ""
        literal = True
        while self.at < self.end:
            char = self.text[self.at]
            if char in _BLANK or char in _BREAK or char in "<>":
                break
            if self._continues_line():
                continue
            if char == "\\":
                value += self._peek(1)
                self.at += 2
            elif char == "'":
                value += self._single()
            elif char == '"':
                inner, plain = self._double()
                value += inner
                literal &= plain
            elif char in "$`":
                self._substitution()
                literal = False
            else:
                value += char
                self.at += 1
        self.at = min(self.at, self.end)
        if self.skip_target:
            self.skip_target = False
        else:
            self.command.words.append(Word(start, self.at, value if literal else None))

    def _single(self) -> str:
        """A single-quoted part; a script in it is read as well."""
        close = self.text.find("'", self.at + 1, self.end)
        close = self.end if close < 0 else close
        self._nested(self.at + 1, close, lambda new: self.quote(new.replace("'", "'\\''")))
        inner = self.text[self.at + 1 : close]
        self.at = close + 1
        return inner

    def _double(self) -> tuple[str, bool]:
        """A double-quoted part and whether it is literal; a script in it is read as well when no backslash is."""
        start, value, literal = self.at + 1, "", True
        self.at = start
        while self.at < self.end and self.text[self.at] != '"':
            char = self.text[self.at]
            if char == "\\" and self._peek(1) in ('"', "$", "`", "\\"):
                value += self._peek(1)
                self.at += 2
            elif self._continues_line():
                continue
            elif char in "$`":
                self._substitution()
                literal = False
            else:
                value += char
                self.at += 1
        close = min(self.at, self.end)
        if "\\" not in self.text[start:close]:
            self._nested(start, close, lambda new: self.quote(_in_double_quotes(new)))
        self.at = close + 1
        return value, literal

    def _substitution(self) -> None:
        """`$X`, `${X}`, `$(command)` or backquotes; commands in them are read as well."""
        opening = self.text[self.at]
        following = self._peek(1)
        if opening == "`":
            close = self.text.find("`", self.at + 1, self.end)
            close = self.end if close < 0 else close
            if "\\" not in self.text[self.at : close]:
                self._nested(self.at + 1, close, lambda new: self.quote(_in_backquotes(new)))
            self.at = close + 1
        elif following in ("(", "{"):
            found = closing(self.text, self.at + 2, self.end, "()" if following == "(" else "{}")
            close = self.end if found is None else found
            if following == "(":
                self._nested(self.at + 2, close, self.quote)
            self.at = close + 1
        else:
            self.at += 1

    def _nested(self, start: int, end: int, quote: Quote) -> None:
        """Reads a script within the script, where one may be: only one that names a config file is of interest."""
        if self.depth < MAX_DEPTH and "--config" in self.text[start:end]:
            _Scanner(self.text, start, end, quote, self.found, self.depth + 1).run()


def _in_backquotes(new: str) -> str:
    """Shell text as it must stand inside backquotes, which take one backslash away first."""
    return new.replace("\\", "\\\\").replace("`", "\\`")


def _in_double_quotes(new: str) -> str:
    """Shell text as it must stand inside double quotes, so that the inner shell reads it; `$NAME` may be expanded by the outer one."""
    return new.replace("\\", "\\\\").replace('"', '\\"').replace("`", "\\`").replace("$", "\\$")
