"""`check --cluster` against a real API server: its own reviews, its own admission, and fixes that are carried out as printed."""

from __future__ import annotations

import copy
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from cluster.fault_proxy import FaultProxy
from cluster.fixtures import Cluster
from run_files import files
from waiting import wait_until

from kubectl_nrl.testing import Outcome, Project

pytestmark = pytest.mark.api

EVERYTHING = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
RAY = {"apiGroups": ["ray.io"], "resources": ["rayjobs"], "verbs": ["get", "list", "watch", "create"]}


class Asker:
    """A Project that asks one namespace, and the administrator's hand."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.files: dict[str, Any] = copy.deepcopy(files())

    @property
    def pod(self) -> dict[str, Any]:
        found: dict[str, Any] = self.files["infra.yaml"]["kuberay"]["training"]["spec"]["workerGroupSpecs"][0]
        return found["template"]["spec"]  # type: ignore[no-any-return]

    def run(self, line: str, kubeconfig: Path | None = None) -> Outcome:
        project = Project(self.files, env={"KUBECONFIG": str(kubeconfig or self.cluster.kubeconfig)})
        return project.run(f"{line} recipe.yaml --infra infra.yaml -n {self.namespace}")

    def checks(self, topic: str, more: str = "", kubeconfig: Path | None = None) -> list[dict[str, Any]]:
        found = self.run(f"check --cluster -o json {more}", kubeconfig).result("check")["onCluster"]["checks"]
        return [check for check in found if check["topic"] == topic]

    def carry_out(self, fix: str) -> None:
        """Do what a fix says; its words are kubectl's."""
        for command in fix.split(" && "):
            words = shlex.split(command, comments=True)
            assert words[0] == "kubectl"
            self.cluster.kubectl(*words[1:])


@pytest.fixture
def asker(api_cluster: Cluster, api_namespace: str) -> Asker:
    return Asker(api_cluster, api_namespace)


def test_the_reviews_of_the_server_say_what_is_missing(asker: Asker) -> None:
    limited = asker.cluster.user(asker.namespace, [RAY], "limited")
    found = asker.checks("permissions", kubeconfig=limited)
    granted = {check["title"] for check in found if check["ok"]}
    assert {title.split(" in ")[0] for title in granted} == {
        f"permission to {verb} rayjobs.ray.io" for verb in RAY["verbs"]
    }
    nobody = asker.cluster.user(asker.namespace, [], "nobody")
    done = asker.run("run", nobody)
    assert done.exit == 3
    assert 'permission to create rayjobs.ray.io in namespace "' in done.err
    assert f"kubectl nrl doctor --rbac -n {asker.namespace}" in done.err


def test_what_may_not_be_read_is_a_note_and_fails_nothing(asker: Asker) -> None:
    asker.pod["serviceAccountName"] = "default"
    asker.pod["containers"][0]["envFrom"] = [{"secretRef": {"name": "tokens"}}]
    limited = asker.cluster.user(asker.namespace, [RAY], "limited")
    done = asker.run("check --cluster -o json", limited)
    found = done.result("check")["onCluster"]
    assert (done.exit, found["failed"]) == (0, 0), done
    assert {c["topic"] for c in found["checks"] if c["ok"] is None} >= {
        "namespace",
        "secrets",
        "service accounts",
        "quota",
    }
    assert found["capacity"]["fits"] is None and "nodes" in found["capacity"]["detail"]


def test_a_missing_key_is_found_and_no_value_travels_where_no_key_is_asked_for(asker: Asker) -> None:
    asker.cluster.kubectl("-n", asker.namespace, "create", "secret", "generic", "tokens", "--from-literal=OTHER=v4lue")
    asker.pod["containers"][0]["envFrom"] = [{"secretRef": {"name": "tokens"}}]
    with FaultProxy(asker.cluster.kubeconfig) as proxy:
        assert [c["ok"] for c in asker.checks("secrets", kubeconfig=proxy.kubeconfig)] == [True]
        [seen] = [r for r in proxy.seen if "/secrets/tokens" in r.target]
    assert seen.status == 200
    entry = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "tokens", "key": "HF_TOKEN"}}}
    asker.pod["containers"][0]["env"] = [entry]
    done = asker.run("check --cluster")
    assert done.exit == 1
    assert 'has no key "HF_TOKEN" (its keys: OTHER)' in done.out
    assert "v4lue" not in done.out + done.err
    assert "djRsdWU" not in done.out + done.err


def test_the_servers_metadata_of_a_secret_holds_no_value(asker: Asker) -> None:
    from kubectl_nrl.cluster import Cluster as Client

    asker.cluster.kubectl("-n", asker.namespace, "create", "secret", "generic", "tokens", "--from-literal=k=v4lue")
    with Client.connect(kubeconfig=str(asker.cluster.kubeconfig)) as client:
        found = client.metadata("v1", "Secret", "tokens", asker.namespace)
        assert client.metadata("v1", "Secret", "absent", asker.namespace) is None
    assert found is not None
    assert found["metadata"]["name"] == "tokens"
    assert "data" not in found


def test_a_service_account_and_a_secret_are_made_as_the_fix_says(asker: Asker, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("HF_TOKEN=x\n")
    asker.pod["serviceAccountName"] = "trainer"
    entry = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "tokens", "key": "HF_TOKEN"}}}
    asker.pod["containers"][0]["env"] = [entry]
    for topic in ("service accounts", "secrets"):
        (failed,) = asker.checks(topic)
        assert failed["ok"] is False
        asker.carry_out(failed["fix"].replace("=FILE", f"={token}"))
        (right,) = asker.checks(topic)
        assert right["ok"] is True


def test_a_quota_that_can_never_admit_the_run_fails(asker: Asker) -> None:
    spec = {"hard": {"requests.memory": "1Gi", "pods": "10"}}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}, "spec": spec}
    asker.cluster.kubectl("-n", asker.namespace, "create", "-f", "-", stdin=json.dumps(quota))
    (found,) = asker.checks("quota")
    assert found["ok"] is False
    assert "the run needs 2Gi memory, the quota allows 1Gi" in found["detail"]


def test_pods_of_several_roles_get_the_permission_that_the_fix_grants(asker: Asker) -> None:
    kuberay = asker.files["infra.yaml"]["kuberay"]
    kuberay["generation"] = {"name": "gen", "spec": kuberay["training"]["spec"]}
    asker.files["infra.yaml"]["launch"]["env"] = {"DISAGG_JOB_ID": "qwen-gym"}
    (failed,) = asker.checks("endpoints", "--raycluster")
    assert (failed["ok"], failed["blocks"]) == (False, False)
    asker.carry_out(failed["fix"])
    # The API server learns of a new Role and its binding by watches of its own.
    wait_until(lambda: asker.checks("endpoints", "--raycluster")[0]["ok"], "the permission")
    limited = asker.cluster.user(asker.namespace, EVERYTHING, "in-one-namespace")
    (hidden,) = asker.checks("endpoints", "--raycluster", limited)
    assert hidden["ok"] is None
    assert "kubectl create role nemo-rl-endpoints" in hidden["fix"]


def test_nothing_is_left_on_the_cluster_by_asking(asker: Asker) -> None:
    asker.run("check --cluster")
    left = asker.cluster.kubectl("-n", asker.namespace, "get", "rayjobs,rayclusters,pods,secrets", "-o", "name")
    assert left == ""
