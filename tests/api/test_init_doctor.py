"""`init` and `doctor` against a real API server: what it has is written down, what may not be read is skipped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.fixtures import Cluster
from waiting import PATIENCE

from kubectl_nrl.commands import doctor, init
from kubectl_nrl.testing import Project

pytestmark = pytest.mark.api


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init, "PATIENCE", PATIENCE)
    monkeypatch.setattr(doctor, "PATIENCE", PATIENCE)


@pytest.fixture
def rack(api_cluster: Cluster, api_namespace: str) -> Iterator[str]:
    """A namespace with a claim that many pods can mount, a node of GB300 and a queue of KAI's, named after it."""
    name = api_namespace
    objects = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": "NVIDIA-GB300"}},
            "spec": {"unschedulable": True},
        },
        {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": {}},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "shared", "namespace": name},
            "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
        },
    ]
    api_cluster.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    status = json.dumps({"status": {"allocatable": {"nvidia.com/gpu": "4"}, "capacity": {"nvidia.com/gpu": "4"}}})
    api_cluster.kubectl("patch", "node", name, "--subresource=status", "--type=merge", f"--patch={status}")
    yield name
    api_cluster.kubectl("delete", f"node/{name}", f"queue.scheduling.run.ai/{name}")


def written(kubeconfig: Path, namespace: str, *words: str) -> tuple[Project, dict[str, str | None]]:
    project = Project(env={"KUBECONFIG": str(kubeconfig)})
    data = project.run(["init", "-o", "json", "-n", namespace, *words]).ok().result("init")
    project.run("check grpo.yaml --infra grpo.infra.yaml").ok()
    return project, data


def test_init_writes_down_what_the_cluster_has(api_cluster: Cluster, rack: str) -> None:
    project, data = written(api_cluster.kubeconfig, rack, "--queue", rack)
    assert (data["profile"], data["scheduler"], data["queue"]) == ("gb300", "kai", rack)
    assert data["workspace"] == "shared"
    assert f"namespace: {rack}" in project.read("grpo.infra.yaml")


def test_init_skips_what_may_not_be_read(api_cluster: Cluster, rack: str) -> None:
    rules = [{"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["list"]}]
    _, data = written(api_cluster.user(rack, rules, "claims"), rack)
    assert (data["profile"], data["scheduler"], data["workspace"]) == ("generic", "default", "shared")
    _, nothing = written(api_cluster.user(rack, [], "nothing"), rack)
    assert (nothing["profile"], nothing["workspace"]) == ("generic", None)


def test_doctor_reaches_the_server_and_sees_kuberay(api_cluster: Cluster, api_namespace: str) -> None:
    for kubeconfig in (api_cluster.kubeconfig, api_cluster.user(api_namespace, [], "nobody")):
        outcome = Project(env={"KUBECONFIG": str(kubeconfig)}).run("doctor -o json")
        items = {item["name"]: item for item in outcome.result("doctor")["items"]}
        assert {items[name]["status"] for name in ("kubeconfig", "cluster", "kuberay")} == {"ok"}, outcome
        assert "Kubernetes v1." in items["cluster"]["message"]


def test_doctor_names_credentials_that_are_not_accepted(api_cluster: Cluster, api_namespace: str) -> None:
    limited = api_cluster.user(api_namespace, [], "gone")
    config = json.loads(limited.read_text())
    config["users"][0]["user"] = {"token": "wr0ng-token"}
    project = Project()
    project.write("kubeconfig", config)
    outcome = project.run("doctor -o json --kubeconfig kubeconfig")
    (item,) = (item for item in outcome.result("doctor")["items"] if item["name"] == "cluster")
    assert item["status"] == "failed"
    assert "(401)" in item["message"]
    assert "wr0ng-token" not in outcome.out
