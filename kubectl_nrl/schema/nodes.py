"""Places in schemas: a schema and the document it stands in, so that its references can be followed.

A reference is `#/$defs/NAME` within its document, or `objects/FILE.json#/$defs/NAME` among the program's own schema
files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import nrl_schemas

from .suggestions import elsewhere, normal
from .words import Path

Schema = Mapping[str, Any]
_DEEPEST = 12


class SchemaFault(ValueError):
    """A schema that cannot be followed: a reference to nowhere, or a keyword of the wrong type."""


@dataclass(frozen=True)
class Node:
    """A schema within its document; hashable by identity, so that what was found about it can be kept."""

    schema: Any
    document: Schema

    def at(self, schema: Any) -> Node:
        return Node(schema, self.document)

    @property
    def key(self) -> tuple[int, int]:
        return id(self.schema), id(self.document)

    def target(self) -> Node:
        """Where the node's `$ref` points."""
        ref = self.schema["$ref"]
        if not isinstance(ref, str):
            raise SchemaFault(f"$ref {ref!r} is no text")
        file, _, pointer = ref.partition("#")
        try:
            document: Any = nrl_schemas.load(file) if file else self.document
            place: Any = document
            for step in filter(None, pointer.split("/")):
                place = place[step.replace("~1", "/").replace("~0", "~")]
        except (KeyError, TypeError, FileNotFoundError):
            raise SchemaFault(f"$ref {ref!r} points nowhere") from None
        return Node(place, document)

    def follow(self) -> Node:
        """The node itself, or what its references end at."""
        node = self
        for _ in range(_DEEPEST):
            if not isinstance(node.schema, Mapping) or "$ref" not in node.schema:
                return node
            node = node.target()
        raise SchemaFault("references go in a circle")

    def inner(self) -> Iterator[Node]:
        """The node and every schema that applies to the same value (`allOf`, `anyOf`, `oneOf`, `$ref`, `x-schema`)."""
        waiting = [self]
        for _ in range(64):
            if not waiting:
                return
            node = waiting.pop(0)
            if not isinstance(node.schema, Mapping):
                continue
            yield node
            if "$ref" in node.schema:
                waiting.append(node.target())
            if "x-schema" in node.schema:
                waiting.append(node.at({"$ref": node.schema["x-schema"]}).target())
            for word in ("allOf", "anyOf", "oneOf"):
                waiting.extend(node.at(branch) for branch in node.schema.get(word, ()))

    def children(self) -> Iterator[tuple[Path, Node]]:
        """The schemas of what may stand inside a value: named keys, `*` for any key of a free map, `[]` for items."""
        for node in self.inner():
            for name, child in node.schema.get("properties", {}).items():
                yield (name,), node.at(child)
            for word, step in (("additionalProperties", "*"), ("items", "[]")):
                child = node.schema.get(word)
                if isinstance(child, Mapping):
                    yield (step,), node.at(child)

    def names(self) -> list[str]:
        """The keys a mapping may have here."""
        return [path[0] for path, _ in self.children() if path[0] not in ("*", "[]")]


class Index:
    """Every key below a schema, with the shortest way there; made when a key is unknown, and kept."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], dict[str, Path]] = {}

    def find(self, node: Node, word: str, *, exactly: bool) -> Path | None:
        """The path of the key that `word` means somewhere below `node` (not at its own level)."""
        below = self._below(node)
        if exactly:
            return below.get(normal(word))
        near = elsewhere(word, below)
        return below[near] if near else None

    def _below(self, node: Node) -> dict[str, Path]:
        if node.key not in self._known:
            self._known[node.key] = _index(node)
        return self._known[node.key]


def _index(root: Node) -> dict[str, Path]:
    found: dict[str, Path] = {}
    seen: set[tuple[int, int]] = set()
    level: list[tuple[Path, Node]] = [((), root)]
    for _ in range(_DEEPEST):
        following: list[tuple[Path, Node]] = []
        for path, node in level:
            target = node.follow()
            if target.key in seen:
                continue
            seen.add(target.key)
            for step, child in node.children():
                following.append((path + step, child))
                if path and step[0] not in ("*", "[]"):
                    found.setdefault(normal(step[0]), path + step)
        level = following
    return found


def property_paths(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Every key that a schema knows, dotted (`deployments.*.spec`, `imagePullSecrets`), with its own schema.

    What Kubernetes or KubeRay defines is one key: neither `placement.affinity` nor a RayCluster's spec is taken apart.
    """
    for path, node in properties(Node(schema, schema)):
        yield path, node.schema


def properties(node: Node, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Node]]:
    """As `property_paths`, from a place on."""
    inner = list(node.inner())
    if depth > _DEEPEST or any("x-schema" in n.schema or n.document is not node.document for n in inner):
        return
    for step, child in node.children():
        name = step[0]
        path = f"{prefix}[]" if name == "[]" else f"{prefix}.{name}" if prefix else str(name)
        if name not in ("*", "[]"):
            yield path, child
        yield from properties(child, path, depth + 1)
