"""Checkpoints on disk: ``step_N/`` with the policy, the optimizer, the recipe as it ran, and the metrics of that step.

A checkpoint is written beside its place and then renamed, so a directory called ``step_N`` is always whole. Names and
the rule which to keep are NeMo-RL's: the best by metric, and always the newest.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import yaml

from quickstart.recipe import RecipeError, Tree
from quickstart.settings import CheckpointSettings
from quickstart.task import Floats

_STEP = re.compile(r"step_(\d+)")


class Checkpoints:
    """The checkpoints of one run in one directory."""

    def __init__(self, settings: CheckpointSettings, recipe: Tree) -> None:
        self.settings, self.recipe = settings, recipe
        make_directory(settings.directory)
        if not settings.resume:
            self._set_aside()

    def due(self, step: int, last: bool) -> bool:
        return last or step % self.settings.save_period == 0

    def save(self, step: int, state: Mapping[str, Floats], metrics: Mapping[str, float]) -> Path:
        """Write a checkpoint, then delete the ones that are neither among the best nor the newest."""
        place = self.settings.directory / f"step_{step}"
        partial = self.settings.directory / f"tmp_step_{step}"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        np.savez(partial / "policy.npz", **dict(state))  # type: ignore[arg-type]
        (partial / "config.yaml").write_text(yaml.safe_dump(self.recipe, sort_keys=False), encoding="utf-8")
        (partial / "training_info.json").write_text(json.dumps({"step": step, **metrics}) + "\n", encoding="utf-8")
        shutil.rmtree(place, ignore_errors=True)
        partial.rename(place)
        for worse in self._ranked()[self.settings.keep_top_k :]:
            if worse != step:
                shutil.rmtree(self.settings.directory / f"step_{worse}")
        return place

    def newest(self) -> tuple[int, dict[str, Floats]] | None:
        """The step and the state to resume from, when there are any. Raises RecipeError for an unreadable one."""
        steps = self._steps()
        if not steps:
            return None
        file = self.settings.directory / f"step_{max(steps)}" / "policy.npz"
        try:
            with np.load(file) as arrays:
                return max(steps), dict(arrays)
        except (OSError, ValueError) as problem:
            raise RecipeError(f"cannot resume from {file}: {problem}") from problem

    def _ranked(self) -> list[int]:
        """Steps from best to worst; of equals, the newer is better."""
        sign = 1.0 if self.settings.higher_is_better else -1.0

        def key(step: int) -> tuple[float, int]:
            info = json.loads((self.settings.directory / f"step_{step}" / "training_info.json").read_text("utf-8"))
            return sign * info.get(self.settings.metric, -sign * float("inf")), step

        return sorted(self._steps(), key=key, reverse=True)

    def _steps(self) -> list[int]:
        names = (_STEP.fullmatch(path.name) for path in self.settings.directory.iterdir())
        return [int(name.group(1)) for name in names if name]

    def _set_aside(self) -> None:
        """An earlier run's checkpoints must not count among this run's best, nor be lost."""
        earlier = self._steps()
        if not earlier:
            return
        shelf = next_directory(self.settings.directory, "earlier")
        for step in earlier:
            (self.settings.directory / f"step_{step}").rename(shelf / f"step_{step}")


def make_directory(directory: Path) -> Path:
    """Make a directory that the recipe names, unless it is there. Raises RecipeError."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise RecipeError(f"cannot make the directory {directory}: {problem.strerror}") from problem
    return directory


def next_directory(parent: Path, stem: str) -> Path:
    """Make and return the first of ``stem_001``, ``stem_002``, ... in ``parent`` that does not exist."""
    number = 1
    while True:
        try:
            (make_directory(parent) / f"{stem}_{number:03d}").mkdir()
        except FileExistsError:
            number += 1
        else:
            return parent / f"{stem}_{number:03d}"
