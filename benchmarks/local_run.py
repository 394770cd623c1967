"""Measure how soon a local run's driver says its first line, against `ray start` and `ray job submit` by hand.

Both start a Ray of their own in each round and take turns, so that what else the machine does weighs on both.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import bench

#: The most that a local run may take against Ray's own commands.
GOAL = 1.1

INFRA = "profile: local\nlaunch: {entrypoint: 'echo first line; echo $NRL_RECIPE'}\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Print both medians and their ratio; 1 when the goal is missed, 2 when a command does not work at all."""
    args = bench.parser(__doc__, 3).parse_args(argv)
    ways: dict[str, Callable[[Path], float]] = {"ray start, ray job submit": by_hand, "kubectl nrl run --local": ours}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(args.rounds):
        for name, way in ways.items():
            place = Path(tempfile.mkdtemp(prefix="nrlb", dir="/tmp"))
            try:
                times[name].append(way(place))
            finally:
                shutil.rmtree(place, ignore_errors=True)
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    bare, mine = medians.values()
    for name, seconds in medians.items():
        print(f"{name:<26}  {seconds:6.2f} s to the first line")
    print(f"{'ratio':<26}  {mine / bare:6.2f}    goal {GOAL}{'  MISSED' if mine / bare > GOAL else ''}")
    return 1 if mine / bare > GOAL else 0


def ours(place: Path) -> float:
    """A local run, from the command to its driver's first line."""
    (place / "recipe.yaml").write_text("a: 1\n", encoding="utf-8")
    (place / "infra.yaml").write_text(INFRA, encoding="utf-8")
    words = [*bench.PROGRAM, "run", "recipe.yaml", "--infra", "infra.yaml", "-q"]
    env = bench.environment() | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "XDG_STATE_HOME": str(place / "state"),
    }
    return until_first_line(words, place, env, time.perf_counter())


def by_hand(place: Path) -> float:
    """A head on ports of its own, and a job submitted to it."""
    started = time.perf_counter()
    start = [*bench.RAY, "start", "--head", "--port=19600", "--dashboard-port=19601", "--ray-client-server-port=19602"]
    start += [f"--temp-dir={place}", "--min-worker-port=0", "--max-worker-port=0", "--disable-usage-stats", "--block"]
    head = subprocess.Popen(
        start, env=bench.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        while not (place / "ray_current_cluster").exists():
            if head.poll() is not None:
                bench.fail(f"ray start ended with {head.returncode}")
            time.sleep(0.05)
        submit = [*bench.RAY, "job", "submit", "--address=http://127.0.0.1:19601", "--", "echo", "first", "line"]
        return until_first_line(submit, place, bench.environment(), started)
    finally:
        head.terminate()
        head.wait()


def until_first_line(words: Sequence[str], place: Path, env: Mapping[str, str], started: float) -> float:
    """Seconds from `started` until the command says `first line`; it is then waited for."""
    child = subprocess.Popen(
        words, cwd=place, env=dict(env), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert child.stdout is not None
    said, seconds = [], None
    for line in child.stdout:
        said.append(line)
        if seconds is None and line.strip() == "first line":
            seconds = time.perf_counter() - started
    if child.wait() or seconds is None:
        bench.fail("".join(said))
    return seconds


if __name__ == "__main__":
    sys.exit(main())
