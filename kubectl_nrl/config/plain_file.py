"""One YAML file without inheritance or interpolation (a hardware profile), with the origin of every value."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Any

from ..errors import ConfigError, Problem
from .nodes import Node, to_plain
from .origins import Origins


def load_yaml(path: FilePath) -> tuple[Any, Origins]:
    """The file's value and its origins. Raises ConfigError with every problem of its YAML."""
    from .yaml_source import Unreadable, parse, read_text

    problems: list[Problem] = []
    tree: Node | None = None
    try:
        tree = parse(read_text(str(path), str(path)), str(path), problems)
    except Unreadable as unreadable:
        problems.append(unreadable.problem)
    if any(p.severity == "error" for p in problems):
        raise ConfigError(problems)
    if tree is None:
        raise ConfigError([Problem(f"{path} is empty")])
    return to_plain(tree), Origins(tree)
