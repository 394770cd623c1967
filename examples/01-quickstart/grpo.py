"""Trains the quickstart's policy with GRPO on Ray, as a recipe says.

    python3 grpo.py [--config recipe.yaml] [key=value ...]

Without ``--config`` the recipe is the file that ``NRL_RECIPE`` names, which is how a launcher hands over the recipe it
composed, overrides included; without that, the recipe.yaml beside this file. A recipe that cannot work ends with one
line and exit status 2, before Ray is touched.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from quickstart.checkpoints import Checkpoints
from quickstart.journal import Journal, say
from quickstart.recipe import RecipeError, Tree, load
from quickstart.settings import Settings, read_settings
from quickstart.task import make_task
from quickstart.training import Outcome, show_examples, train


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="GRPO on Ray for column arithmetic", allow_abbrev=False)
    parser.add_argument("--config", type=Path, metavar="PATH", help="default: $NRL_RECIPE, else recipe.yaml")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="for instance grpo.max_num_steps=5")
    arguments = parser.parse_intermixed_args(argv)
    path = arguments.config or Path(os.environ.get("NRL_RECIPE") or Path(__file__).with_name("recipe.yaml"))
    try:
        recipe = load(path, arguments.overrides)
        run(read_settings(recipe), recipe)
    except RecipeError as problem:
        print(f"error: {problem}", file=sys.stderr, flush=True)
        return 2
    return 0


def run(settings: Settings, recipe: Tree) -> Outcome:
    """Train on Ray and print the result."""
    from quickstart.actors import RayCrew, connect  # Ray takes a second to import; a bad recipe should not

    say(
        f"GRPO: {settings.dataset} of {settings.num_digits}-digit numbers, seed {settings.seed}, "
        f"{settings.steps} steps of {settings.prompts} prompts x {settings.generations} answers"
    )
    task = make_task(settings.dataset, settings.num_digits, settings.val_samples, settings.seed)
    checkpoints = Checkpoints(settings.checkpoints, recipe) if settings.checkpoints else None
    journal = Journal(settings, recipe)
    connect(settings.nodes, say)
    signal.signal(signal.SIGTERM, _stopped)  # after Ray's own handler, which prints a stack trace of its C++ side
    crew = RayCrew(settings)
    say(crew.where())
    outcome = train(settings, task, crew, journal, checkpoints)
    journal.close()
    show_examples(task, crew, "-" if settings.dataset == "subtraction" else "+")
    say(
        f"result: reward {outcome.reward:.3f} accuracy {outcome.accuracy:.3f} "
        f"on {settings.val_samples} held-out problems after {outcome.steps} steps in {outcome.seconds:.1f}s"
    )
    say(f"metrics: {journal.metrics}")
    say(f"checkpoint: {outcome.checkpoint or 'none (checkpointing.enabled is false)'}")
    return outcome


def _stopped(*_: object) -> None:
    say("stopped")
    sys.exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
