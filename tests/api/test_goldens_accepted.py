"""A real API server accepts what the goldens hold, strictly: every object, and every pod template as a Pod.

The API server does not look into the templates of a RayJob or RayCluster, so those are tried as Pods of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster.fixtures import Cluster

pytestmark = pytest.mark.api

EXPECTED = Path(__file__).parents[1] / "golden" / "expected"
GOLDENS = sorted(path.relative_to(EXPECTED).as_posix() for path in EXPECTED.rglob("*.yaml"))


def _templates(manifest: dict[str, Any]) -> Iterator[dict[str, Any]]:
    spec = manifest["spec"]
    cluster = spec.get("rayClusterSpec", spec)
    groups = [cluster["headGroupSpec"], *cluster.get("workerGroupSpecs", [])] if "headGroupSpec" in cluster else []
    if manifest["kind"] == "Deployment":
        groups = [spec]
    for group in groups:
        yield group["template"]


def _pods(manifests: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    seen = []
    for manifest in manifests:
        for template in _templates(manifest):
            if template not in seen:  # segments of one group are alike
                seen.append(template)
                metadata = {**template.get("metadata", {}), "name": f"pod-{len(seen)}"}
                yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


@pytest.fixture(scope="module")
def namespace(api_cluster: Cluster) -> Iterator[str]:
    name = api_cluster.namespace("goldens")
    for account in ("nemo-rl-endpoint-registry", "nemo-rl"):  # a Pod of an account that is absent is refused
        api_cluster.kubectl("create", "serviceaccount", account, f"--namespace={name}")
    yield name
    api_cluster.delete_namespace(name)


@pytest.mark.parametrize("name", GOLDENS)
def test_the_api_server_accepts_it(api_cluster: Cluster, namespace: str, name: str) -> None:
    manifests = list(yaml.safe_load_all((EXPECTED / name).read_text()))
    pods = list(_pods(manifests))
    assert pods
    for manifest in (*manifests, *pods):
        manifest["metadata"]["namespace"] = namespace
    sent = yaml.safe_dump_all([*manifests, *pods])
    said = api_cluster.kubectl("create", "--dry-run=server", "--validate=strict", "--filename=-", stdin=sent)
    assert said.count("created (server dry run)") == len(manifests) + len(pods)


def test_a_wrong_field_would_be_refused(api_cluster: Cluster, namespace: str) -> None:
    pod = next(_pods(list(yaml.safe_load_all((EXPECTED / GOLDENS[0]).read_text()))))
    pod["spec"]["containers"][0]["imagee"] = "x"
    with pytest.raises(Exception, match="imagee"):
        api_cluster.kubectl(
            "create", "--dry-run=server", "--validate=strict", f"--namespace={namespace}", "--filename=-",
            stdin=yaml.safe_dump(pod),
        )  # fmt: skip
