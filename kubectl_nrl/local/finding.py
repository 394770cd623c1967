"""Finds the runs and clusters of this machine again, from their directories."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..run_directory import CLUSTERS, directory, state_home
from . import record
from .record import LocalRecord


def clusters_home(env: Mapping[str, str]) -> Path:
    """Where long-lived clusters have their directories, by name."""
    return state_home(env).parent / CLUSTERS


def runs(env: Mapping[str, str]) -> list[LocalRecord]:
    """Runs and jobs of this machine, newest first."""
    return _records(state_home(env))


def clusters(env: Mapping[str, str]) -> list[LocalRecord]:
    """Long-lived clusters of this machine, newest first."""
    return _records(clusters_home(env))


def find(word: str, env: Mapping[str, str]) -> LocalRecord | None:
    """The local run of an id; None when there is none."""
    try:
        return record.read(directory(word, env))
    except ValueError:
        return None


def find_cluster(name: str, env: Mapping[str, str]) -> LocalRecord | None:
    """The long-lived cluster of a name (`raycluster/NAME` too); None when there is none."""
    kind, slash, bare = name.rpartition("/")
    if (slash and kind != "raycluster") or not bare or bare.startswith("."):
        return None
    return record.read(clusters_home(env) / bare)


def newest_of_recipe(recipe: Path, env: Mapping[str, str]) -> LocalRecord | None:
    """The newest run of a recipe's file."""
    wanted = str(recipe.resolve())
    return next((run for run in runs(env) if run.recipe == wanted), None)


def _records(home: Path) -> list[LocalRecord]:
    try:
        found = [record.read(folder) for folder in home.iterdir()]
    except OSError:
        return []
    return sorted((r for r in found if r is not None), key=lambda r: (r.created, r.id), reverse=True)
