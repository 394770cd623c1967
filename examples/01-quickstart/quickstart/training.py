"""The GRPO loop: generate, judge, compare within the group, train; validate and save when due.

It sees its workers only through ``Crew``, so what tests run in one process is what a cluster runs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from quickstart.checkpoints import Checkpoints
from quickstart.crew import Crew
from quickstart.journal import Journal, say
from quickstart.objective import advantages
from quickstart.recipe import RecipeError
from quickstart.settings import Settings
from quickstart.task import Problems, Task, number


@dataclass(frozen=True)
class Outcome:
    """``reward`` and ``accuracy`` are those on held-out problems, by the most likely answers of the final policy."""

    steps: int
    reward: float
    accuracy: float
    seconds: float
    checkpoint: Path | None


def train(settings: Settings, task: Task, crew: Crew, journal: Journal, checkpoints: Checkpoints | None) -> Outcome:
    """Train to ``settings.steps``, from the newest checkpoint when the settings say so."""
    began = time.monotonic()
    done = _resume(settings, crew, checkpoints)
    saved: Path | None = None
    for step in range(done + 1, settings.steps + 1):
        step_began = time.monotonic()
        last = step == settings.steps
        metrics = _step(settings, task.batch(settings.seed, step, settings.prompts), crew, step)
        if last or step % settings.val_period == 0:
            metrics |= _validate(task.validation, crew)
        journal.step(step, time.monotonic() - step_began, metrics)
        if checkpoints and checkpoints.due(step, last):
            saved = checkpoints.save(step, crew.state(), metrics)
    final = _validate(task.validation, crew)
    return Outcome(settings.steps, final["val:reward"], final["val:accuracy"], time.monotonic() - began, saved)


def show_examples(task: Task, crew: Crew, sign: str, count: int = 3) -> None:
    """Print a few held-out problems as the policy answers them."""
    some = task.validation.take(np.arange(min(count, len(task.validation))))
    for (left, right), answer, wrote in zip(some.digits, some.answers, crew.best(some)[:, 0], strict=True):
        verdict = "right" if number(wrote) == number(answer) else f"wrong, it is {number(answer)}"
        say(f"  {number(left)} {sign} {number(right)} = {number(wrote)}  ({verdict})")


def _step(settings: Settings, problems: Problems, crew: Crew, step: int) -> dict[str, float]:
    written, old = crew.generate(problems, step)
    reward, accuracy = crew.judge(problems, written)
    advantage = advantages(reward, settings.normalize_rewards, settings.leave_one_out)
    columns = written.shape[-1]
    metrics = crew.train(
        np.repeat(problems.digits, settings.generations, axis=0),
        written.reshape(-1, columns),
        old.reshape(-1, columns),
        advantage.ravel(),
        step,
    )
    named = {"train:reward": float(reward.mean()), "train:accuracy": accuracy}
    return named | {f"train:{name}": value for name, value in metrics.items()}


def _validate(problems: Problems, crew: Crew) -> dict[str, float]:
    reward, accuracy = crew.judge(problems, crew.best(problems))
    return {"val:reward": float(reward.mean()), "val:accuracy": accuracy}


def _resume(settings: Settings, crew: Crew, checkpoints: Checkpoints | None) -> int:
    """Restore the newest checkpoint when the recipe asks for it; returns the steps that are done."""
    newest = checkpoints.newest() if checkpoints and checkpoints.settings.resume else None
    if newest is None:
        return 0
    step, state = newest
    if step >= settings.steps:
        raise RecipeError(f"the checkpoint is of step {step} and grpo.max_num_steps is {settings.steps}: nothing to do")
    try:
        crew.restore(state)
    except ValueError as problem:
        raise RecipeError(f"the checkpoint of step {step} is of another policy.model_name: {problem}") from problem
    say(f"resuming after step {step}")
    return step
