"""The policy: a small autoregressive network over digits, with its gradient and its optimizer written out.

At each column it sees what a pupil with pencil and paper sees: the two digits of this column, the two of the column to
its right, and the digit just written there (from which a carry can be told). The same weights serve every column. The
gradient is by hand, since numpy has none; tests compare it with finite differences.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from quickstart.task import Floats, Ints, Problems

BASE = 10
BLANK = BASE  # what stands right of the rightmost column
WINDOW = 5  # this column's two digits, the right neighbour's two, and the digit written there
Weights = dict[str, Floats]


def initial_weights(hidden: int, seed: int) -> Weights:
    """Near-uniform at the start: the output layer is small, so the untrained policy guesses."""
    rng = np.random.default_rng(seed)
    inputs = WINDOW * (BASE + 1)
    return {
        "w1": rng.normal(0.0, 1.0, (inputs, hidden)) / np.sqrt(WINDOW),
        "b1": np.zeros(hidden),
        "w2": rng.normal(0.0, 0.01, (hidden, BASE)),
        "b2": np.zeros(BASE),
    }


def windows(digits: Ints, written: Ints) -> Ints:
    """What the policy sees at every column of every answer: (answers, columns, WINDOW) tokens.

    ``digits`` is (answers, 2, columns), ``written`` (answers, columns); column ``c`` never sees ``written[:, c:]``.
    """
    seen = np.full((*written.shape, WINDOW), BLANK, dtype=np.int64)
    seen[:, :, 0:2] = digits.transpose(0, 2, 1)
    seen[:, 1:, 2:4] = digits.transpose(0, 2, 1)[:, :-1]
    seen[:, 1:, 4] = written[:, :-1]
    return seen


def logprobs(weights: Mapping[str, Floats], seen: Ints, temperature: float) -> tuple[Floats, Floats]:
    """Log-probabilities of the ten digits, (..., BASE), and the hidden layer that the gradient needs."""
    hidden = np.tanh(_first_layer(weights, seen))
    logits = (hidden @ weights["w2"] + weights["b2"]) / temperature
    logits -= logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True)), hidden


def sample(weights: Mapping[str, Floats], digits: Ints, noise: Floats, temperature: float) -> tuple[Ints, Floats]:
    """Write answers column by column; returns them and the log-probability of each digit, both (answers, columns).

    ``noise`` is uniform in [0, 1), one number for each digit: who draws it decides what is random, so the same seed
    gives the same answers however the problems are spread over actors.
    """
    written: Ints = np.zeros(noise.shape, dtype=np.int64)
    chosen: Floats = np.zeros(noise.shape)
    for column in range(noise.shape[1]):
        table, _ = logprobs(weights, windows(digits, written)[:, column], temperature)
        cumulative = np.cumsum(np.exp(table), axis=-1)
        digit = np.minimum((noise[:, column, None] >= cumulative).sum(axis=-1), BASE - 1)
        written[:, column] = digit
        chosen[:, column] = np.take_along_axis(table, digit[:, None], axis=-1)[:, 0]
    return written, chosen


def best_answers(weights: Mapping[str, Floats], problems: Problems) -> Ints:
    """The most likely digit at every column (no sampling), (problems, 1, columns): what validation judges."""
    written: Ints = np.zeros(problems.answers.shape, dtype=np.int64)
    for column in range(written.shape[1]):
        table, _ = logprobs(weights, windows(problems.digits, written)[:, column], 1.0)
        written[:, column] = table.argmax(axis=-1)
    return written[:, None, :]


def gradient(
    weights: Mapping[str, Floats],
    seen: Ints,
    written: Ints,
    slope: Floats,
    temperature: float,
    forward: tuple[Floats, Floats],
) -> Weights:
    """The gradient of a loss, given ``slope``: its derivative by the log-probability of each written digit.

    ``forward`` is what ``logprobs`` returned for ``seen``.
    """
    table, hidden = forward
    taken = np.arange(BASE) == written[..., None]
    by_logits = ((taken - np.exp(table)) * slope[..., None]).reshape(-1, BASE) / temperature
    flat = hidden.reshape(len(by_logits), -1)
    by_hidden = by_logits @ weights["w2"].T * (1.0 - flat**2)
    return {
        "w1": _one_hot(seen.reshape(-1, WINDOW)).T @ by_hidden,
        "b1": by_hidden.sum(axis=0),
        "w2": flat.T @ by_logits,
        "b2": by_logits.sum(axis=0),
    }


class AdamW:
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019), and gradients clipped by their global norm."""

    def __init__(self, weights: Mapping[str, Floats], lr: float, weight_decay: float, max_grad_norm: float) -> None:
        self.lr, self.weight_decay, self.max_grad_norm = lr, weight_decay, max_grad_norm
        self.steps = 0
        self.mean = {name: np.zeros_like(value) for name, value in weights.items()}
        self.square = {name: np.zeros_like(value) for name, value in weights.items()}

    def update(self, weights: Weights, gradients: Mapping[str, Floats]) -> float:
        """Change ``weights`` in place; returns the norm of the gradient before clipping."""
        norm = float(np.sqrt(sum(float((g**2).sum()) for g in gradients.values())))
        scale = min(1.0, self.max_grad_norm / (norm + 1e-12))
        self.steps += 1
        for name, raw in gradients.items():
            clipped = raw * scale
            self.mean[name] = 0.9 * self.mean[name] + 0.1 * clipped
            self.square[name] = 0.999 * self.square[name] + 0.001 * clipped**2
            mean = self.mean[name] / (1.0 - 0.9**self.steps)
            square = self.square[name] / (1.0 - 0.999**self.steps)
            weights[name] -= self.lr * (mean / (np.sqrt(square) + 1e-8) + self.weight_decay * weights[name])
        return norm


def _first_layer(weights: Mapping[str, Floats], seen: Ints) -> Floats:
    """One-hot times matrix, written as a sum of looked-up rows: the same numbers at a fraction of the time."""
    rows = weights["w1"].reshape(WINDOW, BASE + 1, -1)
    total = weights["b1"] + rows[0][seen[..., 0]]
    for place in range(1, WINDOW):
        total = total + rows[place][seen[..., place]]
    return np.asarray(total)


def _one_hot(seen: Ints) -> Floats:
    flat = np.zeros((len(seen), WINDOW * (BASE + 1)))
    flat[np.arange(len(seen))[:, None], seen + np.arange(WINDOW) * (BASE + 1)] = 1.0
    return flat
