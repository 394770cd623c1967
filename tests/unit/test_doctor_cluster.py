"""The cluster half of `doctor`: what is served, whether the operator works, what I may, what my runs left; each with its fix."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest
import yaml
from fake_cluster import FakeCluster

from kubectl_nrl.commands import doctor, doctor_cluster, doctor_machine
from kubectl_nrl.commands.doctor_kuberay import batch_scheduler
from kubectl_nrl.errors import ClusterError
from kubectl_nrl.facts import OFFLINE
from kubectl_nrl.testing import USER, Project

FORBIDDEN = ClusterError("may not", status=403, reason="Forbidden")
MINE = {"kubectl-nrl/managed": "true", "kubectl-nrl/owner": USER, "kubectl-nrl/run": "r1"}
OLD = "2020-01-01T00:00:00Z"

#: Rules that do not match a job that was stopped.
RULES = {
    "deletionStrategy": {
        "deletionRules": [{"policy": "DeleteCluster", "condition": {"jobStatus": "FAILED", "ttlSeconds": 0}}]
    }
}


class Desk:
    """A doctor's desk: a cluster in memory, what it serves, and its findings."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster = FakeCluster(groups={"ray.io": ("v1",)})
        self.facts = replace(
            OFFLINE, source="cluster", kai=False, kueue=False, compute_domain_version=None, dra_version=None
        )
        self.project = Project()
        monkeypatch.setattr(doctor, "PATIENCE", 60)
        # Programs of this machine are started by another half of the tests.
        monkeypatch.setattr(doctor_machine, "ray", lambda *words: ())
        monkeypatch.setattr(doctor_cluster, "kubectl", lambda *words: ())
        monkeypatch.setattr("kubectl_nrl.cluster.Cluster.connect", lambda **words: self.cluster)
        monkeypatch.setattr("kubectl_nrl.facts.discover", lambda cluster: self.facts)

    def findings(self, name: str) -> list[dict[str, str]]:
        items = self.project.run("doctor -o json").result("doctor")["items"]
        return [item for item in items if item["name"] == name]

    def only(self, name: str) -> dict[str, str]:
        (found,) = self.findings(name)
        return found

    def put(self, kind: str, name: str, labels: Any = None, created: str = OLD, **fields: Any) -> dict[str, Any]:
        meta = {"name": name, "labels": labels or {}, "creationTimestamp": created, **fields.pop("metadata", {})}
        return self.cluster.put({"kind": kind, "metadata": meta, **fields})


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(monkeypatch)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "1.6 or newer"),
        ({"deletion_rules": False, "rayjob_fields": frozenset({"deletionStrategy"})}, "1.4 or 1.5"),
        ({"deletion_rules": False, "rayjob_fields": frozenset({"entrypoint"})}, "older than 1.4"),
        ({"deletion_rules": False}, "of unknown version"),
    ],
)
def test_the_age_of_kuberay_is_read_off_its_fields(desk: Desk, changes: dict[str, Any], words: str) -> None:
    desk.facts = replace(desk.facts, **changes)
    found = desk.only("kuberay")
    assert found["status"] == "ok"
    assert words in found["message"]


def test_only_an_alpha_of_kuberay_is_no_kuberay(desk: Desk) -> None:
    desk.facts, desk.cluster.groups = replace(desk.facts, kuberay=False), {"ray.io": ("v1alpha1",)}
    found = desk.only("kuberay")
    assert found["status"] == "failed"
    assert "it serves ray.io/v1alpha1 alone" in found["message"]
    assert found["fix"].startswith("helm install")
    assert desk.findings("operator") == []


def operator(image: str = "quay.io/kuberay/operator:v1.6.2", ready: int = 1, args: Any = ()) -> dict[str, Any]:
    spec = {"template": {"spec": {"containers": [{"image": image, "args": list(args)}]}}}
    return {"spec": spec, "status": {"readyReplicas": ready}, "labels": {"app.kubernetes.io/name": "kuberay-operator"}}


@pytest.mark.parametrize(
    ("deployment", "status", "words"),
    [
        (operator(), "ok", "runs quay.io/kuberay/operator:v1.6.2"),
        (operator(args=["--batch-scheduler=kai-scheduler"]), "ok", "batch scheduler kai-scheduler"),
        (operator(ready=0), "failed", "has no ready pod"),
        (
            operator("k/operator:v1.5.1", args=["--batch-scheduler=kai-scheduler"]),
            "failed",
            "every RayJob stays Initializing",
        ),
        (operator("k/operator:nightly", args=["--batch-scheduler=kai-scheduler"]), "ok", "kai-scheduler"),
    ],
)
def test_an_operator_that_can_be_seen(desk: Desk, deployment: dict[str, Any], status: str, words: str) -> None:
    desk.put("Deployment", "kuberay-operator", **deployment)
    found = desk.only("operator")
    assert (found["status"], words in found["message"]) == (status, True), found
    assert bool(found["fix"]) is (status == "failed")


