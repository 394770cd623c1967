"""Coming and going: a run outlives the terminal, is found again, followed and stopped by the lines that were printed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.fixtures import Cluster
from command_line import CommandLine, pasted

pytestmark = pytest.mark.node

TICKS = "for i in $(seq 1 600); do echo tick $i; sleep 1; done"


@pytest.fixture
def cli(node_cluster: Cluster, node_namespace: str, tmp_path: Path) -> Iterator[CommandLine]:
    yield CommandLine(node_cluster, node_namespace, tmp_path)


def ticks(text: str) -> list[int]:
    return [int(line.split()[1]) for line in text.splitlines() if line.startswith("tick ")]


def test_ctrl_c_leaves_the_run_and_the_printed_lines_follow_and_stop_it(cli: CommandLine) -> None:
    """Ctrl-C is how people leave: the run goes on, and every line that is printed works when pasted."""
    cli.write(TICKS)
    run = cli.start("run recipe.yaml --infra infra.yaml --rayjob-name ticking")
    run.until(lambda: "tick 3" in run.out, "the third tick")
    taken = cli.run("run recipe.yaml --infra infra.yaml --rayjob-name ticking", expect=3)
    assert 'RayJob "ticking" already exists and is live' in taken.err
    assert run.interrupt() == 130, run
    assert "the run goes on" in run.err
    assert cli.pods() == ["head", "worker"]
    again = cli.start(pasted(run.err, "follow it again"))
    seen = ticks(run.out)[-1]
    again.until(lambda: bool(ticks(again.out)) and ticks(again.out)[-1] > seen, "ticks after the interruption")
    stop = cli.run(pasted(run.err, "stop and release"))
    assert "released Ray cluster" in stop.out
    assert again.end() == 5, again
    assert ticks(again.out) == list(range(1, ticks(again.out)[-1] + 1))
    cli.pods_become()
    assert cli.rayjobs() == ["rayjob.ray.io/ticking"]


def test_a_run_left_at_once_is_followed_from_another_laptop_to_its_end(cli: CommandLine) -> None:
    """A run needs nothing of the laptop that started it: id and cluster are enough."""
    cli.write("for i in 1 2 3 4 5; do echo tick $i; sleep 1; done; python3 -c 'print(chr(246) * 3)'")
    started = cli.json("run recipe.yaml --infra infra.yaml --no-wait")
    assert started["state"] == "Created"
    followed = cli.run(f"job logs {started['id']} -f", **cli.elsewhere())
    assert ticks(followed.out) == [1, 2, 3, 4, 5]
    assert followed.out.endswith("ööö\n")
    assert "SUCCEEDED" in followed.err
    cli.pods_become("head")
    finished = cli.run(f"run recipe.yaml --infra infra.yaml --rayjob-name {started['rayjob']}", expect=3)
    assert "already exists and finished (SUCCEEDED" in finished.err
