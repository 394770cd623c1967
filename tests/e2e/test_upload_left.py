"""A laptop that leaves before it submitted: another one goes on, or the deadline gives the pods back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster.fault_proxy import FaultProxy
from cluster.fixtures import Cluster
from command_line import CommandLine, Running, pasted, wait_until
from run_files import files

pytestmark = pytest.mark.node


def left(cli: CommandLine, cluster: Cluster, **launch: Any) -> Running:
    """A run interrupted when its Ray cluster is ready and the head cannot be reached."""
    data = files("sh train.sh $NRL_RECIPE", image="fake/ray:1", name="left", codeSource="upload", **launch)
    for name, content in data.items():
        content.get("launch", {}).pop("codePath", None)
        (cli.directory / name).write_text(yaml.safe_dump(content))
    code = cli.directory / "code"
    code.mkdir()
    (code / "train.sh").write_text('echo "from the laptop" && grep steps "$1" && ls')
    with FaultProxy(cluster.kubeconfig) as proxy:
        proxy.answer(503, times=10_000, path="/portforward")
        running = cli.start(
            "run recipe.yaml --infra infra.yaml --repo-root code steps=5", KUBECONFIG=str(proxy.kubeconfig)
        )
        running.until(lambda: "not submitted yet" in running.err, "it meets the outage")
        assert running.interrupt() == 130, running
    assert "its code is not submitted" in running.err
    return running


def test_another_try_uploads_submits_and_follows(kwok_cluster: Cluster, kwok_namespace: str, tmp_path: Path) -> None:
    """The printed line is enough, on a laptop that has the code and nothing else."""
    cli = CommandLine(kwok_cluster, kwok_namespace, tmp_path)
    running = left(cli, kwok_cluster)
    for name in ("recipe.yaml", "infra.yaml"):
        (tmp_path / name).unlink()
    resumed = cli.run(pasted(running.err, "upload and submit"), **cli.elsewhere())
    assert resumed.out.splitlines() == ["from the laptop", "steps: 5", "nrl_k8s_run.yaml", "train.sh"]
    assert "SUCCEEDED" in resumed.err
    cli.run(pasted(running.err, "upload and submit"), 2)


def test_a_run_that_nobody_submits_gives_its_pods_back(
    kwok_cluster: Cluster, kwok_namespace: str, tmp_path: Path
) -> None:
    cli = CommandLine(kwok_cluster, kwok_namespace, tmp_path)
    left(cli, kwok_cluster, preRunningDeadlineSeconds=3600)
    (rayjob,) = cli.rayjobs()
    cli.patch_rayjob(rayjob.partition("/")[2], preRunningDeadlineSeconds=1)

    def status() -> dict[str, Any]:
        return dict(json.loads(kwok_cluster.kubectl("-n", kwok_namespace, "get", rayjob, "-o", "json"))["status"])

    wait_until(lambda: status()["jobDeploymentStatus"] == "Failed", "the deadline")
    assert status()["reason"] == "PreRunningDeadlineExceeded"
    wait_until(lambda: "worker" not in cli.pods(), "the workers to go")


def test_a_run_goes_on_without_the_laptop_once_it_is_submitted(
    kwok_cluster: Cluster, kwok_namespace: str, tmp_path: Path
) -> None:
    cli = CommandLine(kwok_cluster, kwok_namespace, tmp_path)
    data = files("sh train.sh", image="fake/ray:1", name="alone", codeSource="upload")
    data["infra.yaml"]["launch"].pop("codePath")
    for name, content in data.items():
        (tmp_path / name).write_text(yaml.safe_dump(content))
    go = tmp_path / "go"
    # Without a ttl the head goes at once, with what nobody has read yet.
    (tmp_path / "train.sh").write_text(f"echo all alone; while [ ! -e {go} ]; do sleep 0.2; done")
    done = cli.run("run recipe.yaml --infra infra.yaml --no-wait --ttl 0")
    assert "does not need this machine any more" in done.err
    followed = cli.start(pasted(done.err, "follow it again"), **cli.elsewhere())
    followed.until(lambda: "all alone" in followed.out, "the driver's words")
    go.touch()
    assert followed.end() == 0, followed
    cli.pods_become()
