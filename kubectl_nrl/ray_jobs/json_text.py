"""The text of a JSON object's one member, decoded as its bytes come, so that a text of any size takes no memory.

Python's decoder wants a string whole; here it gets pieces of one, cut where no escape, and no pair of them, is cut in two.
"""

from __future__ import annotations

import codecs
import json
import re

_BEGIN = re.compile(r'\s*\{\s*"[^"\\]*"\s*:\s*(null|")')
#: Characters among which the text must begin.
_BEGIN_WITHIN = 256
#: The first half of a character that JSON writes as two escapes (RFC 8259, section 7).
_FIRST_HALF = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
_ESCAPE = 6


class JsonText:
    """Feed it the bytes of `{"logs": "..."}`; it gives back the text in UTF-8. `ended`: the closing quote has come.

    A member that is null is an empty text.
    """

    def __init__(self) -> None:
        self.ended = False
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._json = json.JSONDecoder(strict=False)
        self._begun = False
        self._held = ""

    def feed(self, data: bytes) -> bytes:
        """The text in these bytes, as far as it can be told yet. Raises ValueError for what is no such object."""
        if self.ended:
            return b""
        held = self._held + self._decoder.decode(data)
        if not self._begun:
            begin = _BEGIN.match(held)
            if begin is None:
                self._held = held
                if len(held) > _BEGIN_WITHIN:
                    raise ValueError("no text begins there")
                return b""
            self._begun, self.ended, held = True, begin[1] == "null", held[begin.end() :]
            if self.ended:
                return b""
        cut = _cut(held)
        piece, self._held = held[:cut], held[cut:]
        text, end = self._json.raw_decode(f'"{piece}"')
        self.ended = end < len(piece) + 2  # at a quote of its own
        return str(text).encode("utf-8", "surrogatepass")


def _cut(text: str) -> int:
    """How much of a text that begins between two characters can be decoded by itself."""
    end, last = len(text), text.rfind("\\", max(0, len(text) - _ESCAPE))
    if last >= 0 and _begins_escape(text, last):
        whole = _ESCAPE if text[last + 1 : last + 2] == "u" else 2
        end = last if end - last < whole else end
    if _FIRST_HALF.match(text, max(0, end - _ESCAPE), end) and _begins_escape(text, end - _ESCAPE):
        return end - _ESCAPE
    return end


def _begins_escape(text: str, at: int) -> bool:
    """Whether the backslash there is none that another one before it escapes."""
    run = at + 1 - len(text[: at + 1].rstrip("\\"))
    return run % 2 == 1
