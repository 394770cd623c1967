"""What a run says: a line per step on standard output, the same numbers as JSON lines, and wandb when it is on.

Every line is flushed, because somebody follows the log while the run goes on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from quickstart.checkpoints import make_directory, next_directory
from quickstart.recipe import RecipeError, Tree
from quickstart.settings import Settings


def say(line: str) -> None:
    print(line, flush=True)


class Journal:
    """The log of one run: ``log_dir/exp_NNN/metrics.jsonl``, one object per step."""

    def __init__(self, settings: Settings, recipe: Tree) -> None:
        self._steps = settings.steps
        self._wandb = _start_wandb(settings, recipe)
        self.metrics = next_directory(settings.log_dir, "exp") / "metrics.jsonl"

    def step(self, step: int, seconds: float, metrics: Mapping[str, float]) -> None:
        """Print and keep the metrics of one step; keys are ``train:x`` and, after a validation, ``val:x``."""
        say(
            f"step {step}/{self._steps} reward {metrics['train:reward']:.3f} accuracy {metrics['train:accuracy']:.3f} "
            f"loss {metrics['train:loss']:+.4f} kl {metrics['train:kl']:.3f} clipped {metrics['train:clipped']:.2f} "
            f"{seconds:.2f}s"
        )
        if "val:reward" in metrics:
            say(
                f"step {step}/{self._steps} validation: reward {metrics['val:reward']:.3f} "
                f"accuracy {metrics['val:accuracy']:.3f}"
            )
        with self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, "seconds": round(seconds, 3), **metrics}) + "\n")
        if self._wandb is not None:
            self._wandb.log(dict(metrics), step=step)

    def close(self) -> None:
        if self._wandb is not None:
            self._wandb.finish()


def _start_wandb(settings: Settings, recipe: Tree) -> Any:
    if settings.wandb is None:
        return None
    try:
        import wandb
    except ImportError:
        raise RecipeError("logger.wandb_enabled is true, but this image has no wandb (pip install wandb)") from None
    directory = str(make_directory(settings.log_dir))
    return wandb.init(project=settings.wandb.project, name=settings.wandb.name, dir=directory, config=recipe)
