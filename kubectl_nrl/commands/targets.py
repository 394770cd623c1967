"""What the words of a command name: an id or a name, a recipe with its overrides, and what the recipe stands for.

A word that ends in .yaml or .yml, or is a file, is the recipe. A recipe is known on a cluster by the names of the Ray
clusters that its infra file asks for, so nothing but reading the two files is needed to find its runs.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..parser import is_override
from .planning import load_config, load_plan, plan_options
from .session import Session

if TYPE_CHECKING:
    from ..local import LocalRecord


@dataclass(frozen=True)
class Words:
    """Positional words of `prog`, told apart: `name` is an id or a name, `recipe` a file, `overrides` the recipe's."""

    prog: str
    name: str | None
    recipe: str | None
    overrides: tuple[str, ...]

    @property
    def what(self) -> str:
        """What was asked for, as it was written."""
        return self.name or self.recipe or ""


@dataclass(frozen=True)
class OfRecipe:
    """What a recipe with its infra file stands for: cluster names by role, the namespace, whether it is for this machine."""

    clusters: Mapping[str, str]
    namespace: str
    local: bool


def add_recipe_arguments(parser: argparse.ArgumentParser, words: str, help: str) -> None:
    """The positional words, under the name that the help shows, and the infra file of a recipe among them."""
    parser.add_argument("words", metavar=words, nargs="*", help=help)
    parser.add_argument("--infra", metavar="FILE", help="the infra file of RECIPE (not needed when it holds `infra:`)")


def is_recipe(session: Session, word: str) -> bool:
    """Whether a word is a recipe's file rather than a name: one that ends so may be missing."""
    return word.endswith((".yaml", ".yml")) or os.path.isfile(session.cwd / word)


def tell_apart(words: Sequence[str], session: Session, prog: str) -> Words:
    """Raises `UsageError` for a second name or recipe, and for overrides without a recipe."""
    names: list[str] = []
    recipes: list[str] = []
    overrides: list[str] = []
    for word in words:
        if is_recipe(session, word):
            recipes.append(word)
        elif is_override(word):
            overrides.append(word)
        else:
            names.append(word)
    for found in (names, recipes):
        if len(found) > 1:
            raise UsageError(f'unrecognized argument "{found[1]}"', f"{prog} --help")
    if overrides and not recipes:
        raise UsageError(f'"{overrides[0]}" is an override, and there is no RECIPE', f"{prog} --help")
    return Words(prog, names[0] if names else None, recipes[0] if recipes else None, tuple(overrides))


def run_here(args: argparse.Namespace, session: Session, words: Words) -> LocalRecord | None:
    """The newest run of a recipe on this machine; None for one that the infra file, where it is given, sends to a cluster."""
    from .. import local

    if words.recipe is None or (args.infra is not None and not of_recipe(args, session, words).local):
        return None
    return local.newest_of_recipe(Path(session.cwd / words.recipe), session.env)


def of_recipe(args: argparse.Namespace, session: Session, words: Words, context_namespace: str = "") -> OfRecipe:
    """Read the recipe and its infra file. Raises `UsageError` and `ConfigError`."""
    from ..plan import is_local

    # As a long-lived Plan: its Ray clusters bear the very names, where a RayJob's carry the run.
    planned = argparse.Namespace(**{**vars(args), "words": [words.recipe, *words.overrides], "mode": "raycluster"})
    config = load_config(planned, session, words.prog)
    if is_local(config, plan_options(planned, session)):
        return OfRecipe({}, "", True)
    _, plan = load_plan(planned, session, context_namespace=context_namespace or None, prog=words.prog, config=config)
    attached = (config.infra.get("launch") or {}).get("attach") or {}
    names = {str(role): str(name) for role, name in attached.items() if name}
    return OfRecipe({**names, **{role.name: role.cluster for role in plan.roles}}, plan.namespace, False)


def cluster_of(found: OfRecipe, role: str) -> str:
    """The name of a role's cluster. Raises `UsageError` for a role that the infra file does not have."""
    if role not in found.clusters:
        raise UsageError(f'the infra file has no role "{role}"', f"it has: {', '.join(found.clusters)}")
    return found.clusters[role]
