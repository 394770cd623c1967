"""How runs end on real Ray: the exit code, the log to its last line, and the pods. Further ends: test_run_endings.py."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.fixtures import Cluster
from command_line import CommandLine, Running

pytestmark = pytest.mark.node


@pytest.fixture
def cli(node_cluster: Cluster, node_namespace: str, tmp_path: Path) -> Iterator[CommandLine]:
    yield CommandLine(node_cluster, node_namespace, tmp_path)


#: Keeps a driver until its words were read: without a ttl the head may go with them before.
UNTIL_READ = "while [ ! -e /tmp/read ]; do sleep 0.2; done"


def fails_once_read(cli: CommandLine, last: str) -> Running:
    """A run without a ttl that shows these last words of its driver, and fails when they were read."""
    run = cli.start("run recipe.yaml --infra infra.yaml --ttl 0")
    run.until(lambda: last in run.out, f"its last words, {last!r}")
    place = ["-n", cli.namespace]
    head = cli.cluster.kubectl(*place, "get", "pods", "-l", "ray.io/node-type=head", "-o", "name").strip()
    cli.cluster.kubectl(*place, "exec", head, "--", "touch", "/tmp/read")
    assert run.end() == 1, run
    return run


def test_a_driver_that_fails_fails_the_run_and_its_log_outlives_the_workers(cli: CommandLine) -> None:
    """A failed run must never look like a success, and what it said must be readable after its GPUs are gone."""
    cli.write("echo before\npython3 -c 'import sys; print(\"boom\", flush=True); sys.exit(3)'")
    done = cli.run("run recipe.yaml --infra infra.yaml --run-id failing", expect=1)
    assert done.out.endswith("before\nboom\n")
    assert ": FAILED" in done.err
    cli.pods_become("head")
    from_head = cli.run("job logs failing --tail 2", **cli.elsewhere())
    assert from_head.out == "before\nboom\n"
    assert "base64" not in cli.run("job logs failing").out
    cli.run("job stop failing")
    cli.pods_become()
    assert cli.run("job logs failing --tail 1").out == "boom\n"
    [run] = cli.json("runs")
    assert (run["id"], run["state"], run["gpusHeld"]) == ("failing", "FAILED", 0)


def test_a_failure_is_not_hidden_by_a_pipe_and_nothing_is_left_without_a_ttl(cli: CommandLine) -> None:
    """`python ... | tee LOG` is in all of upstream's examples, and a plain shell gives it the exit status of tee."""
    lines = "".join(f"print('line {n}', flush=True);" for n in range(200))
    fails = f'python3 -c "import sys; {lines} sys.exit(3)"'
    cli.write(f"({fails}; status=$?; {UNTIL_READ}; exit $status) | tee /tmp/driver.txt")
    done = fails_once_read(cli, "line 199\n")
    shown = [line for line in done.out.splitlines() if line.startswith("line ")]
    assert shown == [f"line {n}" for n in range(200)]
    cli.pods_become()
    assert len(cli.rayjobs()) == 1


def test_an_entrypoint_means_the_same_when_kuberay_pastes_it_into_a_shell_line(cli: CommandLine) -> None:
    """In K8sJobMode it is pasted unquoted into bash: quotes, pipes and newlines must survive, and so must the failure."""
    entrypoint = (
        "x=\"two  words\"; y='$HOME'\nprintf '%s|' \"$x\" \"$y\" > /tmp/out && cat /tmp/out | tr '|' '\\n'\n"
        f"{UNTIL_READ}\nexit 3"
    )
    cli.write(entrypoint)
    infra = (cli.directory / "infra.yaml").read_text()
    (cli.directory / "infra.yaml").write_text(f"{infra}submit: {{submissionMode: K8sJobMode}}\n")
    done = fails_once_read(cli, "$HOME\n")
    assert re.search(r"^two  words\n\$HOME$", done.out, re.MULTILINE), done
    assert "base64" not in done.out + done.err
    cli.pods_become()
