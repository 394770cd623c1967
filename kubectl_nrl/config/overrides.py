"""Reads Hydra overrides from a command line or an entrypoint and applies them to a tree.

hydra-core's own parser reads them, since its grammar is what the training program will use; applying is done here, because
OmegaConf would lose the origins. The rules are those of Hydra's struct mode (hydra/_internal/config_loader_impl.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..errors import Origin, Problem
from .credentials import shown
from .interpolation import is_live
from .nodes import MISSING, Key, Node, dotted, from_plain, kind_of, list_index, scalar_text, to_plain, with_text_keys
from .suggest import nearest

#: Characters of one override: Hydra's parser takes quadratic time for lists, a second for this many.
MAX_LENGTH = 4096
#: Brackets inside one another: deeper ones overflow Hydra's parser.
MAX_DEPTH = 25
#: Parts of one key: a tree must stay shallow enough to walk.
MAX_KEYS = 40

Kind = Literal["change", "add", "force", "delete"]

_WORD = re.compile(r"(?P<mark>~|\+\+?)?(?P<key>[^=]*)(?P<value>=.*)?", re.DOTALL)


@dataclass(frozen=True)
class Override:
    """One override. `text` is as typed; `value` is None for a deletion without a value (`given` false)."""

    kind: Kind
    keys: tuple[str, ...]
    value: Any
    given: bool
    text: str
    origin: Origin
    prefix: str = ""

    @property
    def key(self) -> str:
        return self.named(self.keys)

    def named(self, path: Sequence[Key]) -> str:
        """A path below the override's tree as it is typed on a command line."""
        return self.prefix + dotted(path)

    @property
    def node(self) -> Node:
        """The value as a tree; a plain scalar keeps its text (`infra.launch.env.A=0x10`)."""
        node = from_plain(self.value, self.origin)
        written = self.text.split("=", 1)[-1].strip()
        if node.is_scalar and self.given and not isinstance(self.value, str):
            node.text = written
        return node

    def below(self, prefix: str) -> Override:
        """The same override with the first key, `prefix`, taken off."""
        assert self.keys[0] == prefix
        return replace(self, keys=self.keys[1:], prefix=f"{prefix}.")


class Refused(Exception):
    """Why an override cannot be applied, with a hint."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def command_line_origin(text: str) -> Origin:
    """The place of an override, without a credential's value."""
    line = shown(text).replace("\n", " ")
    return Origin(f"command line: {line if len(line) <= 100 else line[:97] + '...'}")


def parse(texts: Sequence[str], problems: list[Problem], origin: Origin | None = None) -> list[Override]:
    """Every override that Hydra's grammar accepts; the others become problems. `origin` is theirs when no command line is."""
    parsed: list[Override] = []
    for text in texts:
        place = origin or command_line_origin(text)
        try:
            parsed.append(_parse(text, place))
        except Refused as refused:
            problems.append(Problem(refused.message, place, refused.hint))
    return parsed


def _parse(text: str, origin: Origin) -> Override:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Refused("an override that is not UTF-8 text") from None
    if len(text) > MAX_LENGTH:
        raise Refused(
            f"an override of {len(text)} characters; {MAX_LENGTH} are the limit", "put the value into the recipe"
        )
    if _depth(text) > MAX_DEPTH:
        raise Refused(f"brackets more than {MAX_DEPTH} deep", "put the value into the recipe")
    found = _hydra(text)
    if found.is_sweep_override():
        value = text.split("=", 1)[-1]
        raise Refused(
            "a sweep of several values; one run takes one",
            f"a list is written [{shown(value)}], text with a comma '\"{shown(value)}\"'",
        )
    key = str(found.key_or_group)
    if found.package is not None or "/" in key:
        raise Refused(
            f'"{found.get_key_element()}" names a Hydra config group; recipes have none', "separate keys by dots"
        )
    keys = tuple(key.split("."))
    if not all(keys):
        raise Refused("an override without a key")
    if len(keys) > MAX_KEYS:
        raise Refused(f"a key of {len(keys)} parts; {MAX_KEYS} are the limit")
    kind: Kind = (
        "delete" if found.is_delete() else "add" if found.is_add() else "force" if found.is_force_add() else "change"
    )
    value = found.value()
    if not _keys_are_sound(value):
        raise Refused("a mapping's key must be text or a number")
    return Override(kind, keys, value, "=" in text, text, origin)


def _keys_are_sound(value: Any) -> bool:
    """Whether every mapping in a value has keys OmegaConf can hold."""
    if isinstance(value, dict):
        return all(key is not None and str(key) != "nan" and _keys_are_sound(child) for key, child in value.items())
    return all(_keys_are_sound(child) for child in value) if isinstance(value, list) else True


def _hydra(text: str) -> Any:
    """Hydra's reading of one override. Raises Refused."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        return OverridesParser.create().parse_override(text)
    except (
        HydraException,
        ValueError,
        TypeError,
        AssertionError,
        RecursionError,
        KeyError,
        AttributeError,
    ) as error:
        secret = shown(text) != text
        said = "" if secret else _first_line(str(error))
        hint = "quote a value that holds special characters: 'key=\"a=b, c\"'"
        raise Refused(f"not an override (key=value): {said}" if said else "not an override (key=value)", hint) from None


def _first_line(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    line = lines[0] if lines else ""
    return line if len(line) <= 120 else line[:117] + "..."


def _depth(text: str) -> int:
    """The deepest nesting of brackets, counted without regard to quotes."""
    depth = deepest = 0
    for char in text:
        if char in "[({":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "])}":
            depth = max(0, depth - 1)
    return deepest


def key_of(text: str) -> str:
    """The key an override names, as typed, without its mark (`+`, `++`, `~`)."""
    match = _WORD.fullmatch(text)
    return match["key"] if match else ""


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
    meant = f"did you mean {dotted((*done, close))}? " if close else ""
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
