"""Measure how long the program takes to answer, as ratios against a bare interpreter in the same run.

Absolute times say little on a machine that is not named; the median of rounds that take turns says what a change costs.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import bench

BARE = "python3 -c pass"

#: What is measured, and the most it may cost against `python3 -c pass`.
GOALS = {"--help": 6.0, "check": 30.0, "run --dry-run": 30.0}

#: A short infra file for 4 nodes, and one with hand-written specs for 64.
EXAMPLES = (
    ("examples/03-gb300/grpo-4n.yaml", "examples/03-gb300/gb300.infra.yaml"),
    ("examples/03-gb300/grpo-64n.yaml", "examples/03-gb300/grpo-64n.gb300.prod.infra.yaml"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; 1 when a goal is missed, 2 when a command does not work at all."""
    parser = bench.parser(__doc__, 9)
    parser.add_argument(
        "--pair", nargs=2, metavar=("RECIPE", "INFRA"), action="append", help="instead of examples/03-gb300"
    )
    args = parser.parse_args(argv)
    commands = {BARE: [sys.executable, "-c", "pass"], "--help": [*bench.PROGRAM, "--help"]}
    for recipe, infra in args.pair or EXAMPLES:
        for verb in ("check", "run --dry-run"):
            words = [*verb.split(), recipe, "--infra", infra]
            commands[f"{verb} {Path(recipe).name}"] = [*bench.PROGRAM, *words]
    return report(measure(commands, args.rounds))


def measure(commands: Mapping[str, Sequence[str]], rounds: int) -> dict[str, float]:
    """Median seconds of each command. The first round fills caches and is not counted."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(rounds + 1):
        for name, command in commands.items():
            seconds, _ = bench.timed(command, env=bench.environment())
            if turn:
                times[name].append(seconds)
    return {name: statistics.median(taken) for name, taken in times.items()}


def report(medians: Mapping[str, float]) -> int:
    """The table, and whether every goal is met."""
    missed = 0
    width = max(map(len, medians))
    print(f"{'':<{width}}  {'median':>8}  {'ratio':>6}  {'goal':>5}")
    for name, seconds in medians.items():
        ratio = seconds / medians[BARE]
        goal = next((limit for prefix, limit in GOALS.items() if name.startswith(prefix)), None)
        late = goal is not None and ratio > goal
        missed += late
        words = f"{goal:>5.0f}{'  MISSED' if late else ''}" if goal else ""
        print(f"{name:<{width}}  {seconds * 1000:>5.0f} ms  {ratio:>6.1f}  {words}".rstrip())
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