def test_an_operator_that_may_not_be_seen_is_known_by_what_it_never_touched(desk: Desk) -> None:
    desk.cluster.faults["list", "Deployment"] = FORBIDDEN
    assert desk.only("operator")["status"] == "note"
    desk.put("RayJob", "waiting", created="2999-01-01T00:00:00Z")
    desk.put("RayJob", "queued", spec={"suspend": True})
    desk.put("RayJob", "kueues", spec={"managedBy": "kueue.x-k8s.io/multikueue"})
    desk.put("RayCluster", "done", status={"state": "ready"})
    assert desk.only("operator")["status"] == "note"
    desk.put("RayJob", "stuck")
    found = desk.only("operator")
    assert found["status"] == "failed"
    assert found["message"].startswith("rayjob/stuck was never touched")


@pytest.mark.parametrize(
    ("words", "scheduler"),
    [
        (["--batch-scheduler=volcano"], "volcano"),
        (["--enable-batch-scheduler"], "volcano"),
        (["-enable-batch-scheduler=false"], ""),
        (["--metrics-addr=:8080"], ""),
    ],
)
def test_the_operators_own_scheduler_is_read_off_its_arguments(words: list[str], scheduler: str) -> None:
    assert batch_scheduler([{"command": ["/manager"], "args": words}]) == scheduler


def test_schedulers_and_dra_are_named(desk: Desk) -> None:
    assert "the default one only" in desk.only("schedulers")["message"]
    assert desk.only("dra")["status"] == "note"
    desk.facts = replace(OFFLINE, kai_version=(0, 13), kueue_version=None)
    desk.put("DeviceClass", "gpu.nvidia.com")
    said, old = desk.findings("schedulers")
    assert said["message"] == "KAI 0.13, Kueue (version not known)"
    assert (old["status"], "0.14" in old["message"]) == ("warning", True)
    assert "device classes: gpu.nvidia.com" in desk.only("dra")["message"]
    desk.cluster.faults["list", "DeviceClass"] = FORBIDDEN
    assert "may not be listed" in desk.only("dra")["message"]


def test_missing_permissions_are_named_together_with_the_role_to_ask_for(desk: Desk) -> None:
    assert desk.only("permissions")["status"] == "ok"
    desk.cluster.denied = {("create", "rayjobs"), ("list", "events"), ("create", "pods/portforward")}
    failed, note = desk.findings("permissions")
    assert failed["status"] == "failed"
    assert "you may not create rayjobs.ray.io; create pods/portforward" in failed["message"]
    assert "list events" in note["message"]
    assert failed["fix"].startswith("kubectl nrl doctor --rbac -n default")


def hold_gpus(desk: Desk, job_status: str, spec: Any) -> None:
    """A run that is over and has a Ray cluster with a pod of four GPUs."""
    status = {"jobDeploymentStatus": "Complete", "jobStatus": job_status, "rayClusterName": "c1", "endTime": OLD}
    job = desk.put("RayJob", "t", MINE, status=status, spec=spec)
    owner = {"ownerReferences": [{"kind": "RayJob", "name": "t", "uid": job["metadata"]["uid"]}]}
    desk.put("RayCluster", "c1", MINE, metadata=owner)
    pod = {"nodeName": "n0", "containers": [{"resources": {"limits": {"nvidia.com/gpu": 4}}}]}
    desk.put("Pod", "p", {"ray.io/cluster": "c1"}, spec=pod)


def test_a_run_that_is_over_and_holds_gpus_is_named_with_what_releases_it(desk: Desk) -> None:
    assert desk.only("runs")["status"] == "ok"
    hold_gpus(desk, "STOPPED", RULES)
    found = desk.only("runs")
    assert found["message"] == "run r1 is over (STOPPED) and still holds 4 GPUs"
    assert (found["status"], found["fix"]) == ("failed", "kubectl nrl clean -n default")
    assert desk.only("orphans")["status"] == "ok"


def test_where_pods_may_not_be_listed_no_run_is_said_to_hold_nothing(desk: Desk) -> None:
    hold_gpus(desk, "STOPPED", RULES)
    desk.cluster.faults["list", "Pod"] = FORBIDDEN
    found = desk.only("runs")
    assert (found["status"], "is not known: pods may not be listed" in found["message"]) == ("note", True)


