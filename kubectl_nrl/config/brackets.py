"""Where a bracket that is open in a text is closed; quoted and escaped characters close nothing."""

from __future__ import annotations


def closing(text: str, at: int, end: int, pair: str) -> int | None:
    """The place of the bracket that closes the one whose inside begins at `at`; None when none does before `end`.

    `pair` is the opening and the closing one, which may nest.
    """
    opening, closer = pair[0], pair[1]
    depth, quote = 1, ""
    while at < end:
        char = text[at]
        if char == "\\":
            at += 1
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == opening:
            depth += 1
        elif char == closer:
            depth -= 1
            if depth == 0:
                return at
        at += 1
    return None
