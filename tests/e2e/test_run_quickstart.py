"""The quickstart as a newcomer runs it: it learns, and an override on the command line changes what runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cluster.fixtures import Cluster
from command_line import CommandLine

pytestmark = pytest.mark.node

QUICKSTART = Path(__file__).parents[2] / "examples" / "01-quickstart"


def test_the_quickstart_runs_and_an_override_changes_it(
    node_cluster: Cluster, node_namespace: str, tmp_path: Path
) -> None:
    """The recipe that the command line composed is what trains, on the cluster and not only on paper."""
    cli = CommandLine(node_cluster, node_namespace, tmp_path)
    recipe, infra = QUICKSTART / "recipe.yaml", QUICKSTART / "kubernetes.infra.yaml"
    done = cli.run(f"run {recipe} --infra {infra} infra.image={node_cluster.ray_image} grpo.max_num_steps=4 -o json")
    result = json.loads(done.out)
    assert (result["state"], result["exitCode"], result["notGone"]) == ("SUCCEEDED", 0, [])
    assert result["log"]["complete"] is True
    log = Path(result["log"]["path"]).read_text()
    assert "step 4/4 " in log, log
    assert "step 5/" not in log
    cli.run(f"job stop rayjob/{result['rayjob']}")
    cli.pods_become()