def test_gpus_that_a_run_was_told_to_hold_are_no_failure(desk: Desk) -> None:
    hold_gpus(desk, "SUCCEEDED", {"shutdownAfterJobFinishes": False})
    found = desk.only("runs")
    assert (found["status"], found["fix"]) == ("note", "kubectl nrl job stop r1 -n default")


def test_what_a_killed_call_left_is_named_and_nothing_else(desk: Desk) -> None:
    desk.cluster.groups |= {"resource.k8s.io": ("v1",), "resource.nvidia.com": ("v1beta1",)}
    alive = {**MINE, "kubectl-nrl/run": "r2"}
    job = desk.put("RayJob", "alive", alive, status={"jobDeploymentStatus": "Running"})
    owner = {"ownerReferences": [{"kind": "RayJob", "name": "alive", "uid": job["metadata"]["uid"]}]}
    desk.put("ConfigMap", "of-r2", alive, metadata=owner)
    desk.put("ConfigMap", "others", {**MINE, "kubectl-nrl/owner": "somebody"})
    assert desk.only("orphans")["status"] == "ok"
    desk.put("ComputeDomain", "left", MINE)
    found = desk.only("orphans")
    assert (found["status"], found["fix"]) == ("warning", "kubectl nrl clean -n default")
    assert found["message"].startswith("computedomain/left: ")
    desk.cluster.faults["list", "ComputeDomain"] = FORBIDDEN
    assert desk.only("orphans")["message"] == "may not be listed: ComputeDomain"


def test_a_refusal_is_a_note_of_that_check_alone(desk: Desk) -> None:
    desk.cluster.faults["list", "RayJob"] = FORBIDDEN
    assert {desk.only(name)["status"] for name in ("runs", "orphans")} == {"note"}
    assert desk.only("permissions")["status"] == "ok"


def test_a_cluster_that_lets_me_see_nothing_is_a_failure_said_once(desk: Desk) -> None:
    def refused() -> Any:
        raise ClusterError('cannot list the API groups: forbidden: User "system:anonymous"', status=403)

    desk.cluster.served = refused  # type: ignore[method-assign]
    outcome = desk.project.run("doctor -o json")
    items = {item["name"]: item for item in outcome.result("doctor")["items"]}
    assert (outcome.exit, items["cluster"]["status"], items["cluster"]["fix"]) == (1, "failed", "kubectl auth whoami")
    assert not {"kuberay", "permissions", "runs"} & set(items)


def test_nothing_is_said_of_a_cluster_that_is_late_itself(monkeypatch: pytest.MonkeyPatch, desk: Desk) -> None:
    monkeypatch.setattr(doctor, "PATIENCE", 1)
    never = threading.Event()
    desk.cluster.server_version = never.wait  # type: ignore[method-assign,assignment]
    items = desk.project.run("doctor -o json").result("doctor")["items"]
    names = [item["name"] for item in items]
    never.set()
    assert "cluster" in names
    assert not {"kuberay", "operator", "permissions"} & set(names)


def test_the_least_role_is_a_manifest_for_what_the_cluster_serves(desk: Desk) -> None:
    text = desk.project.run("doctor --rbac -n rl").ok().out
    role = yaml.safe_load(text)
    assert (role["kind"], role["metadata"]) == ("Role", {"name": "kubectl-nrl", "namespace": "rl"})
    assert "kubectl create rolebinding kubectl-nrl --role=kubectl-nrl -n rl" in text
    assert {group for rule in role["rules"] for group in rule["apiGroups"]} == {"ray.io", ""}
    desk.facts = OFFLINE
    more = desk.project.run("doctor --rbac -n rl -o json").ok().result("doctor_rbac")
    groups = {group for rule in more["rules"] for group in rule["apiGroups"]}
    assert groups == {"ray.io", "", "resource.k8s.io", "resource.nvidia.com", "scheduling.run.ai", "kueue.x-k8s.io"}
    assert not any("*" in word for rule in more["rules"] for words in rule.values() for word in words)


def test_the_least_role_needs_no_cluster(monkeypatch: pytest.MonkeyPatch, desk: Desk) -> None:
    def nothing(**words: Any) -> Any:
        raise ClusterError("no Kubernetes configuration")

    monkeypatch.setattr("kubectl_nrl.cluster.Cluster.connect", nothing)
    done = desk.project.run("doctor --rbac").ok()
    assert "no Kubernetes configuration" in done.err
    assert yaml.safe_load(done.out)["metadata"]["namespace"] == "default"
