"""Applies overrides to a tree.

Done here and not by OmegaConf, which would lose the origins; the rules are those of Hydra's struct mode
(hydra/_internal/config_loader_impl.py), and tests compare the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .credentials import shown
from .interpolation import is_live
from .nodes import MISSING, Key, Node, kind_of, list_index, scalar_text, to_plain, with_text_keys
from .overrides import Override, Refused
from .suggest import nearest


def apply(root: Node, override: Override, *, free: bool = False) -> Node:
    """The tree with an override applied. `free`: absent keys need no `+` (infra files are judged by their schema). Raises Refused."""
    if free and override.kind == "change":
        override = replace(override, kind="force")
    value = with_text_keys(override.node) if free else override.node
    if override.kind == "delete":
        return _delete(root, override)
    if override.kind == "add":
        present = _select(root, override.keys)
        if present is not None and present.value is not None and present.value != MISSING and value.is_scalar:
            raise Refused(f'"{override.key}" exists already', f"without the plus: {shown(override.text[1:])}")
    return _put(root, override.keys, value, (), override)


def _select(root: Node, keys: Sequence[Key]) -> Node | None:
    node: Node | None = root
    for key in keys:
        node = node.child(key) if node is not None else None
    return node


def _put(node: Node, keys: Sequence[str], value: Node, done: tuple[Key, ...], override: Override) -> Node:
    """`node` with `value` at `keys` below it; maps merge, and only `+` and `++` make new keys."""
    force = override.kind != "change"
    if not keys:
        return _lay(node, value, done, override)
    key, rest = keys[0], keys[1:]
    if node.is_list:
        index = list_index(node.value, key)
        if index is None:
            length = len(node.value)
            raise Refused(
                f'"{override.named(done)}" is a list of {length}, and has no element {key}',
                "write the whole list: [a,b]",
            )
        items = list(node.value)
        items[index] = _put(items[index], rest, value, (*done, key), override)
        return node.with_value(items)
    if not node.is_map:
        if is_live(node):
            # Hydra would put a mapping with this one key in the reference's place, and what it brought would be gone.
            raise Refused(f'"{override.named(done)}" is the reference {node.value}', "override the key it refers to")
        if not force:
            raise Refused(
                f'"{override.named(done)}" is {kind_of(node)}, and has no key "{key}"',
                f"to replace it by a mapping: ++{shown(override.text)}",
            )
        node = Node({}, override.origin)
    child = node.value.get(key)
    if child is None:
        if not force:
            raise _unknown(node, key, done, override)
        child = Node({}, override.origin) if rest else value
        new = _put(child, rest, value, (*done, key), override) if rest else value
    else:
        new = _put(child, rest, value, (*done, key), override)
    return node.with_value({**node.value, key: new})


def _lay(node: Node, value: Node, path: tuple[Key, ...], override: Override) -> Node:
    """A value in the place of another: mappings merge into existing keys (any key with force), all else replaces."""
    if (node.is_map and value.is_list) or (node.is_list and value.is_map):
        raise Refused(f'"{override.named(path)}" is {kind_of(node)}, and cannot become {kind_of(value)}')
    if not (node.is_map and value.is_map):
        return value
    merged = dict(node.value)
    for key, child in value.value.items():
        if key in merged:
            merged[key] = _lay(merged[key], child, (*path, key), override)
        elif override.kind != "change":
            merged[key] = child
        else:
            close = nearest(str(key), [str(k) for k in merged])
            hint = f"did you mean {close}?" if close else "a new key needs a plus before the override"
            raise Refused(f'"{override.named(path)}" has no key "{key}"', hint)
    return node.with_value(merged)


def _unknown(node: Node, key: str, done: tuple[Key, ...], override: Override) -> Refused:
    """A plain override of a key that is not there: the nearest real one, and how to add a new one."""
    where = f'"{override.named(done)}" has' if done else "the recipe has"
    close = nearest(key, [str(k) for k in node.value])
    meant = f"did you mean {override.named((*done, close))}? " if close else ""
    return Refused(f'{where} no key "{key}"', f"{meant}to add a new key: +{shown(override.text)}")


def _delete(root: Node, override: Override) -> Node:
    """The tree without the key; the value, when one is given, must be the one there."""
    found = _select(root, override.keys)
    if found is None:
        raise _nothing_to_delete(root, override)
    if override.given and override.value not in (None, "") and override.value != to_plain(found):
        now = shown(f"{override.keys[-1]}={scalar_text(found.value)}") if found.is_scalar else kind_of(found)
        raise Refused(f'"{override.key}" has another value ({now}), and is not deleted')
    return _without(root, override.keys)


def _nothing_to_delete(root: Node, override: Override) -> Refused:
    parent, done = root, list(override.keys)
    for at, key in enumerate(override.keys):
        below = parent.child(key)
        if below is None:
            done = done[:at]
            break
        parent = below
    close = nearest(override.keys[len(done)], [str(key) for key, _ in parent.children()]) if parent.is_map else None
    hint = f"did you mean ~{override.named([*done, close])}?" if close else ""
    return Refused(f'there is no "{override.key}" to delete', hint)


def _without(node: Node, keys: Sequence[str]) -> Node:
    key, rest = keys[0], keys[1:]
    if node.is_list:
        index = list_index(node.value, key)
        assert index is not None
        items = list(node.value)
        items[index : index + 1] = [_without(items[index], rest)] if rest else []
        return node.with_value(items)
    value = dict(node.value)
    if rest:
        value[key] = _without(value[key], rest)
    else:
        del value[key]
    return node.with_value(value)
