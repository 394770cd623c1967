"""The disaggregated example on real Ray clusters: three roles that find one another by their Services, and talk."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cluster.fixtures import Cluster
from command_line import CommandLine

pytestmark = pytest.mark.node

EXAMPLE = Path(__file__).parents[2] / "examples" / "04-disaggregated"


def test_gym_generation_and_training_work_together_and_the_next_run_finds_them_up(
    node_cluster: Cluster, node_namespace: str, tmp_path: Path
) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "code")  # apart from what these commands write: that would be other code
    shell = CommandLine(node_cluster, node_namespace, tmp_path)
    words = f"code/recipe.yaml --infra code/kubernetes.infra.yaml infra.image={node_cluster.ray_image}"
    first = shell.run(f"run {words} --raycluster --repo-root code")
    assert "step 40/40 reward" in first.out
    assert "result: the right sum with a chance of 0.9" in first.out
    again = shell.run(f"run {words} --repo-root code grpo.max_num_steps=2")
    assert "step 2/2 reward" in again.out
    for role in ("generation", "gym"):
        assert f"raycluster/e2e-disagg-{role}: unchanged" in again.err
        assert f"daemon e2e-disagg-{role}-daemon of {role}: unchanged" in again.err
    status = shell.json(f"status {words}")["items"]
    healthy = {daemon["role"]: daemon["healthy"] for item in status for daemon in item["daemons"]}
    assert healthy == {"generation": True, "gym": True}
    said = shell.run(f"logs {words} --role gym --source daemon").out
    assert "POST /rollouts from" in said
    shell.run(f"cluster down {words}")
