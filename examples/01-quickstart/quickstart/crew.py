"""What training asks of its workers, and the crew that does it all in this process.

The Ray crew in ``actors.py`` gives the same numbers; this one needs no Ray, for tests and for reading along.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from quickstart.settings import Settings
from quickstart.task import Floats, Ints, Problems
from quickstart.workers import GenerationWorker, PolicyWorker, RewardWorker


class Crew(Protocol):
    """Generation, reward and policy, wherever they run. Arrays are as the workers of the same names describe them."""

    def generate(self, problems: Problems, step: int) -> tuple[Ints, Floats]: ...

    def judge(self, problems: Problems, written: Ints) -> tuple[Floats, float]: ...

    def train(self, digits: Ints, written: Ints, old: Floats, advantage: Floats, step: int) -> dict[str, float]:
        """Also hands the new weights to generation."""
        ...

    def best(self, problems: Problems) -> Ints: ...

    def state(self) -> Mapping[str, Floats]: ...

    def restore(self, state: Mapping[str, Floats]) -> None:
        """Also hands the restored weights to generation."""
        ...


class LocalCrew:
    """One worker of each kind, called directly."""

    def __init__(self, settings: Settings) -> None:
        self.policy = PolicyWorker(settings.policy, settings.seed)
        self.reward = RewardWorker()
        self.generation = GenerationWorker(settings.generations, settings.policy.temperature, settings.seed)
        self.generation.set_weights(self.policy.current_weights())

    def generate(self, problems: Problems, step: int) -> tuple[Ints, Floats]:
        return self.generation.generate(problems, 0, step)

    def judge(self, problems: Problems, written: Ints) -> tuple[Floats, float]:
        return self.reward.judge(problems, written)

    def train(self, digits: Ints, written: Ints, old: Floats, advantage: Floats, step: int) -> dict[str, float]:
        metrics = self.policy.train(digits, written, old, advantage, step)
        self.generation.set_weights(self.policy.current_weights())
        return metrics

    def best(self, problems: Problems) -> Ints:
        return self.generation.best(problems)

    def state(self) -> Mapping[str, Floats]:
        return self.policy.state()

    def restore(self, state: Mapping[str, Floats]) -> None:
        self.policy.restore(state)
        self.generation.set_weights(self.policy.current_weights())
