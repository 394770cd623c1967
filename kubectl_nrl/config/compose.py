"""Puts a file together with those its `defaults:` name: depth first, later over earlier, the file itself last.

Every file is read at most once, and every fault of every file is collected before anything is raised.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path as FilePath

from ..errors import Origin, Problem
from .merge import lay_file
from .nodes import Node, kind_of, with_text_keys

#: Files that may inherit from one another in a row.
MAX_CHAIN = 50

DEFAULTS = "defaults"

#: The files on the way to the one being read: what identifies each, and its name in messages.
Chain = tuple[tuple[str, str], ...]


class Composer:
    """Reads and composes files; one per `load`, so that texts are at hand for messages.

    `resolve` turns `${...}` inside a `defaults:` entry into text, or raises a Problem's words as ValueError.
    """

    def __init__(self, cwd: FilePath | None, problems: list[Problem], resolve: Callable[[str], str]) -> None:
        self.cwd = cwd
        self.problems = problems
        self.resolve = resolve
        self.texts: dict[str, str] = {}
        #: Whether a file could not be read: keys then seem to be missing that are not.
        self.broken = False
        self._done: dict[str, Node] = {}

    def infra(self, shown: str, *, required: bool) -> Node:
        """An infra file: keys as written text, and its `infra:` wrapper taken off. `required`: an empty file is an error."""
        return self.file(shown, unwrap=True, required=required)

    def recipe(self, shown: str) -> Node:
        """A recipe, with its `infra:` key (if it has one) composed by its own `defaults:`."""
        return self.file(shown, unwrap=False, required=True)

    def file(
        self,
        shown: str,
        *,
        unwrap: bool,
        required: bool = False,
        asked: Origin | None = None,
        chain: Chain = (),
    ) -> Node:
        """The composed tree of a file, an empty mapping when it cannot be read."""
        path = os.path.join(self.cwd, shown) if self.cwd else shown
        identity = f"{unwrap}:{_real(path)}"
        if identity in [link[0] for link in chain]:
            names = [link[1] for link in chain]
            self._report(f"defaults form a circle: {' -> '.join([*names, shown])}", asked)
            return _empty(shown)
        if len(chain) >= MAX_CHAIN:
            self._report(f"more than {MAX_CHAIN} files inherit from one another", asked)
            return _empty(shown)
        if identity not in self._done:
            tree = self._read(path, shown, asked, required)
            if unwrap:
                tree = _unwrapped(tree)
            self._done[identity] = self._with_parents(tree, shown, unwrap, (*chain, (identity, shown)))
        return self._done[identity]

    def _read(self, path: str, shown: str, asked: Origin | None, required: bool) -> Node:
        from . import yaml_source

        try:
            text = self.texts[shown] = yaml_source.read_text(path, shown, asked)
            tree = yaml_source.parse(text, shown, self.problems)
        except yaml_source.Unreadable as refused:
            self.problems.append(refused.problem)
            self.broken = True
            return _empty(shown)
        if tree is None or (tree.is_scalar and tree.value is None):
            if required:
                self._report("the file is empty", Origin(shown))
            return _empty(shown)
        if not tree.is_map:
            self._report(f"a mapping (key: value) must be at the top, not {kind_of(tree)}", tree.origin)
            return _empty(shown)
        return tree

    def _with_parents(self, tree: Node, shown: str, unwrap: bool, chain: Chain) -> Node:
        """The tree over the files its `defaults` name; a recipe's `infra` key has `defaults` of its own."""
        own = dict(tree.value)
        entries = own.pop(DEFAULTS, None)
        embedded = None if unwrap else own.get("infra")
        if embedded is not None and embedded.is_map:
            own["infra"] = self._with_parents(
                with_text_keys(embedded), shown, True, (*chain, ("infra", f"{shown} (infra)"))
            )
        base = _empty(shown)
        for entry in self._entries(entries):
            parent = self._parent_path(entry, shown)
            if parent is not None:
                below = self.file(parent, unwrap=unwrap, asked=entry.origin, chain=chain)
                base = lay_file(base, below, self.problems)
        return lay_file(base, tree.with_value(own), self.problems)

    def _entries(self, node: Node | None) -> list[Node]:
        if node is None or (node.is_scalar and node.value is None):
            return []
        return list(node.value) if node.is_list else [node]

    def _parent_path(self, entry: Node, shown: str) -> str | None:
        """Where a `defaults` entry leads, relative to the file that holds it."""
        if not isinstance(entry.value, str) or not entry.value:
            self._report(
                f"an entry of defaults is the path of a file, not {kind_of(entry) if entry.value != '' else 'empty'}",
                entry.origin,
            )
            return None
        if entry.value == "_self_":
            self._report("defaults has no `_self_`: the file itself always comes last", entry.origin, "remove the line")
            return None
        name = entry.value
        if "${" in name:
            try:
                name = self.resolve(name)
            except ValueError as error:
                self._report(f"defaults: {error}", entry.origin)
                return None
        return os.path.normpath(os.path.join(os.path.dirname(shown), name))

    def _report(self, message: str, origin: Origin | None, hint: str = "") -> None:
        self.problems.append(Problem(message, origin, hint))


def _unwrapped(tree: Node) -> Node:
    """An infra file's own keys as text: below its one `infra:` key when it has that (anchors and defaults may stand beside)."""
    tree = with_text_keys(tree)
    inner = tree.child("infra")
    others = [key for key in tree.value if key not in ("infra", DEFAULTS) and not key.startswith("_")]
    if inner is None or not inner.is_map or others:
        return tree
    beside = {key: value for key, value in tree.value.items() if key != "infra"}
    return Node({**beside, **inner.value}, inner.origin)


def _empty(shown: str) -> Node:
    return Node({}, Origin(shown))


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return path
