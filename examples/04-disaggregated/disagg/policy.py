"""The policy: how far off the right sum it answers, drawn from ten learned chances. Small enough to be read and sent as JSON."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

#: An answer is the sum and one of these.
OFFSETS = tuple(range(-5, 5))


def chances(logits: Sequence[float]) -> list[float]:
    top = max(logits)
    weights = [math.exp(logit - top) for logit in logits]
    return [weight / sum(weights) for weight in weights]


def sample(logits: Sequence[float], count: int, generator: random.Random) -> list[int]:
    """`count` choices, as indices into `OFFSETS`."""
    return generator.choices(range(len(OFFSETS)), chances(logits), k=count)


def improved(logits: Sequence[float], choices: Sequence[int], rewards: Sequence[float], rate: float) -> list[float]:
    """One step of the policy gradient, each reward compared with the mean of its group."""
    mean, now = sum(rewards) / len(rewards), chances(logits)
    gradient = [0.0] * len(now)
    for choice, reward in zip(choices, rewards, strict=True):
        for at, chance in enumerate(now):
            gradient[at] += (reward - mean) * ((at == choice) - chance)
    return [logit + rate * slope / len(choices) for logit, slope in zip(logits, gradient, strict=True)]
