"""The keywords of JSON Schema that judge a value without looking into its children, each with its plain sentence.

Numbers follow JSON Schema: 1 equals 1.0, and neither equals true.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .nodes import Schema, SchemaFault
from .suggestions import nearest
from .words import either, is_type, show

KNOWN = {
    "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "pattern",
    "format", "minItems", "maxItems", "uniqueItems",
}  # fmt: skip

_DEEPEST = 50
#: Kubernetes' resource.Quantity, as its CRDs write it.
_QUANTITY = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?(\d+(\.\d*)?|\.\d+))?", re.ASCII)
_NEAR_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtpe])(i?)b?", re.ASCII | re.IGNORECASE)


def scalar_faults(schema: Schema, value: Any) -> Iterator[str]:
    """What the value breaks of the schema's simple keywords."""
    if "enum" in schema and not any(same(value, word) for word in schema["enum"]):
        yield _not_one_of(value, schema["enum"])
    if "const" in schema and not same(value, schema["const"]):
        yield f"is {show(value)}, must be {show(schema['const'])}"
    if isinstance(value, str):
        yield from _text(schema, value)
    elif isinstance(value, (list, tuple)):
        yield from _list(schema, value)
    elif is_type(value, "number"):
        yield from _number(schema, value)


def _not_one_of(value: Any, words: Any) -> str:
    meant = nearest(value, [word for word in words if isinstance(word, str)]) if isinstance(value, str) else None
    question = f"; did you mean {meant}?" if meant else ""
    accepted = either(word if isinstance(word, str) and word else show(word) for word in words)
    return f"is {show(value)}, must be {accepted}{question}"


def _text(schema: Schema, value: str) -> Iterator[str]:
    if len(value) < schema.get("minLength", 0):
        yield "must not be empty" if not value else f"must have at least {schema['minLength']} characters"
    if len(value) > schema.get("maxLength", math.inf):
        yield f"has {len(value)} characters, at most {schema['maxLength']} are allowed"
    if "pattern" in schema and (value or not schema.get("minLength")) and not regex(schema["pattern"]).search(value):
        yield schema.get("patternErrorMessage") or f"does not have the form {schema['pattern']}"
    if schema.get("format") == "quantity" and not _QUANTITY.fullmatch(value):
        yield f"is no Kubernetes quantity such as 500m, 16 or 64Gi{_quantity_meant(value)}"


def _quantity_meant(value: str) -> str:
    near = _NEAR_QUANTITY.fullmatch(value.strip())
    if not near:
        return ""
    unit = near[2].upper() if near[2] not in "k" or near[3] else "k"
    return f"; did you mean {near[1]}{unit}{near[3].lower()}?"


def _list(schema: Schema, value: Any) -> Iterator[str]:
    if len(value) < schema.get("minItems", 0):
        yield f"has {len(value)} items, at least {schema['minItems']} are needed"
    if len(value) > schema.get("maxItems", math.inf):
        yield f"has {len(value)} items, at most {schema['maxItems']} are allowed"
    if schema.get("uniqueItems"):
        seen: set[Any] = set()
        for item in value:
            key = _identity(item)
            if key in seen:
                yield f"names {show(item)} twice"
            seen.add(key)


def _number(schema: Schema, value: float) -> Iterator[str]:
    if value < schema.get("minimum", -math.inf):
        yield f"is {show(value)}, must be at least {schema['minimum']}"
    if value > schema.get("maximum", math.inf):
        yield f"is {show(value)}, must be at most {schema['maximum']}"
    if value <= schema.get("exclusiveMinimum", -math.inf) and "exclusiveMinimum" in schema:
        yield f"is {show(value)}, must be more than {schema['exclusiveMinimum']}"
    if value >= schema.get("exclusiveMaximum", math.inf) and "exclusiveMaximum" in schema:
        yield f"is {show(value)}, must be less than {schema['exclusiveMaximum']}"


#: The end of a text in JSON Schema (ECMA-262): Python's `$` also stands before a last newline.
_END = re.compile(r"(?<!\\)\$(?=$|[)|])")


@functools.cache
def regex(pattern: str) -> re.Pattern[str]:
    """A schema's pattern, compiled once. Raises `SchemaFault` when it is no regular expression."""
    try:
        return re.compile(_END.sub(r"\\Z", pattern))
    except (re.error, TypeError) as error:
        raise SchemaFault(f"pattern {pattern!r} is no regular expression: {error}") from None


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal as JSON: true is not 1, 1 is 1.0."""
    if isinstance(one, (Mapping, list, tuple)) != isinstance(other, (Mapping, list, tuple)):
        return False
    return bool(_identity(one) == _identity(other))


def _identity(value: Any, depth: int = 0) -> Any:
    """A hashable stand-in that is equal for values equal as JSON; beyond _DEEPEST only the same object is."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return type(value), value
    if isinstance(value, (int, float)):
        return "number", value
    if depth > _DEEPEST:
        return "deep", id(value)
    if isinstance(value, Mapping):
        return "object", frozenset((_identity(key), _identity(item, depth + 1)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return "array", tuple(_identity(item, depth + 1) for item in value)
    return type(value), repr(value)
