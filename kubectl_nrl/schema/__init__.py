"""Checks of what people and plugins write, and of what is rendered, against the schemas in `nrl_schemas`.

Everything is checked offline and strictly, at any depth: a server prunes what it does not know without a word.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import Problem
from .documents import check_patch, check_profile
from .engine import faults
from .infra import builtin_fragments, check_infra, infra_schema, published_schema
from .nodes import SchemaFault, property_paths
from .objects import check_object, check_user_spec
from .problems import OriginOf, to_problems
from .suggestions import nearest

__all__ = [
    "OriginOf", "SchemaFault", "builtin_fragments", "check_infra", "check_object", "check_patch", "check_profile",
    "check_user_spec", "infra_schema", "nearest", "property_paths", "published_schema", "validate",
]  # fmt: skip


def validate(schema: Mapping[str, Any], value: Any, origin_of: OriginOf, prefix: str = "") -> list[Problem]:
    """Every problem of a value against a JSON Schema, in the order of the places where it was written.

    `origin_of` is asked for paths within the value; `prefix` stands before them in messages. Raises `SchemaFault` for
    a schema that cannot be followed.
    """
    return to_problems(faults(schema, value, prefix=prefix), origin_of, prefix)
