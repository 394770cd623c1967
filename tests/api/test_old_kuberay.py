"""A KubeRay older than what the files ask for: strict validation names the key and its line, the rest falls back as designed."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from cluster.fixtures import Cluster, started, stopped
from run_files import files
from waiting import wait_until

from kubectl_nrl.testing import Project

pytestmark = pytest.mark.api

CHECK = "check recipe.yaml --infra infra.yaml --cluster -n default"


@pytest.fixture(scope="module")
def old_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An API server of our own whose RayJob lacks what came with KubeRay 1.5 and 1.6."""
    cluster = started("api", tmp_path_factory.mktemp("old") / "state")
    try:
        crd = json.loads(cluster.kubectl("get", "crd", "rayjobs.ray.io", "-o", "json"))
        for version in crd["spec"]["versions"]:
            spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
            for field in ("preRunningDeadlineSeconds", "deletionStrategy"):
                spec.pop(field, None)
            spec["rayClusterSpec"]["properties"].pop("headServiceAnnotations", None)
        cluster.kubectl("replace", "-f", "-", stdin=json.dumps(crd))
        _until_unserved(cluster, "preRunningDeadlineSeconds")
        yield cluster
    finally:
        stopped(cluster)


def _until_unserved(cluster: Cluster, field: str) -> None:
    """The API server publishes a changed schema a moment later."""
    wait_until(lambda: field not in _rayjob_fields(cluster), f"{field} to be served no more")


def _rayjob_fields(cluster: Cluster) -> set[str]:
    schemas = json.loads(cluster.kubectl("get", "--raw=/openapi/v3/apis/ray.io/v1"))["components"]["schemas"]
    (rayjob,) = (schema for name, schema in schemas.items() if name.endswith(".v1.RayJob"))
    return set(rayjob["properties"]["spec"]["properties"])


def project(cluster: Cluster, **changes: Any) -> Project:
    made = copy.deepcopy(files())
    made["infra.yaml"]["launch"] |= changes.pop("launch", {})
    made["infra.yaml"]["kuberay"]["training"]["spec"] |= changes
    return Project(made, env={"KUBECONFIG": str(cluster.kubeconfig)})


def strict(outcome: Any) -> list[str]:
    checks = outcome.result("check")["onCluster"]["checks"]
    return [c["detail"] for c in checks if c["topic"] == "api server" and c["ok"] is False]


def test_an_unknown_field_is_named_with_the_line_that_wrote_it(old_cluster: Cluster) -> None:
    asked = project(old_cluster, launch={"preRunningDeadlineSeconds": 600}, headServiceAnnotations={"a": "b"})
    lines = asked.read("infra.yaml").splitlines()
    checked = asked.run(f"{CHECK} -o json")
    assert checked.exit == 1
    said = strict(checked)
    assert len(said) == 2
    for field, key in (
        ("spec.preRunningDeadlineSeconds", "preRunningDeadlineSeconds"),
        ("spec.rayClusterSpec.headServiceAnnotations", "headServiceAnnotations"),
    ):
        (message,) = [message for message in said if f'unknown field "{field}"' in message]
        place, line, _ = message.split(":", 2)
        assert place == "infra.yaml"
        assert key in lines[int(line) - 1] or key in lines[int(line) - 2], message
        assert "its KubeRay is older than the field" in message


def test_run_refuses_with_the_same_words_before_anything_exists(old_cluster: Cluster) -> None:
    asked = project(old_cluster, launch={"preRunningDeadlineSeconds": 600})
    for more in ("", "--dry-run=server"):
        done = asked.run(f"run recipe.yaml --infra infra.yaml -n default {more}")
        assert done.exit == 3, done
        assert 'unknown field "spec.preRunningDeadlineSeconds"' in done.err
        assert "infra.yaml:" in done.err
    assert old_cluster.kubectl("-n", "default", "get", "rayjobs", "-o", "name") == ""


def test_without_deletion_rules_the_cluster_goes_as_one_and_is_said_to(old_cluster: Cluster) -> None:
    done = project(old_cluster).run(f"{CHECK} -o json").ok()
    data = done.result("check")
    assert (data["lifetime"]["form"], data["lifetime"]["headKept"]) == ("shutdown", False)
    (kuberay,) = [c for c in data["onCluster"]["checks"] if c["topic"] == "kuberay"]
    assert kuberay["ok"] is True
    assert "older than 1.4" in kuberay["detail"] and "the cluster goes as one" in kuberay["detail"]
    kept = project(old_cluster).run("run recipe.yaml --infra infra.yaml -n default --dry-run=server --ttl 600").ok()
    assert "--ttl 600 cannot keep the head: this KubeRay has no deletion rules" in kept.err
