"""The words of a problem: types, values and paths as the person who wrote the file would say them.

A value itself is shown only where a schema lists the accepted ones: anything else may be a secret.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

Path = tuple[Any, ...]

_TYPES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "empty",
}
#: Types that one isinstance settles; numbers are not among them, since Python takes true for 1.
_CLASSES: dict[str, Any] = {
    "object": Mapping,
    "array": (list, tuple),
    "string": str,
    "boolean": bool,
    "null": type(None),
}
_LONGEST = 60


def is_type(value: Any, name: str) -> bool:
    """Whether a value has that JSON Schema type; 4.0 is an integer, true is no number."""
    if name in _CLASSES:
        return isinstance(value, _CLASSES[name])
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return name == "number" or isinstance(value, int) or (math.isfinite(value) and value.is_integer())


def type_of(value: Any) -> str:
    """What a value is: `text`, `a whole number`, `true`, `a list`, ..."""
    if isinstance(value, bool):
        return "true" if value else "false"
    for name in ("null", "string", "integer", "number", "array", "object"):
        if is_type(value, name):
            return _TYPES[name]
    return f"a {type(value).__name__}"


def type_words(names: Iterable[str]) -> str:
    """What a value must be: `text`, `a whole number or text`."""
    return either([_TYPES.get(name, name) for name in names])


def either(words: Iterable[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    *first, last = list(words) or ["nothing"]
    return f"{', '.join(first)} or {last}" if first else last


def show(value: Any) -> str:
    """A scalar as YAML would have it, on one line and at most 60 characters long; a container only as its type."""
    if isinstance(value, str):
        text = (
            value if value.isprintable() else value[: 2 * _LONGEST].encode("unicode_escape").decode("ascii", "replace")
        )
        return f'"{shorten(text)}"'
    if isinstance(value, bool) or value is None or isinstance(value, (list, tuple, Mapping)):
        return type_of(value)
    if isinstance(value, int) and value.bit_length() > 200:
        return "a huge number"
    return shorten(repr(value))


def shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def path_text(path: Path, prefix: str = "") -> str:
    """A path as a person would write it: `kuberay.training.spec.workerGroupSpecs[0].template`."""
    text = prefix
    for step in path:
        if isinstance(step, int) and not isinstance(step, bool):
            text += f"[{step}]"
            continue
        word = str(step)
        if not word or not word.isprintable() or any(c in word for c in ".[]:/ \"'"):
            text += f"[{show(word)}]"
        else:
            text += ("." if text else "") + shorten(word)
    return text or "the file"
