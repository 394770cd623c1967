"""`check --cluster` and `run --require-capacity` on a cluster in memory: one screen, exit codes, what blocks and what does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fake_cluster import FakeCluster
from run_files import files

from kubectl_nrl.errors import ClusterError
from kubectl_nrl.facts import OFFLINE
from kubectl_nrl.testing import Outcome, Project

FORBIDDEN = ClusterError("you may not list nodes", status=403, reason="Forbidden")
CHECK = "check recipe.yaml --infra infra.yaml --cluster -n default"
RUN = "run recipe.yaml --infra infra.yaml -n default"


class Site:
    """A Project and the cluster it asks; one node has room for the run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster = FakeCluster(groups={"ray.io": ("v1",)})
        self.facts = replace(OFFLINE, source="cluster")
        self.project = Project(files())
        self.node()
        monkeypatch.setattr("kubectl_nrl.cluster.Cluster.connect", lambda **words: self.cluster)
        monkeypatch.setattr("kubectl_nrl.facts.discover", lambda cluster: self.facts)

    def node(self, **allocatable: str) -> None:
        room = {"cpu": "8", "memory": "32Gi", "pods": "110", **allocatable}
        self.cluster.put({"kind": "Node", "metadata": {"name": "n"}, "spec": {}, "status": {"allocatable": room}})

    def infra(self, **pod: Any) -> None:
        """Add to the workers' pod spec."""
        found = files()["infra.yaml"]
        found["kuberay"]["training"]["spec"]["workerGroupSpecs"][0]["template"]["spec"] |= pod
        self.project.write("infra.yaml", found)

    def check(self, more: str = "") -> Outcome:
        return self.project.run(f"{CHECK} {more}")

    def data(self, more: str = "") -> dict[str, Any]:
        outcome = self.check(f"-o json {more}")
        found = outcome.result("check")["onCluster"]
        assert outcome.exit == (1 if found["failed"] else 0), outcome
        return found  # type: ignore[no-any-return]

    def created(self) -> list[str]:
        return [kind for verb, kind, _ in self.cluster.calls if verb == "create"]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(monkeypatch)


def test_what_is_right_costs_a_line_for_each_topic_below_the_offline_screen(site: Site) -> None:
    done = site.check().ok()
    screen, cluster = done.out.split("\non the cluster https://fake (context fake):\n")
    assert screen.startswith("RayJob ")
    assert "made for this cluster" in screen
    lines = cluster.splitlines()
    assert [line.split()[1] for line in lines[:-1]] == ["kuberay", "namespace", "permissions", "api", "capacity"]
    assert all(line.startswith("  ok ") for line in lines[:-1])
    assert lines[-1] == "nothing is missing"
    assert site.created() == []


def test_a_failure_says_its_place_and_its_fix_and_ends_with_1(site: Site) -> None:
    site.infra(imagePullSecrets=[{"name": "reg"}], serviceAccountName="trainer")
    done = site.check()
    assert done.exit == 1
    assert 'ServiceAccount "trainer" (infra.yaml:' in done.out
    assert "fix: kubectl create serviceaccount trainer -n default" in done.out
    assert done.out.rstrip().endswith("2 failed")
    found = {check["title"].partition(" (")[0]: check for check in site.data()["checks"]}
    assert (found['ServiceAccount "trainer"']["ok"], found['ServiceAccount "trainer"']["blocks"]) == (False, True)
    assert (found['Secret "reg"']["ok"], found['Secret "reg"']["blocks"]) == (False, False)


def test_only_what_pods_cannot_start_without_blocks_a_run(site: Site) -> None:
    site.infra(imagePullSecrets=[{"name": "reg"}])
    done = site.project.run(f"{RUN} --no-wait").ok()
    assert 'warning: Secret "reg"' in done.err
    assert "hint: kubectl create secret docker-registry reg" in done.err
    assert site.created() == ["RayJob"]


def test_what_may_not_be_seen_neither_blocks_a_run_nor_is_said_at_every_one(site: Site) -> None:
    site.infra(serviceAccountName="trainer")
    for kind in ("ServiceAccount", "Namespace"):
        site.cluster.faults["get", kind] = ClusterError("may not", status=403, reason="Forbidden")
    for kind in ("ResourceQuota", "LimitRange"):
        site.cluster.faults["list", kind] = ClusterError("may not", status=403, reason="Forbidden")
    done = site.project.run(f"{RUN} --no-wait").ok()
    assert "may not" not in done.err
    found = {c["topic"]: c["ok"] for c in site.data()["checks"]}
    assert (found["service accounts"], found["quota"]) == (None, None)


def test_a_namespace_that_is_absent_is_the_one_thing_that_is_said(site: Site) -> None:
    site.infra(serviceAccountName="trainer")
    site.cluster.no_namespaces = {"default"}
    found = site.data()
    assert [c["topic"] for c in found["checks"] if not c["ok"]] == ["namespace"]
    assert {c["topic"] for c in found["checks"]} == {"kuberay", "namespace"}


def test_a_cluster_without_kuberay_fails_and_is_asked_nothing_else(site: Site) -> None:
    site.facts, site.cluster.groups = replace(site.facts, kuberay=False), {"ray.io": ("v1alpha1",)}
    found = site.data()
    assert [(c["topic"], c["ok"]) for c in found["checks"]] == [("kuberay", False)]
    assert "v1alpha1" in found["checks"][0]["detail"]
    assert found["checks"][0]["fix"].startswith("helm install kuberay-operator")


