"""From file names and words of a command line to a frozen `Config`.

Each step collects its problems and goes on with what it has, so that one call reports everything that is wrong; an error that
follows only from an earlier one is not looked for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path as FilePath

from ..api import User
from ..errors import ConfigError, Problem
from . import credentials, overrides
from .applying import apply
from .bounds import Unresolved
from .compose import Composer
from .entrypoint import gives_way, rewrite
from .infra_values import MAX_PROBLEMS, InfraValues, locate
from .interpolation import Resolver
from .merge import lay_file
from .model import Config, Trees, UnsoundConfig
from .nodes import Node, kind_of, to_plain
from .origins import Origins
from .overrides import Override, Refused
from .user import current_user, generic_warning

INFRA = "infra"


def load(
    recipe: str,
    infra: str | None,
    overrides: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: FilePath | None = None,
) -> Config:
    """Compose a recipe and an infra file; relative paths start at `cwd` (default: the process's).

    Without `infra`, the recipe's `infra:` key is it; without both, the infra is what user defaults and overrides say and
    `infra_path` is empty. Raises ConfigError with every problem found; an UnsoundConfig when all files could be read.
    """
    return _Loading(env, cwd).run(recipe, infra, tuple(overrides))


class _Loading:
    """One `load`, step by step."""

    def __init__(self, env: Mapping[str, str], cwd: FilePath | None) -> None:
        self.env = env
        self.user: User = current_user(env)
        self.problems: list[Problem] = []
        self.files = Composer(cwd, self.problems, self._file_name)

    def run(self, recipe_path: str, infra_path: str | None, words: tuple[str, ...]) -> Config:
        recipe, embedded = self._recipe(recipe_path)
        infra = self._infra(infra_path, embedded, recipe_path)
        recipe_words = tuple(word for word in words if not _is_infra(word))
        for_recipe, for_infra = self._split(overrides.parse(words, self.problems))
        written = self._apply(infra, for_infra, free=True)
        submitted = self._apply(recipe, for_recipe)
        outer = recipe if embedded is not None and infra_path is None else None
        values = InfraValues(Resolver(written, self.env, self.user.name, outer), self.files.texts, self.problems)
        resolved = values.resolve(written)
        written_out = credentials.literals(resolved)
        self.problems.extend(written_out)
        self.problems.extend(
            p for p in credentials.leaked(resolved, self.env) if p.origin not in {w.origin for w in written_out}
        )
        self.problems.extend(credentials.leaked(submitted, self.env))
        entry_words = self._entrypoint_words(resolved, recipe_words)
        effective = self._with_words(recipe, entry_words, for_recipe, resolved) if entry_words else submitted
        self._warn_of_user()
        config = Config(
            recipe=to_plain(effective),
            infra=to_plain(resolved),
            recipe_origins=Origins(effective),
            infra_origins=Origins(resolved),
            recipe_path=recipe_path,
            infra_path=infra_path or (recipe_path if embedded is not None else ""),
            overrides=recipe_words,
            user=self.user,
            problems=tuple(self.problems),
            entrypoint_words=entry_words,
            trees=Trees(
                effective, submitted, resolved, resolved, self.files.texts, self.env, self.files.cwd or FilePath()
            ),
        )
        if any(problem.severity == "error" for problem in self.problems):
            shown = _readable(self.problems)
            raise ConfigError(shown) if self.files.broken else UnsoundConfig(shown, config)
        return config

    def _recipe(self, path: str) -> tuple[Node, Node | None]:
        """The composed recipe without its `infra:` key, and that key's tree."""
        tree = self.files.recipe(path)
        embedded = tree.child(INFRA)
        if embedded is None:
            return tree, None
        rest = tree.with_value({key: child for key, child in tree.value.items() if key != INFRA})
        if embedded.is_map:
            return rest, embedded
        if embedded.value is not None:
            self.problems.append(
                Problem(f"infra: must be a mapping, not {kind_of(embedded)}", embedded.origin, "a file: --infra FILE")
            )
        return rest, None

    def _infra(self, path: str | None, embedded: Node | None, recipe_path: str) -> Node:
        """The infra tree over the user's defaults."""
        base = self._user_defaults()
        if path is not None and embedded is not None:
            message = f"{recipe_path} has an `infra:` key, and --infra {path} is given as well"
            self.problems.append(Problem(message, embedded.origin, "remove one of the two"))
        if path is not None:
            tree = self.files.infra(path, required=True)
        else:
            tree = embedded if embedded is not None else Node({}, None)
        return lay_file(base, tree, self.problems)

    def _user_defaults(self) -> Node:
        path = defaults_file(self.env)
        named = bool(self.env.get("NRL_K8S_DEFAULTS"))
        if path is None or (not named and not os.path.isfile(path)):
            return Node({}, None)
        return self.files.infra(path, required=False)

    def _split(self, parsed: list[Override]) -> tuple[list[Override], list[Override]]:
        """Overrides of the recipe, and those of the infra file without their first key."""
        for_recipe = [override for override in parsed if override.keys[0] != INFRA]
        for_infra = [override.below(INFRA) for override in parsed if override.keys[0] == INFRA]
        return for_recipe, for_infra

    def _apply(self, tree: Node, chosen: list[Override], *, free: bool = False) -> Node:
        for override in chosen:
            try:
                if not override.keys and (override.kind == "delete" or not isinstance(override.value, dict)):
                    raise Refused(
                        "the whole infra cannot be replaced or deleted", "name one of its keys: infra.image=..."
                    )
                tree = apply(tree, override, free=free)
            except Refused as refused:
                if not self.files.broken:
                    self.problems.append(Problem(refused.message, override.origin, refused.hint))
        return tree

    def _entrypoint_words(self, infra: Node, recipe_words: tuple[str, ...]) -> tuple[str, ...]:
        entry = _launch(infra, "entrypoint")
        if entry is None or not isinstance(entry.value, str):
            return ()
        return rewrite(entry.value, recipe_source=self._recipe_source(infra), overrides=recipe_words).words

    def _recipe_source(self, infra: Node) -> str:
        source = _launch(infra, "recipeSource")
        return str(source.value) if source is not None and source.value else "inline"

    def _with_words(self, recipe: Node, words: tuple[str, ...], then: list[Override], infra: Node) -> Node:
        """The recipe with the entrypoint's words, and the command line's overrides over them.

        A word the recipe refuses would stop the run on the pod too; with `recipeSource: pod` it is the pod's file that decides, so there
        it is a warning.
        """
        entry = _launch(infra, "entrypoint")
        assert entry is not None
        severity = "error" if self._recipe_source(infra) == "inline" else "warning"
        found: list[Problem] = []
        typed = [override.text for override in then]
        for word in words:
            if gives_way(word, typed):
                continue  # it is replaced on the pod as well
            place = locate(entry, word, 0, self.files.texts)
            for override in overrides.parse((word,), found, place):
                try:
                    recipe = apply(recipe, override)
                except Refused as refused:
                    if not self.files.broken:
                        found.append(Problem(refused.message, place, refused.hint))
        for problem in found:
            message = f"the entrypoint's words: {problem.message}"
            self.problems.append(Problem(message, problem.origin, problem.hint, severity))  # type: ignore[arg-type]
        for override in then:
            try:
                recipe = apply(recipe, override)
            except Refused:
                # Reported when it was applied without the words; a word may have made a `+key` exist already.
                recipe = self._forced(recipe, override)
        return recipe

    def _forced(self, recipe: Node, override: Override) -> Node:
        if override.kind != "add":
            return recipe
        return apply(recipe, replace(override, kind="force"))

    def _file_name(self, text: str) -> str:
        """A `defaults:` entry with its `${...}` resolved; only resolvers have values there."""
        try:
            return str(Resolver(Node({}, None), self.env, self.user.name).text(text, ("defaults",)))
        except Unresolved as error:
            raise ValueError(error.message) from None

    def _warn_of_user(self) -> None:
        warning = generic_warning(self.user)
        if warning is not None:
            self.problems.append(warning)
        self.problems[:] = dict.fromkeys(self.problems)


def _readable(problems: list[Problem]) -> list[Problem]:
    """As many problems as a person reads, errors first when there are more."""
    if len(problems) <= MAX_PROBLEMS:
        return problems
    first = sorted(problems, key=lambda problem: problem.severity != "error")[:MAX_PROBLEMS]
    return [*first, Problem(f"{len(problems) - MAX_PROBLEMS} more problems are not shown", severity="note")]


def defaults_file(env: Mapping[str, str]) -> str | None:
    """The file of the user's infra defaults: `$NRL_K8S_DEFAULTS`, else `kubectl-nrl/defaults.yaml` or `nrl-k8s/defaults.yaml` in
    `$XDG_CONFIG_HOME` (`~/.config`); None where there is none."""
    named = env.get("NRL_K8S_DEFAULTS")
    if named:
        return os.path.expanduser(named)
    home = env.get("HOME", "")
    base = env.get("XDG_CONFIG_HOME") or (os.path.join(home, ".config") if home else "")
    if not base:
        return None
    candidates = [os.path.join(base, tool, "defaults.yaml") for tool in ("kubectl-nrl", "nrl-k8s")]
    return next((path for path in candidates if os.path.isfile(path)), None)


def _is_infra(word: str) -> bool:
    key = overrides.key_of(word)
    return key == INFRA or key.startswith(INFRA + ".")


def _launch(infra: Node, key: str) -> Node | None:
    launch = infra.child("launch")
    return launch.child(key) if launch is not None else None
