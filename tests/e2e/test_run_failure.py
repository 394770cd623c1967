"""What a failed run says that it died of, by the real KubeRay: its log, a worker that was killed, the run's own end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.fixtures import Cluster
from command_line import CommandLine

pytestmark = pytest.mark.node


@pytest.fixture
def cli(kwok_cluster: Cluster, kwok_namespace: str, tmp_path: Path) -> Iterator[CommandLine]:
    yield CommandLine(kwok_cluster, kwok_namespace, tmp_path)


def oom_killed(cli: CommandLine) -> str:
    """Say of the worker what kubelet says of a container that was killed for memory and came back; its name."""
    select = [
        "-n",
        cli.namespace,
        "get",
        "pods",
        "-l",
        "ray.io/node-type=worker",
        "-o",
        "jsonpath={.items[0].metadata.name}",
    ]
    worker = cli.cluster.kubectl(*select)
    ended = {"reason": "OOMKilled", "exitCode": 137, "startedAt": None, "finishedAt": None}
    status = {
        "name": "ray",
        "image": "x",
        "imageID": "",
        "ready": True,
        "restartCount": 1,
        "lastState": {"terminated": ended},
    }
    patch = json.dumps({"status": {"containerStatuses": [status]}})
    cli.cluster.kubectl(
        "-n", cli.namespace, "patch", "pod", worker, "--subresource=status", "--type=merge", "-p", patch
    )
    return worker


def test_a_failed_run_ends_with_its_last_error_the_worker_that_died_and_what_helps(cli: CommandLine) -> None:
    gate = cli.directory / "gate"
    cli.write(
        f"echo started; while [ ! -e '{gate}' ]; do sleep 0.1; done; python3 -c 'import not_there'", codePath="/tmp"
    )
    run = cli.start("run recipe.yaml --infra infra.yaml --run-id dies infra.image=none/ray:1")
    run.until(lambda: "started" in run.out, "the driver's first line")
    worker = oom_killed(cli)
    run.until(lambda: "OOMKilled" in run.err, "the death to be seen")
    gate.touch()
    assert run.end() == 1, run
    said = run.err[run.err.index("last error in its log:") :]
    assert "  ModuleNotFoundError: No module named 'not_there'" in said
    assert f"pod {worker} (workers of w) died: OOMKilled, container ray, exit 137" in said
    assert "hint: raise the memory of that role in the infra file: resources.training.worker.memory" in said
    assert "hint: launch.codeSource: upload" in said
    later = cli.json("job logs dies -f", expect=1, **cli.elsewhere())["failure"]
    assert [hint["id"] for hint in later["hints"]] == ["module-not-found"]


def test_the_runs_own_end_is_enough_for_a_hint(cli: CommandLine) -> None:
    cli.write("echo started; kill -9 $$", codePath="/tmp")
    failure = cli.json("run recipe.yaml --infra infra.yaml infra.image=none/ray:1", expect=1)["failure"]
    assert [hint["id"] for hint in failure["hints"]] == ["killed"]
