"""A long-lived cluster with a real Ray: brought up by one run, used again by the next."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from cluster.fixtures import Cluster
from command_line import CommandLine, wait_until
from run_files import infra

pytestmark = pytest.mark.node

DRIVER = """
python -u - <<'EOF'
import os, ray
ray.init()
print("nodes", len(ray.nodes()), "run", os.environ["NRL_K8S_RUN_ID"], "job", os.environ["RAY_JOB_SUBMISSION_ID"])
print("word", ray.get(ray.remote(num_cpus=0)(lambda: open("word.txt").read().strip()).remote()))
EOF
"""


def test_the_next_run_finds_the_cluster_warm_and_its_own_code(
    node_cluster: Cluster, node_namespace: str, tmp_path: Path
) -> None:
    shell = CommandLine(node_cluster, node_namespace, tmp_path)
    data = infra(DRIVER, image=node_cluster.ray_image, name="long", codeSource="upload")
    del data["kuberay"]["training"]["spec"]["workerGroupSpecs"]
    (tmp_path / "infra.yaml").write_text(yaml.safe_dump(data))
    (tmp_path / "recipe.yaml").write_text("cluster: {num_nodes: 1, gpus_per_node: 0}\n")
    (tmp_path / "code").mkdir()
    line = "run recipe.yaml --infra infra.yaml --raycluster --repo-root code"

    (tmp_path / "code" / "word.txt").write_text("first")
    cold = shell.run(f"{line} --run-id cold")
    assert {"nodes 1 run cold job cold", "word first"} <= set(cold.out.splitlines())
    pods = node_cluster.kubectl("-n", node_namespace, "get", "pods", "-o", "name")

    (tmp_path / "code" / "word.txt").write_text("second")
    warm = shell.run(f"{line} --run-id warm")
    assert {"nodes 1 run warm job warm", "word second"} <= set(warm.out.splitlines())
    assert "raycluster/long: unchanged" in warm.err
    assert node_cluster.kubectl("-n", node_namespace, "get", "pods", "-o", "name") == pods

    records = json.loads(
        node_cluster.kubectl("-n", node_namespace, "get", "configmaps", "-l", "kubectl-nrl/record=run", "-o", "json")
    )
    assert {item["data"]["id"]: item["data"]["state"] for item in records["items"]} == {
        "cold": "SUCCEEDED",
        "warm": "SUCCEEDED",
    }
    shell.run("cluster down long")
    left = ["-n", node_namespace, "get", "pods,rayclusters,configmaps", "-l", "kubectl-nrl/owner", "-o", "name"]
    # The records go with their cluster, by the garbage collector.
    wait_until(lambda: not node_cluster.kubectl(*left), lambda: f"nothing left: {node_cluster.kubectl(*left)}")
