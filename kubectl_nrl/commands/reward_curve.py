"""The reward of a run, read off its log as it passes, and drawn with characters.

It knows lines, not trainers: `step 3/60 ... reward 0.12` on one line, or a line with `Step 3/60` and a later one with
`Reward: 0.12` (as NeMo-RL prints them). Lines about validation are left out: they are fewer and would bend the curve.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

_STEP = re.compile(rb"\bstep[ :]+(\d+)(?:\s*/\s*(\d+))?", re.IGNORECASE)
_REWARD = re.compile(rb"\breward[ :=]+(-?\d+(?:\.\d+)?(?:e-?\d+)?)", re.IGNORECASE)

#: Longest part of a line that is looked at.
_LINE = 4096
_BARS = " ▁▂▃▄▅▆▇█"
_PLAIN = " .:-=+*#@"


class RewardCurve:
    """Feed it a log's bytes. `points` are (step, reward), `steps` how many steps there will be (0: not said)."""

    def __init__(self) -> None:
        self.points: dict[int, float] = {}
        self.steps = 0
        self._step = 0
        self._carry = b""

    def feed(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._read((self._carry + line[:_LINE])[:_LINE])
            self._carry = b""
        self._carry = (self._carry + rest[:_LINE])[:_LINE]

    @property
    def values(self) -> list[float]:
        return [self.points[step] for step in sorted(self.points)]

    def _read(self, line: bytes) -> None:
        step = _STEP.search(line)
        if step:
            self._step = int(step[1])
            self.steps = int(step[2] or self.steps)
        reward = _REWARD.search(line)
        if reward and self._step and b"validation" not in line.lower():
            self.points.setdefault(self._step, float(reward[1]))


def plot(curve: RewardCurve, *, width: int = 60, height: int = 6, plain: bool = False) -> str:
    """The curve as lines of text, with its least and greatest reward and its last step; empty for fewer than two points.

    `plain` uses ASCII only.
    """
    values = curve.values
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    span = high - low or 1.0
    wide = max(1, min(4, width // len(values)))
    levels = [(value - low) / span * (height - 0.2) + 0.2 for value in _thinned(values, width) for _ in range(wide)]
    marks = _PLAIN if plain else _BARS
    lines = []
    for row in reversed(range(height)):
        label = f"{high:.3g}" if row == height - 1 else f"{low:.3g}" if row == 0 else ""
        bars = "".join(marks[max(0, min(8, round((level - row) * 8)))] for level in levels)
        lines.append(f"{label:>9} {'|' if plain else '┤' if label else '│'}{bars}".rstrip())
    last = str(max(curve.points))
    lines.append(f"{'step':>9}  {min(curve.points)!s:<{max(1, len(levels) - len(last))}}{last}")
    return "\n".join(lines)


def _thinned(values: Sequence[float], width: int) -> list[float]:
    """At most `width` values: means of neighbours."""
    if len(values) <= width:
        return list(values)
    edges = [round(i * len(values) / width) for i in range(width + 1)]
    return [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
