"""Text measured in the columns it takes on a terminal: cut, wrapped, and made safe to print.

Messages of clusters are other people's text: a control character in one would move the cursor, and a wide one would
break a layout that counts characters.
"""

from __future__ import annotations

import re
import unicodedata

ELLIPSIS = "…"

#: What a terminal obeys instead of showing it: control characters (C0 but newline and tab, DEL, C1), line and paragraph separators,
#: and the marks by which text can be made to read in another order than it has (Unicode's Bidi_Control).
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
#: The colours that this program writes (`Output.style`, `Output.tag`).
_COLOUR = re.compile("\033\\[(?:[012]|3[1-6])m")


def obeyed(text: str) -> bool:
    """Whether a terminal would obey some of the text."""
    return _OBEYED.search(text) is not None


def harmless(text: str, escape: str = r"\x{:02x}", wide: str = r"\u{:04x}") -> str:
    """The text with all that a terminal would obey shown as an escape, but for newlines, tabs and this program's colours."""
    if not obeyed(text):
        return text

    def shown(match: re.Match[str]) -> str:
        code = ord(match[0])
        if code == 0x1B and _COLOUR.match(text, match.start()):
            return match[0]
        return (escape if code < 256 else wide).format(code)

    return _OBEYED.sub(shown, text)


def printable(text: str) -> str:
    """The text as one line of words, without control characters (an escape sequence loses what makes it one)."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def width(text: str) -> int:
    """Columns: two for East Asian wide characters, none for combining ones (Unicode's own tables)."""
    return len(text) if text.isascii() else sum(map(_cell, text))


def cut(text: str, columns: int) -> str:
    """The text in at most that many columns; what is cut off is marked."""
    if width(text) <= columns:
        return text
    return text[: _fitting(text, columns - 1)] + ELLIPSIS if columns > 0 else ""


def fill(text: str, columns: int) -> str:
    """The text with blanks up to that many columns."""
    return text + " " * (columns - width(text))


def wrap(text: str, columns: int) -> list[str]:
    """Lines of whole words; a word that is longer than a line (an image's name) is broken, never dropped."""
    columns = max(columns, 1)
    lines: list[str] = []
    line = ""
    for word in text.split():
        if line and width(line) + 1 + width(word) <= columns:
            line += f" {word}"
            continue
        if line:
            lines.append(line)
        line = word
        while width(line) > columns:
            at = max(1, _fitting(line, columns))  # one character at least, so that this ends
            lines.append(line[:at])
            line = line[at:]
    return [*lines, line] if line or not lines else lines


def _cell(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _fitting(text: str, columns: int) -> int:
    """How many characters of the text fit."""
    taken = 0
    for at, character in enumerate(text):
        taken += _cell(character)
        if taken > columns:
            return at
    return len(text)
