"""What keeps resolving finite: circles, chains, and results that double with every reference.

A tree is measured as it would be when written out, because references share their target: a few lines can name billions of values.
"""

from __future__ import annotations

from typing import NamedTuple

from .nodes import Key, Node, dotted

#: Levels of values and references that may lead into one another.
MAX_CHAIN = 150
#: Characters of one computed text, and values of one computed tree: doubling references make billions.
MAX_TEXT = 1 << 20
MAX_NODES = 200_000


class Unresolved(Exception):
    """Why an interpolation has no value. `kind`: key, missing, syntax, resolver, call, cycle, size; `name` is the key or resolver."""

    def __init__(self, message: str, kind: str, name: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.name = name


class Measured(NamedTuple):
    """A resolved tree, the number of values in it, and its levels."""

    node: Node
    size: int
    depth: int


def measure(node: Node) -> Measured:
    """A computed tree with its size."""
    below = [measure(child) for _, child in node.children()]
    depth = 1 + max((child.depth for child in below), default=0) if not node.is_scalar else 0
    return Measured(node, 1 + sum(child.size for child in below), depth)


def bounded(measured: Measured) -> Measured:
    """The same, when it is of a size that can be handled. Raises Unresolved."""
    if measured.size > MAX_NODES:
        raise Unresolved(f"the references in it expand to more than {MAX_NODES} values", "size")
    if measured.depth > MAX_CHAIN:
        raise Unresolved(f"the references in it expand to more than {MAX_CHAIN} levels", "size")
    if isinstance(measured.node.value, str) and len(measured.node.value) > MAX_TEXT:
        raise Unresolved(f"the text becomes longer than {MAX_TEXT} characters", "size")
    return measured


class Open:
    """Marks a place as being resolved, so that a circle is noticed."""

    def __init__(self, stack: list[tuple[Key, ...]], path: tuple[Key, ...]) -> None:
        self.stack = stack
        self.path = path

    def __enter__(self) -> None:
        if self.path in self.stack:
            circle = [*self.stack[self.stack.index(self.path) :], self.path]
            raise Unresolved(f"it refers to itself: {' -> '.join(dotted(p) or '(top)' for p in circle)}", "cycle")
        if len(self.stack) > MAX_CHAIN:
            raise Unresolved("too many references in a row", "cycle")
        self.stack.append(self.path)

    def __exit__(self, *error: object) -> None:
        self.stack.pop()
