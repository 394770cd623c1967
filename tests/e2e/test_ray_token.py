"""A Ray cluster that wants a token: read from its Secret by who may, and shown nowhere."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster.fixtures import Cluster
from command_line import CommandLine

pytestmark = pytest.mark.node

#: All that following a run needs, but for the Secret.
RULES = [
    {"apiGroups": ["ray.io"], "resources": ["rayjobs", "rayclusters"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["create"]},
]
SECRET = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}


def test_a_ray_that_wants_a_token_is_followed_and_the_token_is_shown_nowhere(
    node_cluster: Cluster, node_namespace: str, tmp_path: Path
) -> None:
    cli = CommandLine(node_cluster, node_namespace, tmp_path)
    cli.write("echo first; sleep 5; echo last")
    infra: dict[str, Any] = yaml.safe_load((tmp_path / "infra.yaml").read_text())
    infra["kuberay"]["training"]["spec"]["authOptions"] = {"mode": "token"}
    (tmp_path / "infra.yaml").write_text(yaml.safe_dump(infra))
    run = cli.run("run recipe.yaml --infra infra.yaml --run-id tok -v")
    assert run.out.endswith("first\nlast\n")
    assert "may be missing" not in run.err
    cluster = node_cluster.kubectl(
        "-n", node_namespace, "get", "rayclusters", "-o", "jsonpath={.items[0].metadata.name}"
    )
    path = "jsonpath={.data.auth_token}"
    token = base64.b64decode(node_cluster.kubectl("-n", node_namespace, "get", "secret", cluster, "-o", path)).decode()
    blind = cli.run(
        "job logs tok", 3, **cli.elsewhere(), KUBECONFIG=str(node_cluster.user(node_namespace, RULES, "blind"))
    )
    assert f"Ray requires a token; cannot read Secret {node_namespace}/{cluster} (forbidden)" in blind.err
    seeing = node_cluster.user(node_namespace, [*RULES, SECRET], "seeing")
    assert cli.run("job logs tok -v --tail 2", **cli.elsewhere(), KUBECONFIG=str(seeing)).out == "first\nlast\n"
    assert len(token) > 20
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".kubeconfig"]
    assert any(path.name == "driver.log" for path in kept)
    assert [path for path in kept if token.encode() in path.read_bytes()] == []
    cli.run("job stop tok")
    cli.pods_become()
