"""The three workers of a GRPO step, as plain classes: they neither know Ray nor each other.

What is random is drawn from (seed, step, problem), never from a worker's own state. So a run gives the same numbers
with one generation worker or ten, in one process or across a cluster, and a resumed run the same as one that never
stopped.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from quickstart.objective import grpo_loss
from quickstart.policy import AdamW, best_answers, gradient, initial_weights, logprobs, sample, windows
from quickstart.settings import PolicySettings
from quickstart.task import Floats, Ints, Problems, rewards, solved

_NOISE, _ORDER = 1, 2  # separate random streams of one (seed, step)


class GenerationWorker:
    """Writes answers with the weights it was given last."""

    def __init__(self, generations: int, temperature: float, seed: int) -> None:
        self.generations, self.temperature, self.seed = generations, temperature, seed
        self.weights: Mapping[str, Floats] = {}

    def set_weights(self, weights: Mapping[str, Floats]) -> None:
        self.weights = weights

    def generate(self, problems: Problems, first: int, step: int) -> tuple[Ints, Floats]:
        """Answers and log-probabilities, both (problems, generations, columns); ``first`` is the place of the first
        problem in the step's batch."""
        columns = problems.answers.shape[1]
        noise = np.concatenate(
            [
                np.random.default_rng([self.seed, step, _NOISE, first + row]).random((self.generations, columns))
                for row in range(len(problems))
            ]
        )
        digits = np.repeat(problems.digits, self.generations, axis=0)
        written, chosen = sample(self.weights, digits, noise, self.temperature)
        shape = (len(problems), self.generations, columns)
        return written.reshape(shape), chosen.reshape(shape)

    def best(self, problems: Problems) -> Ints:
        """The most likely answer to each problem, (problems, 1, columns)."""
        return best_answers(self.weights, problems)


class RewardWorker:
    """Checks answers."""

    def judge(self, problems: Problems, written: Ints) -> tuple[Floats, float]:
        """The reward of each answer, (problems, answers each), and the share of answers right in every digit."""
        return rewards(problems, written), solved(problems, written)


class PolicyWorker:
    """Owns the weights that learn, the optimizer, and the frozen policy it started from."""

    def __init__(self, settings: PolicySettings, seed: int) -> None:
        self.settings, self.seed = settings, seed
        self.weights = initial_weights(settings.hidden, seed)
        self.reference = {name: value.copy() for name, value in self.weights.items()}
        self.optimizer = AdamW(self.weights, settings.lr, settings.weight_decay, settings.max_grad_norm)

    def current_weights(self) -> Mapping[str, Floats]:
        return self.weights

    def train(self, digits: Ints, written: Ints, old: Floats, advantage: Floats, step: int) -> dict[str, float]:
        """One pass over a step's answers in mini-batches; arrays have one row per answer. Returns means to print."""
        temperature = self.settings.temperature
        seen = windows(digits, written)
        reference = _chosen(logprobs(self.reference, seen, temperature)[0], written)
        order = np.random.default_rng([self.seed, step, _ORDER]).permutation(len(written))
        rows_of_metrics = []
        for start in range(0, len(order), self.settings.batch):
            rows = order[start : start + self.settings.batch]
            forward = logprobs(self.weights, seen[rows], temperature)
            new = _chosen(forward[0], written[rows])
            loss = grpo_loss(new, old[rows], reference[rows], advantage[rows], self.settings.loss)
            slopes = gradient(self.weights, seen[rows], written[rows], loss.slope, temperature, forward)
            rows_of_metrics.append((loss.value, loss.kl, loss.clipped, self.optimizer.update(self.weights, slopes)))
        means = np.mean(rows_of_metrics, axis=0)
        return dict(zip(("loss", "kl", "clipped", "grad_norm"), map(float, means), strict=True))

    def state(self) -> dict[str, Floats]:
        """Everything that a checkpoint must hold to go on as if nothing had happened."""
        flat = {f"weights.{name}": value for name, value in self.weights.items()}
        flat |= {f"mean.{name}": value for name, value in self.optimizer.mean.items()}
        flat |= {f"square.{name}": value for name, value in self.optimizer.square.items()}
        return flat | {"optimizer_steps": np.array(float(self.optimizer.steps))}

    def restore(self, state: Mapping[str, Floats]) -> None:
        """Raises ValueError when the state is of another network."""
        for part, target in (
            ("weights", self.weights),
            ("mean", self.optimizer.mean),
            ("square", self.optimizer.square),
        ):
            for name, value in target.items():
                saved = state.get(f"{part}.{name}")
                if saved is None or saved.shape != value.shape:
                    raise ValueError(f"{part}.{name} does not have the shape {value.shape}")
                target[name] = np.array(saved)
        self.optimizer.steps = int(state["optimizer_steps"])


def _chosen(table: Floats, written: Ints) -> Floats:
    return np.asarray(np.take_along_axis(table, written[..., None], axis=-1)[..., 0])
