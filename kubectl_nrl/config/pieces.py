r"""Cuts a text into what is literal and what is `${...}`, by OmegaConf's rules of escaping.

Each `${...}` is found here and only then handed to OmegaConf's grammar, so that one wrong piece in a long shell script can be named
with its line, and the others judged as well.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .brackets import closing

_OPEN = re.compile(r"(\\*)\$\{")


class Piece(NamedTuple):
    """A run of a text: literal (already unescaped), or an interpolation with its `${` and `}`. `at` counts characters."""

    text: str
    at: int
    live: bool
    closed: bool = True


def split(text: str) -> list[Piece]:
    r"""The pieces of a text that holds `${`; a text without it is never touched, backslashes and all.

    Before `${`, pairs of backslashes stand for one; an odd one makes the `${` literal (`\${HOME}` is `${HOME}`).
    """
    pieces: list[Piece] = []
    position = 0
    while True:
        match = _OPEN.search(text, position)
        if match is None:
            break
        slashes = len(match[1])
        literal = text[position : match.start()] + "\\" * (slashes // 2)
        if slashes % 2:
            pieces.append(Piece(literal + "${", position, False))
            position = match.end()
            continue
        if literal:
            pieces.append(Piece(literal, position, False))
        start = match.end() - 2
        close = closing(text, match.end(), len(text), "{}")
        position = len(text) if close is None else close + 1
        pieces.append(Piece(text[start:position], start, True, close is not None))
    if position < len(text):
        pieces.append(Piece(text[position:], position, False))
    return pieces
