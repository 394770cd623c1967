"""The configuration of a run: recipe and infra file composed, with the origin of every value.

The recipe stays unresolved, since it may refer to variables that exist only on the pod; what is read is resolved then. The infra file is
resolved whole, because all of it becomes manifests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ..api import User
from ..errors import ConfigError, Origin, Problem
from .bounds import Unresolved
from .interpolation import Resolver, is_live
from .nodes import MISSING, Node, from_plain, to_plain, with_text_keys
from .origins import Origins

_USER = re.compile(r"(\\*)\$\{user:\s*\}")
_OPEN = re.compile(r"(\\*)\$\{")


@dataclass(frozen=True)
class Trees:
    """What a Config keeps beside its plain values.

    `submitted` is the recipe without the entrypoint's words: the training program applies those again, and `+key=1` may be applied
    only once. `written` is the infra tree without a profile's defaults. Relative paths start in `folder`.
    """

    recipe: Node
    submitted: Node
    infra: Node
    written: Node
    texts: Mapping[str, str]
    env: Mapping[str, str]
    folder: Path = Path()


@dataclass(frozen=True)
class Config:
    """A recipe and an infra file, composed.

    * `recipe`: defaults, entrypoint words and overrides applied, **unresolved** (`${...}` and `???` kept), `infra:` taken out.
    * `infra`: user defaults, file and overrides, **resolved**, anchor keys (`_name`) dropped; `{}` and `infra_path` empty without one.
    * `overrides`: as typed, without those of the infra file. `entrypoint_words`: `key=value` words beside the entrypoint's `--config`.
    * `problems`: warnings and notes; errors were raised.
    """

    recipe: Mapping[str, Any]
    infra: Mapping[str, Any]
    recipe_origins: Origins
    infra_origins: Origins
    recipe_path: str
    infra_path: str
    overrides: tuple[str, ...]
    user: User
    problems: tuple[Problem, ...]
    entrypoint_words: tuple[str, ...]
    trees: Trees

    def recipe_value(self, path: str, default: Any = None) -> Any:
        """The recipe's value at a dotted path, resolved; `default` where it is absent or null.

        Raises ConfigError, with the line, when it cannot be resolved or is still `???`.
        """
        keys = tuple(path.split("."))
        try:
            found = self._resolver.find(keys)
            if found is None:
                return default
            value = to_plain(self._resolver.resolved(*found))
        except Unresolved as error:
            raise ConfigError([Problem(f"{path}: {error.message}", self.recipe_origins.get(path))]) from None
        if isinstance(value, str) and value == MISSING:
            problem = Problem(
                f"{path} must be set (it is ???)", self.recipe_origins.get(path), f"add an override: {path}=..."
            )
            raise ConfigError([problem])
        return default if value is None else value

    def recipe_yaml(self) -> str:
        """What `NRL_RECIPE` holds: defaults and overrides merged, every `${...}` and `???` as written.

        Only `${user:}` is replaced: no program on the pod could give it a value.
        """
        from .yaml_text import dump

        return dump(_with_user(to_plain(self.trees.submitted), self.user.name))

    def with_infra_defaults(self, defaults: Mapping[str, Any], source: str) -> Config:
        """The same with a profile's `defaults` below everything the user wrote; interpolations in them are resolved.

        `source` becomes the origin of each value (`profile gb300`). Raises ConfigError for an interpolation without a value.
        """
        from .infra_values import InfraValues

        problems: list[Problem] = []
        below = with_text_keys(from_plain(defaults, Origin(source)))
        merged = _below(below, _escaped(self.trees.infra))
        values = InfraValues(Resolver(merged, self.trees.env, self.user.name), {}, problems)
        infra = values.resolve(merged)
        if any(problem.severity == "error" for problem in problems):
            raise ConfigError(problems)
        return replace(
            self,
            infra=to_plain(infra),
            infra_origins=Origins(infra),
            problems=(*self.problems, *problems),
            trees=replace(self.trees, infra=infra),
        )

    def user_wrote(self, path: str) -> bool:
        """Whether the infra file, the user's defaults or an override set that infra key (a profile's defaults do not count)."""
        return Origins(self.trees.written).exact(path) is not None

    @cached_property
    def _resolver(self) -> Resolver:
        return Resolver(self.trees.recipe, self.trees.env, self.user.name)


class UnsoundConfig(ConfigError):
    """Problems of a configuration whose files could all be read; `config` is as much of it as has a value.

    A caller may look for more problems in it, so that a person sees all of them at once; nothing may be planned from it.
    """

    def __init__(self, problems: Iterable[Problem], config: Config) -> None:
        super().__init__(problems)
        self.config = config


def _below(below: Node, above: Node) -> Node:
    """`above` laid over defaults. Kinds that differ are no error here: the schema judges what the user wrote."""
    if not (below.is_map and above.is_map):
        return above
    value = dict(below.value)
    for key, child in above.value.items():
        value[key] = _below(value[key], child) if key in value else child
    return above.with_value(value)


def _with_user(value: Any, name: str) -> Any:
    """The value with the user's name for every `${user:}` that is not escaped."""
    if isinstance(value, dict):
        return {key: _with_user(child, name) for key, child in value.items()}
    if isinstance(value, list):
        return [_with_user(child, name) for child in value]
    if not isinstance(value, str) or "${user:" not in value:
        return value

    def replaced(match: re.Match[str]) -> str:
        slashes = len(match[1])
        return match[0] if slashes % 2 else "\\" * (slashes // 2) + name

    return _USER.sub(replaced, value)


def _escaped(node: Node) -> Node:
    """Values that are resolved already, spelled so that resolving them again changes nothing."""
    if node.is_map:
        return node.with_value({key: _escaped(child) for key, child in node.value.items()})
    if node.is_list:
        return node.with_value([_escaped(child) for child in node.value])
    if not is_live(node):
        return node
    text = _OPEN.sub(lambda match: match[1] * 2 + "\\${", node.value)
    return Node(text, node.origin, node.text, node.style)
