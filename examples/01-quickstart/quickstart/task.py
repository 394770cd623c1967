"""The task: column arithmetic, whose answers a program can check.

A problem is two numbers, and an answer is its digits, written as on paper from the rightmost column to the left. The
reward is the share of right digits rather than all-or-nothing: a policy that guesses gets about 0.1 instead of 0.001,
so every group of answers has better and worse ones to compare from the first step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

DATASETS = ("addition", "subtraction")


@dataclass(frozen=True)
class Problems:
    """A batch of problems: ``digits`` has the shape (problems, 2, columns), ``answers`` (problems, columns).

    Column 0 is the rightmost. One column more than the operands have leaves room for the last carry."""

    digits: Ints
    answers: Ints

    def __len__(self) -> int:
        return len(self.answers)

    def take(self, rows: Ints) -> Problems:
        return Problems(self.digits[rows], self.answers[rows])


@dataclass(frozen=True)
class Task:
    """All problems of one kind, split once by seed: validation problems are never trained on."""

    train: Problems
    validation: Problems

    def batch(self, seed: int, step: int, count: int) -> Problems:
        """The training problems of one step, none of them twice; the same for the same seed and step."""
        rng = np.random.default_rng([seed, step])
        return self.train.take(rng.choice(len(self.train), size=count, replace=False))


def problem_count(dataset: str, num_digits: int) -> int:
    """How many problems ``make_task`` finds: a subtraction never goes below zero, so about half the pairs."""
    limit: int = 10**num_digits
    return limit * (limit + 1) // 2 if dataset == "subtraction" else limit * limit


def make_task(dataset: str, num_digits: int, validation: int, seed: int) -> Task:
    """Every problem of one of the DATASETS with operands below ``10**num_digits``, ``validation`` of them held out."""
    limit = 10**num_digits
    left, right = (grid.ravel() for grid in np.meshgrid(np.arange(limit), np.arange(limit), indexing="ij"))
    if dataset == "subtraction":
        keep = left >= right
        left, right = left[keep], right[keep]
        result = left - right
    else:
        result = left + right
    columns = num_digits + 1
    everything = Problems(
        np.stack([_columns(left, columns), _columns(right, columns)], axis=1),
        _columns(result, columns),
    )
    order = np.random.default_rng(seed).permutation(len(everything))
    return Task(everything.take(order[validation:]), everything.take(order[:validation]))


def rewards(problems: Problems, written: Ints) -> Floats:
    """The share of right digits, from 0 to 1, of each answer: ``written`` is (problems, answers each, columns)."""
    return np.asarray(np.mean(written == problems.answers[:, None, :], axis=-1), dtype=np.float64)


def solved(problems: Problems, written: Ints) -> float:
    """The share of answers that are right in every digit."""
    return float(np.mean(np.all(written == problems.answers[:, None, :], axis=-1)))


def number(columns: Ints) -> int:
    """The number that a row of digits stands for, column 0 being the ones."""
    return int(sum(int(digit) * 10**place for place, digit in enumerate(columns)))


def _columns(numbers: Ints, count: int) -> Ints:
    return np.stack([numbers // 10**place % 10 for place in range(count)], axis=1).astype(np.int64)
