"""The tree a file becomes: every value with the place where it was written.

Values and origins live in one immutable tree, not in a dict with a table of paths beside it, so that merging, deleting and
moving a value cannot leave its origin behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import Origin

Path = tuple[str | int, ...]
Key = Any  # str in an infra file; what YAML makes of it (str, int, float, bool) in a recipe

#: OmegaConf's mark of a value that must be given; it never replaces one that was.
MISSING = "???"


class Node:
    """One value: a scalar, a dict of nodes or a list of nodes. Treat as immutable: trees share subtrees.

    `text` is a scalar as it was written (`0x10`, `on`), None where nobody wrote it. `style` is YAML's quoting of a scalar: one of
    `"`, `'`, `|`, `>`, or empty for a plain one. `written_keys` maps a key to its text where that differs
    (`on: x` has the key True).
    """

    __slots__ = ("origin", "style", "text", "value", "written_keys")

    def __init__(
        self,
        value: Any,
        origin: Origin | None,
        text: str | None = None,
        style: str = "",
        written_keys: Mapping[Key, str] | None = None,
    ) -> None:
        self.value = value
        self.origin = origin
        self.text = text
        self.style = style
        self.written_keys = written_keys

    @property
    def is_map(self) -> bool:
        return isinstance(self.value, dict)

    @property
    def is_list(self) -> bool:
        return isinstance(self.value, list)

    @property
    def is_scalar(self) -> bool:
        return not isinstance(self.value, (dict, list))

    def with_value(self, value: Any) -> Node:
        """The same place with another value."""
        return Node(value, self.origin, None, self.style, self.written_keys if isinstance(value, dict) else None)

    def child(self, key: Key) -> Node | None:
        """The node below `key` (a list's index may be an int or its digits), or None."""
        if isinstance(self.value, dict):
            found = self.value.get(key)
            return found if isinstance(found, Node) else None
        if isinstance(self.value, list):
            index = list_index(self.value, key)
            return self.value[index] if index is not None else None
        return None

    def children(self) -> Iterator[tuple[Key, Node]]:
        """Keys (or indices) and nodes, in order; nothing for a scalar."""
        if isinstance(self.value, dict):
            yield from self.value.items()
        elif isinstance(self.value, list):
            yield from enumerate(self.value)


def list_index(items: Sequence[Any], key: Key) -> int | None:
    """`key` as an index into `items`: an int or its digits, in range; None otherwise."""
    if isinstance(key, str) and key.isascii() and key.isdigit() and len(key) < 10:
        key = int(key)
    if isinstance(key, int) and not isinstance(key, bool) and 0 <= key < len(items):
        return key
    return None


def to_plain(node: Node) -> Any:
    """The values alone, as fresh dicts and lists."""
    value = node.value
    if isinstance(value, dict):
        return {key: to_plain(child) for key, child in value.items()}
    if isinstance(value, list):
        return [to_plain(child) for child in value]
    return value


def from_plain(value: Any, origin: Origin | None) -> Node:
    """A tree in which every value has the same origin (a command line, a profile)."""
    if isinstance(value, Mapping):
        return Node({key: from_plain(child, origin) for key, child in value.items()}, origin)
    if isinstance(value, (list, tuple)):
        return Node([from_plain(child, origin) for child in value], origin)
    return Node(value, origin)


def with_text_keys(node: Node) -> Node:
    """The tree with every key as the text that was written: Kubernetes knows no other keys (`on: x`, `80: y`)."""
    if isinstance(node.value, dict):
        written = node.written_keys or {}
        value = {_key_text(key, written): with_text_keys(child) for key, child in node.value.items()}
        return Node(value, node.origin)
    if isinstance(node.value, list):
        return Node([with_text_keys(child) for child in node.value], node.origin)
    return node


def _key_text(key: Key, written: Mapping[Key, str]) -> str:
    if isinstance(key, str):
        return key
    if key in written:
        return written[key]
    return scalar_text(key)


def scalar_text(value: Any) -> str:
    """A scalar in YAML's words, for values that nobody wrote as text."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def kind_of(node: Node) -> str:
    """The kind of a value in a person's words."""
    if node.is_map:
        return "a mapping"
    if node.is_list:
        return "a list"
    if node.value is None:
        return "null"
    if isinstance(node.value, bool):
        return "a boolean"
    return "text" if isinstance(node.value, str) else "a number"


def dotted(path: Sequence[Key]) -> str:
    """A path in the words of an override: `kuberay.training.spec.workerGroupSpecs.0`."""
    return ".".join(str(part) for part in path)
