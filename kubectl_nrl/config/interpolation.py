"""Gives `${...}` its value, lazily and per value: `${key}`, `${.relative}`, `${resolver:arguments}`.

OmegaConf's grammar reads every interpolation but the plainest, and its visitor evaluates it; only looking up keys is done here, on
our own tree. So a value keeps its origin, a resolver cannot reach the process, and OmegaConf is imported only when needed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from . import pieces
from .bounds import MAX_TEXT, Measured, Open, Unresolved, bounded, measure
from .nodes import MISSING, Key, Node, from_plain, list_index, to_plain
from .resolvers import ResolverError, functions

#: Characters inside one `${...}`; OmegaConf's parser takes microseconds for each.
MAX_PIECE = 4096
#: Interpolations handed to that parser; half a millisecond each on a busy machine.
MAX_PARSED = 3_000

_KEY = re.compile(r"\$\{\s*(\.*[A-Za-z_][\w-]*(?:\.[\w-]+|\[[\w-]+\])*)\s*\}", re.ASCII)
_SIMPLE_CALL = re.compile(r"\$\{(user|oc\.env):\s*([A-Za-z_]\w*)?\s*\}", re.ASCII)


def is_live(node: Node) -> bool:
    """Whether a value holds `${` (escaped or not), so that it needs evaluation."""
    return isinstance(node.value, str) and "${" in node.value


class Resolver:
    """Values of one tree. `outer` is searched for absolute keys the tree has not (the recipe around an `infra:` key)."""

    def __init__(self, root: Node, env: Mapping[str, str], user: str, outer: Node | None = None) -> None:
        self.root = root
        self.outer = Resolver(outer, env, user) if outer is not None else None
        self._functions = functions(env, user)
        self._values: dict[tuple[Key, ...], Measured] = {}
        self._failed: dict[tuple[Key, ...], Unresolved] = {}
        self._open: list[tuple[Key, ...]] = []
        self._parsed = 0

    def find(self, path: tuple[Key, ...]) -> tuple[tuple[Key, ...], Node] | None:
        """The place and node `path` leads to, following interpolations on the way; None when it leads nowhere.

        The last value is followed too. Raises Unresolved where an interpolation on the way has no value.
        """
        place, node = self._follow((), self.root)
        for key in path:
            child = node.child(key)
            if child is None:
                return None
            place, node = self._follow((*place, _as_index(node, key)), child)
        return place, node

    def resolved(self, path: tuple[Key, ...], node: Node) -> Node:
        """The tree below a place, without interpolations. Raises Unresolved."""
        try:
            return self._measured(path, node).node
        except RecursionError:
            raise Unresolved("too many references in a row", "cycle") from None

    def _measured(self, path: tuple[Key, ...], node: Node) -> Measured:
        """The resolved tree at a place, and its size when it is written out."""
        if path in self._values:
            return self._values[path]
        place, target = self._follow(path, node)
        if place != path:
            source = self._measured(place, target)
            own = Node(source.node.value, node.origin, source.node.text, source.node.style, source.node.written_keys)
            result = Measured(own, source.size, source.depth)
        elif target.is_scalar:
            result = self._values.get(path) or Measured(target, 1, 0)
        else:
            with Open(self._open, path):
                result = self._container(path, target)
        self._values[path] = result
        return result

    def _container(self, path: tuple[Key, ...], node: Node) -> Measured:
        built = [(key, self._measured((*path, key), child)) for key, child in node.children()]
        nodes = {key: child.node for key, child in built}
        value = nodes if node.is_map else list(nodes.values())
        size = 1 + sum(child.size for _, child in built)
        depth = 1 + max((child.depth for _, child in built), default=0)
        return bounded(Measured(Node(value, node.origin, written_keys=node.written_keys), size, depth))

    def _follow(self, path: tuple[Key, ...], node: Node) -> tuple[tuple[Key, ...], Node]:
        """The place and node behind a value that is one reference; a computed value in its own place; else the node itself.

        A failure is kept, so that a thousand references to one wrong value cost a thousand looks and no more.
        """
        if not is_live(node):
            return path, node
        if path in self._values:
            return path, self._values[path].node
        if path in self._failed:
            raise self._failed[path]
        try:
            return self._followed(path, node)
        except RecursionError:
            raise Unresolved("too many references in a row", "cycle") from None
        except Unresolved as error:
            self._failed[path] = error
            raise

    def _followed(self, path: tuple[Key, ...], node: Node) -> tuple[tuple[Key, ...], Node]:
        with Open(self._open, path):
            reference = _KEY.fullmatch(node.value)
            if reference and not (self.outer and self._only_outside(reference[1])):
                return self._target(reference[1], path)
            result = bounded(measure(_computed(self.text(node.value, path), node)))
        self._values[path] = result
        return path, result.node

    def _only_outside(self, key: str) -> bool:
        return not key.startswith(".") and self._absolute(key) is None

    def _target(self, key: str, path: tuple[Key, ...]) -> tuple[tuple[Key, ...], Node]:
        """Where `${key}` written at `path` leads. Raises Unresolved."""
        name = key.lstrip(".")
        dots = len(key) - len(name)
        if dots > len(path):
            raise Unresolved(f'"{key}" goes above the top of the file', "key", name)
        if dots:
            found = self.find((*path[: len(path) - dots], *_split(name)))
        else:
            found = self._absolute(name)
        if found is None:
            raise Unresolved(f'there is no key "{name}"', "key", name)
        if found[1].value == MISSING and found[1].is_scalar:
            raise Unresolved(f'"{name}" has no value yet (???)', "missing", name)
        return found

    def _absolute(self, name: str) -> tuple[tuple[Key, ...], Node] | None:
        """An absolute key; `infra.x` means `x` too, as inside an `infra:` wrapper."""
        parts = _split(name)
        found = self.find(parts)
        if found is None and parts[0] == "infra" and self.root.child("infra") is None and len(parts) > 1:
            found = self.find(parts[1:])
        return found

    def text(self, text: str, path: tuple[Key, ...]) -> Any:
        """The value of a text that holds `${`, written at `path`. Raises Unresolved."""
        found = pieces.split(text)
        if len(found) == 1 and found[0].live:
            return self.piece(found[0], path)
        words = [str(self.piece(piece, path)) if piece.live else piece.text for piece in found]
        if sum(map(len, words)) > MAX_TEXT:
            raise Unresolved(f"the text becomes longer than {MAX_TEXT} characters", "size")
        return "".join(words)

    def piece(self, piece: pieces.Piece, path: tuple[Key, ...]) -> Any:
        """The value of one `${...}`. Raises Unresolved."""
        if not piece.closed:
            raise Unresolved("the ${ is not closed", "syntax")
        reference = _KEY.fullmatch(piece.text)
        if reference:
            return self._plain(reference[1], path)
        call = _SIMPLE_CALL.fullmatch(piece.text)
        if call:
            return self._call(call[1], (call[2],) if call[2] else (), path)
        return self._by_grammar(piece.text, path)

    def _plain(self, key: str, path: tuple[Key, ...]) -> Any:
        """What `${key}` stands for, as plain data."""
        if self.outer and self._only_outside(key):
            try:
                return self.outer._plain(key, ())
            except Unresolved as error:
                raise Unresolved(error.message, error.kind, error.name) from None
        place, target = self._target(key, path)
        return to_plain(self.resolved(place, target))

    def _call(self, name: str, args: tuple[Any, ...], path: tuple[Key, ...]) -> Any:
        """The value of a resolver."""
        own = {
            "oc.select": self._select,
            "oc.dict.keys": self._keys,
            "oc.dict.values": self._dict_values,
            "oc.decode": self._decode,
        }
        try:
            if name in own:
                return own[name](path, *args)
            if name not in self._functions:
                raise Unresolved(f'there is no resolver "{name}"', "resolver", name)
            return self._functions[name](*args)
        except ResolverError as error:
            raise Unresolved(f"{name}: {error}", "call", name) from None
        except TypeError:
            raise Unresolved(f"{name}: wrong number or kind of values", "call", name) from None

    def _select(self, path: tuple[Key, ...], key: str, *default: Any) -> Any:
        try:
            return self._plain(str(key), path)
        except Unresolved as error:
            if error.kind in ("key", "missing"):
                return default[0] if default else None
            raise

    def _keys(self, path: tuple[Key, ...], key: str) -> Any:
        return list(self._mapping(key, path))

    def _dict_values(self, path: tuple[Key, ...], key: str) -> Any:
        return list(self._mapping(key, path).values())

    def _mapping(self, key: str, path: tuple[Key, ...]) -> dict[Key, Any]:
        value = self._plain(str(key), path)
        if not isinstance(value, dict):
            raise ResolverError(f'"{key}" is not a mapping')
        return value

    def _decode(self, path: tuple[Key, ...], text: Any) -> Any:
        if text is None:
            return None
        return self._by_grammar(str(text), path, rule=("singleElement", "VALUE_MODE"))

    def _by_grammar(
        self, text: str, path: tuple[Key, ...], rule: tuple[str, str] = ("configValue", "DEFAULT_MODE")
    ) -> Any:
        """One interpolation read and evaluated by OmegaConf's own grammar. Raises Unresolved."""
        if len(text) > MAX_PIECE:
            raise Unresolved(f"longer than {MAX_PIECE} characters", "syntax")
        self._parsed += 1
        if self._parsed > MAX_PARSED:
            raise Unresolved(f"more than {MAX_PARSED} interpolations to compute", "size")
        import warnings

        from omegaconf.errors import OmegaConfBaseException
        from omegaconf.grammar_parser import parse
        from omegaconf.grammar_visitor import GrammarVisitor

        def key_value(key: str, memo: Any) -> Any:
            return self._plain(key, path)

        def call_value(*, name: str, args: tuple[Any, ...], args_str: tuple[str, ...]) -> Any:
            return self._call(name, args, path)

        try:
            tree = parse(text, *rule)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # OmegaConf's deprecation of empty arguments
                return GrammarVisitor(key_value, call_value, memo=None).visit(tree)
        except Unresolved:
            raise
        except (OmegaConfBaseException, RecursionError, ValueError, AssertionError, AttributeError, TypeError) as error:
            raise Unresolved("not a value OmegaConf can read", "syntax") from error


def _computed(value: Any, node: Node) -> Node:
    result = from_plain(value, node.origin)
    if result.is_scalar:
        result.style = node.style
    return result


def _as_index(node: Node, key: Key) -> Key:
    return list_index(node.value, key) if node.is_list else key


def _split(key: str) -> tuple[Key, ...]:
    """`a.b[c]` as keys."""
    return tuple(part for part in re.split(r"[.\[\]]", key) if part)
