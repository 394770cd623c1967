"""Lays one tree over another, as OmegaConf's merge does: maps merge, lists and scalars replace.

A mapping over a list (or the reverse) is an error here as it is there: it is a slip of indentation far more often than an intent.
"""

from __future__ import annotations

from ..errors import Problem
from .bounds import Unresolved
from .interpolation import Resolver, is_live
from .nodes import MISSING, Key, Node, dotted, kind_of

OVERRIDE = "_override_"


def merge(base: Node, over: Node, problems: list[Problem]) -> Node:
    """`over` on `base`; neither is changed. Values that cannot be merged become problems, and `over` wins.

    A mapping over a reference (`a: ${b}`) is laid over what it refers to, as OmegaConf does.
    """
    references: list[tuple[tuple[Key, ...], Node]] = []
    merged = _merge(base, over, problems, (), references)
    for path, child in references:
        merged = _replaced(merged, path, _laid_over_reference(merged, path, child, problems))
    return merged


def _merge(
    base: Node,
    over: Node,
    problems: list[Problem],
    path: tuple[Key, ...],
    references: list[tuple[tuple[Key, ...], Node]],
) -> Node:
    if base.is_map and over.is_map:
        value = dict(base.value)
        for key, child in over.value.items():
            below = value.get(key)
            value[key] = child if below is None else _merge(below, child, problems, (*path, key), references)
        written = {**(base.written_keys or {}), **(over.written_keys or {})}
        return Node(value, over.origin or base.origin, written_keys=written or None)
    if base.is_scalar:
        if over.is_map and is_live(base):
            references.append((path, over))
            return base
        return base if over.is_scalar and over.value == MISSING else over
    if over.is_scalar:
        return base if over.value == MISSING else over
    if base.is_map != over.is_map:
        where = f" inherited from {base.origin}" if base.origin else ""
        name = f'"{dotted(path)}" is ' if path else ""
        problems.append(Problem(f"{name}{kind_of(over)}, and cannot be laid over {kind_of(base)}{where}", over.origin))
    return over


def _laid_over_reference(root: Node, path: tuple[Key, ...], over: Node, problems: list[Problem]) -> Node:
    """`over` on the mapping that the reference at `path` leads to; `over` alone where it leads to none."""
    try:
        found = Resolver(root, {}, "").find(path)
    except Unresolved:
        return over
    if found is None or not found[1].is_map:
        return over
    return merge(found[1], over, problems)


def _replaced(node: Node, path: tuple[Key, ...], new: Node) -> Node:
    if not path:
        return new
    return node.with_value({**node.value, path[0]: _replaced(node.value[path[0]], path[1:], new)})


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
