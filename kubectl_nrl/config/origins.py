"""Where each value of a recipe or an infra file came from, and how it was written.

A path may be given as people write it (`launch.env.A`); keys that hold dots themselves (`labels.kai.scheduler/queue`) are found by
trying longer keys, so no caller needs to escape them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import Origin
from .nodes import Key, Node, Path, scalar_text


class Origins:
    """The origins of one tree. Paths are tuples, or dotted text; a list element is its index, or its `name`."""

    def __init__(self, root: Node) -> None:
        self._root = root

    def get(self, path: Path | str) -> Origin | None:
        """The origin of the value there, else of its nearest ancestor that exists."""
        trail = self._walk(path)[0]
        for node in reversed(trail):
            if node.origin is not None:
                return node.origin
        return None

    def exact(self, path: Path | str) -> Origin | None:
        """The origin of the value there; None when there is no such value."""
        trail, found = self._walk(path)
        return trail[-1].origin if found else None

    def text(self, path: Path | str) -> str | None:
        """A scalar as it was written (`0x10`, `on`, `1e-4`); None when there is no scalar at that path.

        A value that nobody wrote (a computed one) is spelled as YAML would: `true`, `null`, `0.0001`.
        """
        trail, found = self._walk(path)
        node = trail[-1]
        if not found or not node.is_scalar:
            return None
        return node.text if node.text is not None else scalar_text(node.value)

    def _walk(self, path: Path | str) -> tuple[list[Node], bool]:
        """The nodes from the root along `path`, and whether its end was reached."""
        parts: Sequence[Key] = path.split(".") if isinstance(path, str) and path else list(path)
        loose = isinstance(path, str)
        trail, at = [self._root], 0
        while at < len(parts):
            step = _step(trail[-1], parts, at, loose)
            if step is None:
                return trail, False
            trail.append(step[0])
            at = step[1]
        return trail, True


def _step(node: Node, parts: Sequence[Key], at: int, loose: bool) -> tuple[Node, int] | None:
    """The child that `parts[at:]` begins with, and the position after it."""
    key = parts[at]
    found = node.child(key)
    if found is not None:
        return found, at + 1
    if isinstance(node.value, list) and isinstance(key, str):
        for element in node.value:
            name = element.child("name")
            if name is not None and name.value == key:
                return element, at + 1
    if loose and isinstance(node.value, dict):
        for end in range(at + 2, len(parts) + 1):
            found = node.child(".".join(str(part) for part in parts[at:end]))
            if found is not None:
                return found, end
    return None
