"""Files of one configuration under test, and the shape in which its problems are compared.

Kept apart from the shipped test kit, which stands on top of the whole program: these tests run the package `config` alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from kubectl_nrl.config import Config, load
from kubectl_nrl.errors import ConfigError, Problem

#: FUZZ_EXAMPLES new ones, else the same on every run (conftest.py).
FUZZ = settings(
    deadline=None,
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "100")),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

RECIPE = "cluster: {num_nodes: 2, gpus_per_node: 8}\n"


class ConfigFiles:
    """A directory of files, and `load` in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.env: dict[str, str] = {"NRL_K8S_USER": "jo"}

    def write(self, files: Mapping[str, str | bytes]) -> ConfigFiles:
        for name, content in files.items():
            path = self.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return self

    def load(self, *overrides: str, recipe: str = "r.yaml", infra: str | None = None, **env: str) -> Config:
        if not (self.directory / "r.yaml").exists():
            self.write({"r.yaml": RECIPE})
        if infra is None and (self.directory / "i.yaml").exists():
            infra = "i.yaml"
        return load(recipe, infra, overrides, env={**self.env, **env}, cwd=self.directory)

    def recipe(self, text: str, *overrides: str, **env: str) -> Config:
        """The configuration of a recipe alone."""
        return self.write({"r.yaml": text}).load(*overrides, **env)

    def infra(self, text: str, *overrides: str, **env: str) -> Config:
        """The configuration of a small recipe with this infra file."""
        return self.write({"i.yaml": text}).load(*overrides, **env)

    def problems(self, *overrides: str, **kwargs: str) -> list[Problem]:
        """What a load that must fail says; at least one of them is an error."""
        with pytest.raises(ConfigError) as caught:
            self.load(*overrides, **kwargs)
        assert any(problem.severity == "error" for problem in caught.value.problems)
        return list(caught.value.problems)

    def only_problem(self, *overrides: str, **kwargs: str) -> Problem:
        """The one problem of a load that must fail."""
        problems = self.problems(*overrides, **kwargs)
        assert len(problems) == 1, [str(problem) for problem in problems]
        return problems[0]
