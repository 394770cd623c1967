"""Lays one tree over another, as OmegaConf's merge does: maps merge, lists and scalars replace.

A mapping over a list (or the reverse) is an error here as it is there: it is a slip of indentation far more often than an intent.
"""

from __future__ import annotations

from ..errors import Problem
from .nodes import MISSING, Node, dotted, kind_of

OVERRIDE = "_override_"


def merge(base: Node, over: Node, problems: list[Problem], path: tuple[str, ...] = ()) -> Node:
    """`over` on `base`; neither is changed. Values that cannot be merged become problems, and `over` wins."""
    if base.is_map and over.is_map:
        return _merge_maps(base, over, problems, path)
    if not base.is_scalar and not over.is_scalar and base.is_map != over.is_map:
        where = f" inherited from {base.origin}" if base.origin else ""
        name = f'"{dotted(path)}" is ' if path else ""
        problems.append(Problem(f"{name}{kind_of(over)}, and cannot be laid over {kind_of(base)}{where}", over.origin))
        return over
    if over.value == MISSING and over.is_scalar:
        return base
    return over


def _merge_maps(base: Node, over: Node, problems: list[Problem], path: tuple[str, ...]) -> Node:
    value = dict(base.value)
    for key, child in over.value.items():
        below = value.get(key)
        value[key] = child if below is None else merge(below, child, problems, (*path, str(key)))
    written = {**(base.written_keys or {}), **(over.written_keys or {})}
    return Node(value, over.origin or base.origin, written_keys=written or None)


def lay_file(base: Node, over: Node, problems: list[Problem]) -> Node:
    """A file over what it inherits: `_override_: true` inside a top-level mapping drops the inherited one.

    Deeper, or with a false value, `_override_` is ordinary data (nemo_rl/utils/config.py, merge_with_override).
    """
    kept, value = dict(base.value), dict(over.value)
    for key, child in over.value.items():
        mark = child.child(OVERRIDE) if child.is_map else None
        if mark is not None and mark.value:
            kept.pop(key, None)
            value[key] = child.with_value({k: v for k, v in child.value.items() if k != OVERRIDE})
    return merge(base.with_value(kept), over.with_value(value), problems)
