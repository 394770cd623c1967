"""Resolves an infra file whole, and judges what looks like a shell's `${...}` in it.

An infra file carries shell scripts, so a `${...}` that is neither a key nor a resolver is an error that shows how to escape it; a recipe
keeps OmegaConf's own rules and is resolved key by key elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..errors import Origin, Problem
from . import pieces
from .bounds import Unresolved
from .credentials import is_environment, names_credential
from .interpolation import Resolver, is_live
from .nodes import Key, Node, dotted
from .suggest import nearest

#: What only a shell writes: `${X:-x}`, `${X:0:3}`, `${X%.y}`, `${a[@]}`, `${#a}`, `${!a}`, `${1}`.
_SHELL_ONLY = re.compile(r"\$\{(?:\w+:[-=?+\s\d]|\w+[#%/^,@+=?!]|\w+\[[@*]\]|[#!@*?]|\d+\})")
_DEFAULT = re.compile(r"\$\{([A-Za-z_]\w*):?-", re.ASCII)
_SIMPLE = re.compile(r"\$\{([A-Za-z_]\w*)\}", re.ASCII)
#: Problems after which no more are looked for: a person reads the first ones.
MAX_PROBLEMS = 100
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class InfraValues:
    """One pass over an infra tree: resolved values out, every fault into `problems`."""

    def __init__(self, resolver: Resolver, texts: Mapping[str, str], problems: list[Problem]) -> None:
        self.resolver = resolver
        self.texts = texts
        self.problems = problems

    def resolve(self, root: Node) -> Node:
        """The tree with every interpolation replaced and every anchor key (`_name`) dropped."""
        return self._walk((), root)

    def _walk(self, path: tuple[Key, ...], node: Node) -> Node:
        if node.is_map:
            keep = bool(path) and is_environment(path[-1])
            value = {
                key: self._walk((*path, key), child)
                for key, child in node.value.items()
                if keep or not str(key).startswith("_")
            }
            return node.with_value(value)
        if node.is_list:
            return node.with_value([self._walk((*path, at), child) for at, child in enumerate(node.value)])
        if not is_live(node) or len(self.problems) > MAX_PROBLEMS:
            return node
        return self._scalar(path, node)

    def _scalar(self, path: tuple[Key, ...], node: Node) -> Node:
        try:
            result = self.resolver.resolved(path, node)
        except Unresolved as error:
            self._report(path, node, error)
            return node
        if not result.is_scalar:
            return _without_anchors(result)
        self._warn_of_shell_names(path, node)
        return result

    def _report(self, path: tuple[Key, ...], node: Node, error: Unresolved) -> None:
        """One problem for each wrong `${...}` of the text; its own words when no piece alone is wrong."""
        before = len(self.problems)
        for piece in pieces.split(node.value):
            if not piece.live or len(self.problems) > MAX_PROBLEMS:
                continue
            nth = node.value.count(piece.text, 0, piece.at)
            try:
                self.resolver.piece(piece, path)
            except Unresolved as fault:
                self.problems.append(self._problem(path, node, piece, fault, locate(node, piece.text, nth, self.texts)))
        if len(self.problems) == before:
            self.problems.append(Problem(f"{dotted(path)}: {error.message}", node.origin))

    def _problem(
        self, path: tuple[Key, ...], node: Node, piece: pieces.Piece, fault: Unresolved, origin: Origin | None
    ) -> Problem:
        secret = any(names_credential(str(part)) for part in path)
        shown = "${...}" if secret else _shortened(piece.text)
        escaped = ("\\\\" if node.style == '"' else "\\") + shown
        simple = _SIMPLE.fullmatch(piece.text)
        write = f"for the shell's own, write {escaped}" + (f" or ${simple[1]}" if simple and not secret else "")
        if fault.kind == "syntax" or (fault.kind in ("key", "resolver") and _SHELL_ONLY.match(piece.text)):
            default = _DEFAULT.match(piece.text)
            hint = f"write {escaped}" + (f" or ${default[1]}" if default and not secret else "")
            return Problem(f'{dotted(path)}: "{shown}" is shell syntax, not a key or a resolver', origin, hint)
        if fault.kind == "key":
            close = nearest(fault.name, self._keys(fault.name))
            meant = f"did you mean ${{{close}}}? " if close else ""
            return Problem(f'{dotted(path)}: "{shown}" names no key of the infra file', origin, meant + write)
        if fault.kind == "resolver":
            from .resolvers import functions

            close = nearest(fault.name, functions({}, ""))
            return Problem(
                f'{dotted(path)}: "{shown}": {fault.message}',
                origin,
                f"did you mean {close}? {write}" if close else write,
            )
        return Problem(f'{dotted(path)}: "{shown}": {fault.message}', origin)

    def _keys(self, name: str) -> list[str]:
        """Dotted keys of the file that a person may have meant by `name`: those of the same depth."""
        wanted = name.count(".")
        found: list[str] = []

        def collect(prefix: str, node: Node, depth: int) -> None:
            for key, child in node.children():
                if depth == wanted:
                    found.append(f"{prefix}{key}")
                elif len(found) < 2000:
                    collect(f"{prefix}{key}.", child, depth + 1)

        collect("", self.resolver.root, 0)
        return found

    def _warn_of_shell_names(self, path: tuple[Key, ...], node: Node) -> None:
        """A script that sets `image=...` and then uses `${image}` gets the infra file's image: worth a word."""
        if not path or path[-1] != "entrypoint":
            return
        for piece in pieces.split(node.value):
            name = piece.text[2:-1].strip() if piece.live else ""
            if _NAME.fullmatch(name) and re.search(rf"(?:^|[\s;&|(]){name}=", node.value):
                origin = locate(node, piece.text, node.value.count(piece.text, 0, piece.at), self.texts)
                message = (
                    f"{dotted(path)}: {piece.text} is the infra file's {name} here, not the script's variable {name}"
                )
                hint = f"for the shell's own, write \\{piece.text} or ${name}"
                self.problems.append(Problem(message, origin, hint, "warning"))


def _without_anchors(node: Node) -> Node:
    """A section taken over by a reference, without the anchor keys in it."""
    if node.is_map:
        value = {k: _without_anchors(v) for k, v in node.value.items() if not str(k).startswith("_")}
        return node.with_value(value)
    if node.is_list:
        return node.with_value([_without_anchors(child) for child in node.value])
    return node


def locate(node: Node, piece: str, nth: int, texts: Mapping[str, str]) -> Origin | None:
    """Where in its file the nth `piece` of a scalar stands; the scalar's own place when it cannot be found (escapes, folding)."""
    origin = node.origin
    text = texts.get(origin.file) if origin else None
    if origin is None or text is None or not origin.line:
        return origin
    lines = text.splitlines(keepends=True)
    at = sum(map(len, lines[: origin.line - 1])) + origin.column - 1
    for _ in range(nth + 1):
        at = text.find(piece, at)
        if at < 0:
            return origin
        at += len(piece)
    start = at - len(piece)
    head = text[:start]
    return Origin(origin.file, head.count("\n") + 1, start - (head.rfind("\n") + 1) + 1)


def _shortened(text: str) -> str:
    line = text.split("\n", 1)[0]
    return line if len(line) <= 60 and line == text else line[:57] + "..."
