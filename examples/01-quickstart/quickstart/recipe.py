"""Reads a recipe: files with ``defaults:``, overrides, and ``${...}`` references, into one tree of plain values.

PyYAML alone, because that is all a Ray image carries; NeMo-RL itself uses OmegaConf. So only what this recipe needs is
understood: ``${a.b}`` and ``${oc.env:NAME,default}``. Every key must be taken by whoever reads the tree: one that
nobody takes is an error, so no line of a recipe is decoration.
"""

from __future__ import annotations

import copy
import difflib
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

Tree = dict[str, Any]
LAUNCHERS = ("infra",)  # a recipe may carry the infra file; it is the launcher's and not ours
_REFERENCE = re.compile(r"\$\{([^${}]+)\}")


class RecipeError(Exception):
    """What is wrong with the recipe, in one line."""


class _Loader(yaml.SafeLoader):
    """YAML as OmegaConf reads it: ``1e-4`` is a number (plain PyYAML takes it for text)."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d[\d_]*)(\.[\d_]*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def load(path: Path, overrides: Iterable[str] = ()) -> Tree:
    """The composed recipe: inherited files first, then the file, then the overrides, then references."""
    tree = _compose(path, ())
    for override in overrides:
        _override(tree, override)
    return {key: _resolve(value, tree, ()) for key, value in tree.items() if key not in LAUNCHERS}


class Values:
    """Typed access to a composed recipe by dotted key; remembers what was taken. Every method raises RecipeError."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._taken: set[str] = set()

    def integer(self, key: str, least: int = 1) -> int:
        value = self._take(key)
        if isinstance(value, bool) or not isinstance(value, int):
            raise RecipeError(f"{key} must be a whole number, not {_show(value)}")
        if value < least:
            raise RecipeError(f"{key} must be at least {least}, not {value}")
        return value

    def number(
        self, key: str, *, above: float | None = None, least: float = -math.inf, below: float = math.inf
    ) -> float:
        value = self._take(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise RecipeError(f"{key} must be a number, not {_show(value)}")
        if above is not None and value <= above:
            raise RecipeError(f"{key} must be above {above:g}, not {value:g}")
        if value < least:
            raise RecipeError(f"{key} must be at least {least:g}, not {value:g}")
        if value >= below:
            raise RecipeError(f"{key} must be below {below:g}, not {value:g}")
        return float(value)

    def flag(self, key: str) -> bool:
        value = self._take(key)
        if not isinstance(value, bool):
            raise RecipeError(f"{key} must be true or false, not {_show(value)}")
        return value

    def text(self, key: str, choices: Sequence[str] = ()) -> str:
        value = self._take(key)
        if not isinstance(value, str) or not value:
            raise RecipeError(f"{key} must be text, not {_show(value)}")
        if choices and value not in choices:
            raise RecipeError(f"{key} must be one of {', '.join(choices)}, not {value}")
        return value

    def finish(self) -> None:
        """Refuse what nobody took: a typo here would otherwise train with the wrong value in silence."""
        for key in _leaves(self._tree):
            if key not in self._taken:
                raise RecipeError(f"{key} is no key of this recipe{_did_you_mean(key, self._taken)}")

    def _take(self, key: str) -> Any:
        self._taken.add(key)
        value = _find(self._tree, key)
        if value == "???":
            raise RecipeError(f"{key} is ???: set it")
        return value


def _compose(path: Path, including: tuple[Path, ...]) -> Tree:
    path = path.resolve()
    if path in including:
        raise RecipeError(f"{path.name} includes itself through defaults:")
    try:
        own = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except (OSError, UnicodeDecodeError) as problem:
        raise RecipeError(f"cannot read {path}: {getattr(problem, 'strerror', None) or 'not text'}") from problem
    except yaml.YAMLError as problem:
        raise RecipeError(f"{path.name} is no YAML: {' '.join(str(problem).split())}") from problem
    if not isinstance(own, dict):
        raise RecipeError(f"{path.name} must hold a mapping")
    defaults = own.pop("defaults", [])
    tree: Tree = {}
    for parent in [defaults] if isinstance(defaults, str) else defaults:
        _merge(tree, _compose(path.parent / str(parent), (*including, path)))
    for key, value in own.items():
        if isinstance(value, dict) and value.get("_override_") is True:
            tree[key] = {name: item for name, item in value.items() if name != "_override_"}
        else:
            _merge(tree, {key: value})
    return tree


def _merge(into: Tree, stronger: Tree) -> None:
    for key, value in stronger.items():
        present = into.get(key)
        if isinstance(present, dict) and isinstance(value, dict):
            _merge(present, value)
        else:
            into[key] = copy.deepcopy(value)


def _override(tree: Tree, text: str) -> None:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise RecipeError(f"override {text!r} is not key=value")
    may_be_new = key.startswith("+")
    *parents, leaf = key.lstrip("+").split(".")
    here = tree
    for name in parents:
        nested = here.setdefault(name, {}) if may_be_new else here.get(name)
        if not isinstance(nested, dict):
            wanted = key.lstrip("+")
            raise RecipeError(f"override {text!r}: the recipe has no {wanted}{_did_you_mean(wanted, _leaves(tree))}")
        here = nested
    if leaf not in here and not may_be_new:
        raise RecipeError(f"override {text!r}: the recipe has no {key}{_did_you_mean(key, _leaves(tree))}")
    try:
        here[leaf] = yaml.load(value, Loader=_Loader)
    except yaml.YAMLError as problem:
        raise RecipeError(f"override {text!r}: {value!r} is no YAML value") from problem


def _resolve(value: Any, tree: Tree, seen: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {key: _resolve(item, tree, seen) for key, item in value.items()}
    if isinstance(value, list):
        return [_resolve(item, tree, seen) for item in value]
    if not isinstance(value, str):
        return value
    whole = _REFERENCE.fullmatch(value)
    if whole:
        return _refer(whole.group(1), tree, seen)
    return _REFERENCE.sub(lambda match: str(_refer(match.group(1), tree, seen)), value)


def _refer(name: str, tree: Tree, seen: tuple[str, ...]) -> Any:
    if name in seen:
        raise RecipeError(f"${{{name}}} refers to itself")
    if name.startswith("oc.env:"):
        variable, comma, default = name.removeprefix("oc.env:").partition(",")
        if variable not in os.environ and not comma:
            raise RecipeError(f"${{{name}}}: the environment has no {variable}")
        return os.environ.get(variable, default)
    if ":" in name:
        raise RecipeError(f"${{{name}}}: this example understands ${{a.b}} and ${{oc.env:NAME,default}} only")
    return _resolve(_find(tree, name), tree, (*seen, name))


def _find(tree: Tree, key: str) -> Any:
    here: Any = tree
    for name in key.split("."):
        if not isinstance(here, dict) or name not in here:
            raise RecipeError(f"{key} is missing")
        here = here[name]
    return here


def _leaves(tree: Tree, prefix: str = "") -> Iterator[str]:
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def _did_you_mean(key: str, keys: Iterable[str]) -> str:
    near = difflib.get_close_matches(key, sorted(keys), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def _show(value: Any) -> str:
    return "null" if value is None else repr(value)
