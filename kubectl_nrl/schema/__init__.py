"""Checks of what people and plugins write, and of what is rendered, against the schemas in `nrl_schemas`.

Everything is checked offline and strictly, at any depth: a server prunes what it does not know without a word.

What checks is loaded when it is first asked for: commands that only look at a cluster need one module of this package (`quantities`)
and must not wait for the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import Problem

if TYPE_CHECKING:
    from .documents import check_patch, check_profile
    from .infra import builtin_fragments, check_infra, infra_schema, published_schema
    from .nodes import SchemaFault, property_paths
    from .objects import check_object, check_user_spec
    from .problems import OriginOf
    from .suggestions import nearest

__all__ = [
    "OriginOf", "SchemaFault", "builtin_fragments", "check_infra", "check_object", "check_patch", "check_profile",
    "check_user_spec", "infra_schema", "nearest", "property_paths", "published_schema", "validate",
]  # fmt: skip


#: Which module of this package has a name.
_ROOM = {
    "check_patch": "documents", "check_profile": "documents", "builtin_fragments": "infra", "check_infra": "infra",
    "infra_schema": "infra", "published_schema": "infra", "SchemaFault": "nodes", "property_paths": "nodes",
    "check_object": "objects", "check_user_spec": "objects", "OriginOf": "problems", "nearest": "suggestions",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Load what is asked for (PEP 562)."""
    if name not in _ROOM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_ROOM[name]}", __name__), name)


def validate(schema: Mapping[str, Any], value: Any, origin_of: OriginOf, prefix: str = "") -> list[Problem]:
    """Every problem of a value against a JSON Schema, in the order of the places where it was written.

    `origin_of` is asked for paths within the value; `prefix` stands before them in messages. Raises `SchemaFault` for
    a schema that cannot be followed.
    """
    from .engine import faults
    from .problems import to_problems

    return to_problems(faults(schema, value, prefix=prefix), origin_of, prefix)