def test_a_raycluster_of_the_rayjobs_name_blocks(site: Site) -> None:
    site.cluster.put({"kind": "RayCluster", "metadata": {"name": "mine"}})
    done = site.project.run(f"{RUN} --rayjob-name mine")
    assert done.exit == 3
    assert "the head Service mine-head-svc would be taken from it" in done.err
    assert "--rayjob-name OTHER" in done.err
    assert site.created() == []


def test_the_same_holds_for_a_long_lived_cluster(site: Site) -> None:
    site.cluster.put({"kind": "RayJob", "metadata": {"name": "t"}})
    found = [c for c in site.data("--raycluster")["checks"] if c["ok"] is False]
    assert [c["topic"] for c in found] == ["name"]
    assert "kubectl delete rayjob t -n default" in found[0]["fix"]


def test_what_the_api_server_refuses_strictly_names_the_line(site: Site) -> None:
    site.infra(priorityClassName="system-node-critical")
    said = 'strict decoding error: unknown field "spec.priorityClassName"'
    site.cluster.faults["dry-run", "Pod"] = ClusterError(said, status=400, reason="BadRequest")
    found = [c for c in site.data()["checks"] if c["ok"] is False]
    assert {c["topic"] for c in found} == {"api server"}
    assert any(
        c["detail"].startswith("infra.yaml:") and 'unknown field "spec.priorityClassName"' in c["detail"] for c in found
    )


def test_two_roles_need_to_write_the_configmaps_by_which_they_find_one_another(site: Site) -> None:
    infra = files()["infra.yaml"]
    training = infra["kuberay"]["training"]
    infra["kuberay"]["generation"] = {"name": "gen", "spec": training["spec"]}
    infra["launch"]["env"] = {"DISAGG_JOB_ID": "qwen-gym"}
    site.project.write("infra.yaml", infra)
    site.cluster.accounts = {"default": {"get"}}
    found = [c for c in site.data("--raycluster")["checks"] if c["topic"] == "endpoints"]
    assert "may not create, update, patch, delete configmaps" in found[0]["detail"]
    assert found[0]["fix"].startswith("kubectl create role nemo-rl-endpoints -n default --resource=configmaps")
    assert "--serviceaccount=default:default" in found[0]["fix"]
    assert found[0]["blocks"] is False
    site.cluster.accounts = None
    (hidden,) = [c for c in site.data("--raycluster")["checks"] if c["topic"] == "endpoints"]
    assert hidden["ok"] is None and hidden["fix"]
    site.cluster.accounts = {"default": {"get", "create", "update", "patch", "delete"}}
    (right,) = [c for c in site.data("--raycluster")["checks"] if c["topic"] == "endpoints"]
    assert right["ok"] is True


def test_a_cluster_that_does_not_answer_is_an_error_and_wrong_files_are_said_first(site: Site) -> None:
    site.cluster.faults["get", "Namespace"] = ClusterError("connection refused")
    assert site.check().exit == 3
    site.project.write("infra.yaml", {**files()["infra.yaml"], "imgae": "x"})
    assert site.check().exit == 2


def test_this_machine_has_no_cluster_to_ask(site: Site) -> None:
    done = site.check("--local")
    assert done.exit == 2
    assert "leave out --cluster" in done.err


def test_capacity_is_shown_and_no_room_now_is_no_failure(site: Site) -> None:
    assert site.data()["capacity"]["fits"] is True
    site.node(cpu="100m")
    found = site.data()
    assert (found["failed"], found["capacity"]["fits"]) == (0, False)
    assert "no room for the " in found["capacity"]["detail"]
    site.cluster.faults["list", "Node"] = FORBIDDEN
    assert site.data()["capacity"] == {
        "needed": 0, "free": None, "total": None, "fits": None, "detail": "you may not list nodes: forbidden"
    }  # fmt: skip


@pytest.mark.parametrize("dry", ["", "--dry-run=server"])
def test_require_capacity_refuses_before_anything_exists(site: Site, dry: str) -> None:
    site.node(cpu="100m")
    done = site.project.run(f"{RUN} --require-capacity {dry}")
    assert done.exit == 3
    assert "cannot start now" in done.err and "nothing was created" in done.err
    site.cluster.faults["list", "Node"] = FORBIDDEN
    unknown = site.project.run(f"{RUN} --require-capacity {dry}")
    assert unknown.exit == 3
    assert "what is free is not known: you may not list nodes: forbidden" in unknown.err
    assert site.created() == []


def test_require_capacity_lets_a_run_go_that_fits_and_others_do_not_ask(site: Site) -> None:
    site.project.run(f"{RUN} --require-capacity --no-wait").ok()
    asked = ("list", "Node", "") in site.cluster.calls
    site.cluster.calls.clear()
    site.project.run(f"{RUN} --no-wait --rayjob-name other --run-id second").ok()
    assert (asked, ("list", "Node", "") in site.cluster.calls) == (True, False)


@pytest.mark.parametrize("other", ["--dry-run", "--local"])
def test_require_capacity_is_refused_where_no_cluster_is_asked(site: Site, other: str) -> None:
    done = site.project.run(f"{RUN} --require-capacity {other}")
    assert done.exit == 2
    assert site.cluster.calls == []
