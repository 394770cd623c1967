"""The sentence about an unknown key: the nearest key at its place, or where the word belongs.

A near word at the same place wins over the same word elsewhere only when it is very near: `workerGroupSpec` beside
`workers` is `spec.workerGroupSpecs`, not `workers`.
"""

from __future__ import annotations

from .nodes import Index, Node
from .suggestions import nearest, normal, strong
from .words import Path, either, path_text

#: Searching the whole schema for a word costs milliseconds, so only so many words get it.
_SEARCHES = 50
_LISTED = 12


class UnknownKeys:
    """Describes unknown keys within one check; knows the schemas around the place that is being checked."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._around: list[tuple[Node, Path]] = []
        self._index = Index()
        self._searches = 0

    def enter(self, node: Node, path: Path) -> None:
        """The mapping at `path` is checked from now on."""
        self._around.append((node, path))

    def leave(self) -> None:
        self._around.pop()

    def describe(self, key: str) -> tuple[str, str | None]:
        """The sentence about a key of the mapping that is checked now, and its neighbour that was meant, if one was."""
        names = self._around[-1][0].names()
        meant = strong(key, names)
        if meant is None and (elsewhere := self._elsewhere(key)):
            return f"unknown key; did you mean {elsewhere}?", None
        meant = meant or nearest(key, names)
        if meant is not None:
            return f"unknown key; did you mean {meant}?", meant
        return f"unknown key{_known(names)}", None

    def _elsewhere(self, key: str) -> str | None:
        """The full path of that word below this place, else below the nearest mapping around it that has it."""
        if len(normal(key)) < 3 or self._searches >= _SEARCHES:
            return None
        self._searches += 1
        for exactly in (True, False):
            for node, path in reversed(self._around):
                steps = self._index.find(node, key, exactly=exactly)
                if steps:
                    return _spell(path, steps, self._prefix)
        return None


def _spell(where: Path, steps: Path, prefix: str) -> str:
    text = path_text(where, prefix) if where or prefix else ""
    for step in steps:
        text += "[]" if step == "[]" else ("." if text else "") + ("NAME" if step == "*" else str(step))
    return text


def _known(names: list[str]) -> str:
    if not names:
        return ""
    shown = names[:_LISTED]
    return f"; known here: {', '.join(shown)}, ..." if len(names) > _LISTED else f"; known here: {either(shown)}"
