"""Reads the plainest overrides (`a.b=1`, `+lr=1e-4`, `path=/mnt/x`) without Hydra.

Importing Hydra costs as much as all the rest of a load, and nearly every override is one of these; whatever is not certainly one is
left to Hydra, and a test compares the two.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

_OVERRIDE = re.compile(
    r"(?P<mark>\+\+?)?(?P<key>[A-Za-z_][A-Za-z0-9_-]*(?:\.(?:[A-Za-z_][A-Za-z0-9_-]*|0|[1-9][0-9]*))*)=(?P<value>[^=]*)"
)
_INT = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,18}(?:[eE]-?[0-9]{1,3})?|[eE]-?[0-9]{1,3})")
_TEXT = re.compile(r"[A-Za-z_/][A-Za-z0-9_/.-]*")
_WORDS = {"true": True, "false": False, "null": None}
_NOT_TEXT = frozenset({"inf", "nan"})


class PlainOverride(NamedTuple):
    """An override's mark (``, `+`, `++`), its keys and its value."""

    mark: str
    keys: tuple[str, ...]
    value: Any


def read(text: str) -> PlainOverride | None:
    """The override, or None when it is not one of the plainest."""
    match = _OVERRIDE.fullmatch(text)
    if match is None:
        return None
    written = match["value"]
    value: Any
    if _INT.fullmatch(written):
        value = int(written)
    elif _FLOAT.fullmatch(written):
        value = float(written)
    elif _TEXT.fullmatch(written) and written.lower() not in _NOT_TEXT:
        value = _WORDS.get(written.lower(), written)
    else:
        return None
    return PlainOverride(match["mark"] or "", tuple(match["key"].split(".")), value)
