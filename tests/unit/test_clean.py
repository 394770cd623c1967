"""`kubectl nrl clean` on a cluster in memory: whose objects it takes unasked, in what order, and what it never takes."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from fake_cluster import FakeCluster

from kubectl_nrl.errors import ClusterError
from kubectl_nrl.testing import USER, Outcome, Project

NOW = datetime(2026, 11, 30, 15, tzinfo=timezone.utc)  # objects are of 12:00
DOMAINS = {"resource.k8s.io": ("v1",), "resource.nvidia.com": ("v1beta1",)}


class Yard:
    """A Project whose cluster holds what a test puts there; pods go with their Ray cluster."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster = FakeCluster(now=NOW, groups={"ray.io": ("v1",), **DOMAINS})
        self.project = Project()
        monkeypatch.setattr("kubectl_nrl.cluster.Cluster.connect", lambda **words: self.cluster)
        monkeypatch.setattr("kubectl_nrl.commands.clean_cluster.GONE", 0.0)

    def put(
        self, kind: str, name: str, *, owner: str = USER, run: str = "", refs: Any = (), **more: Any
    ) -> dict[str, Any]:
        labels = {"kubectl-nrl/managed": "true", "kubectl-nrl/run": run or name}
        labels |= {"kubectl-nrl/owner": owner} if owner else {}
        labels |= more.pop("labels", {})
        meta = {"name": name, "labels": labels, "ownerReferences": [dict(ref) for ref in refs], **more.pop("meta", {})}
        return self.cluster.put({"apiVersion": "v1", "kind": kind, "metadata": meta, **more})

    def stopped(self, name: str, *, owner: str = USER, state: str = "Complete", job: str = "STOPPED") -> None:
        """A run that is over and holds a Ray cluster with a pod of four GPUs."""
        status = {
            "jobDeploymentStatus": state,
            "jobStatus": job,
            "rayClusterName": f"{name}-c",
            "endTime": "2026-11-30T14:00:00Z",
        }
        rules = [{"policy": "DeleteCluster", "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 0}}]
        spec = {"deletionStrategy": {"deletionRules": rules}}
        made = self.put("RayJob", name, owner=owner, spec=spec, status=status)
        cluster = self.put("RayCluster", f"{name}-c", owner=owner, run=name, refs=[_ref(made)])
        pod = {"nodeName": "n0", "containers": [{"resources": {"limits": {"nvidia.com/gpu": "4"}}}]}
        labels = {"ray.io/cluster": f"{name}-c", "ray.io/node-type": "worker"}
        self.put("Pod", f"{name}-w0", owner=owner, run=name, refs=[_ref(cluster)], spec=pod, labels=labels)

    def pods_go(self, name: str) -> None:
        self.cluster.after["delete", "RayCluster"] = lambda: self.cluster.remove("Pod", f"{name}-w0")

    def clean(self, more: str = "", *, stdin: str = "") -> Outcome:
        return self.project.run(f"clean -n default {more}", stdin=stdin)

    def deleted(self) -> list[str]:
        return [f"{kind}/{name}" for verb, kind, name in self.cluster.calls if verb == "delete"]


def _ref(made: dict[str, Any]) -> dict[str, Any]:
    return {"kind": made["kind"], "name": made["metadata"]["name"], "uid": made["metadata"]["uid"]}


@pytest.fixture
def yard(monkeypatch: pytest.MonkeyPatch) -> Yard:
    return Yard(monkeypatch)


def test_my_idle_things_go_without_a_question_where_nobody_can_be_asked(yard: Yard) -> None:
    yard.stopped("a")
    yard.pods_go("a")
    yard.put("ComputeDomain", "d", run="never-made")
    done = yard.clean("-o json").ok()
    cluster = done.result("clean")["cluster"]
    assert [(left["kind"], left["removed"]) for left in cluster["leftovers"]] == [
        ("RayJob", True),
        ("ComputeDomain", True),
    ]
    assert cluster["leftovers"][0]["holds"] == {"pods": ["a-w0"], "gpus": 4}
    assert yard.deleted() == ["RayCluster/a-c", "ComputeDomain/d"]
    assert ("RayJob", "default", "a") in yard.cluster.objects, "the record stays"
    assert "rayjob/a" in done.err
    assert "4 GPUs, 1 pod" in done.err
    assert yard.clean("-o json").ok().result("clean")["cluster"]["leftovers"] == []


def test_a_dry_run_lists_and_takes_nothing(yard: Yard) -> None:
    yard.stopped("a")
    done = yard.clean("--dry-run").ok()
    assert done.out.splitlines()[1].split()[:2] == ["rayjob/a", "a"]
    assert yard.deleted() == []


def test_what_may_still_run_needs_a_yes_and_stays_without_one(yard: Yard) -> None:
    yard.stopped("busy", state="ValidationFailed", job="RUNNING")
    refused = yard.clean()
    assert refused.exit == 2
    assert "rayjob/busy may still run" in refused.err
    yard.put("ComputeDomain", "d", run="never-made")
    done = yard.clean().ok()
    assert yard.deleted() == ["ComputeDomain/d"]
    assert "rayjob/busy was left: it may still run\nhint: kubectl nrl clean rayjob/busy --yes -n default" in done.err
    yard.pods_go("busy")
    yard.clean("rayjob/busy --yes").ok()
    assert yard.deleted()[-1] == "RayCluster/busy-c"


def test_other_peoples_things_are_not_mine_to_clean_unless_named_and_forced(yard: Yard) -> None:
    yard.stopped("hers", owner="anna")
    yard.pods_go("hers")
    assert yard.clean("--yes").ok().out.startswith("nothing was left behind")
    refused = yard.clean("hers --yes")
    assert refused.exit == 2
    assert 'rayjob/hers belongs to "anna"' in refused.err
    assert "hint: kubectl nrl clean hers --force -n default" in refused.err
    asked = yard.clean("hers --force")
    assert asked.exit == 2, "forcing is no answer to the question"
    assert yard.deleted() == []
    yard.clean("hers --force --yes").ok()
    assert yard.deleted() == ["RayCluster/hers-c"]


def test_nobodys_things_are_named_and_asked_about(yard: Yard) -> None:
    yard.stopped("stray", owner="")
    yard.pods_go("stray")
    assert yard.clean("--yes").ok().out.startswith("nothing was left behind")
    assert yard.clean("stray").exit == 2
    yard.clean("stray --yes").ok()
    assert yard.deleted() == ["RayCluster/stray-c"]


def test_a_name_that_is_no_litter_says_what_it_is(yard: Yard) -> None:
    yard.put("RayJob", "live", status={"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"})
    done = yard.clean("live")
    assert done.exit == 2
    assert (
        "run live: Running, driver RUNNING; this stops and releases it: kubectl nrl job stop live -n default"
        in done.err
    )
    assert yard.clean("nobody").exit == 2


def test_what_came_to_life_between_looking_and_deleting_is_left_alone(yard: Yard) -> None:
    """Another terminal owns the child it just made, or submits the code that was waited for: the version says so."""
    yard.put("ConfigMap", "script", run="r")
    real = yard.cluster.delete

    def delete(api: str, kind: str, name: str, namespace: str, **words: Any) -> bool:
        if kind == "ConfigMap":
            made = yard.put("RayJob", "r", status={"jobDeploymentStatus": "Initializing"})
            yard.put("ConfigMap", "script", run="r", refs=[_ref(made)])
        return real(api, kind, name, namespace, **words)

    yard.cluster.delete = delete  # type: ignore[method-assign]
    done = yard.clean()
    assert done.exit == 1
    assert "configmap/script was left: it changed meanwhile, and is needed now" in done.err
    assert ("ConfigMap", "default", "script") in yard.cluster.objects


def test_what_only_changed_is_judged_again_and_goes(yard: Yard) -> None:
    yard.put("ConfigMap", "script", run="r")
    real, times = yard.cluster.delete, []

    def delete(api: str, kind: str, name: str, namespace: str, **words: Any) -> bool:
        if not times:
            times.append(1)
            yard.put("ConfigMap", "script", run="r", meta={"annotations": {"a": "b"}})
        return real(api, kind, name, namespace, **words)

    yard.cluster.delete = delete  # type: ignore[method-assign]
    yard.clean().ok()
    assert yard.cluster.objects == {}


def test_claims_are_waited_for_whatever_else_is_looked_at_meanwhile(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second claim changes and goes while it is deleted: the look that follows sees no claim at all."""
    monkeypatch.setattr("kubectl_nrl.commands.clean_cluster.GONE", 5.0)
    yard.cluster.groups["resource.k8s.io"] = ("v1",)
    for name in ("a", "b"):
        yard.put("ResourceClaim", name, run="r")
    real = yard.cluster.delete

    def delete(api: str, kind: str, name: str, namespace: str, **words: Any) -> bool:
        if name == "b":
            yard.cluster.remove("ResourceClaim", "b")
            raise ClusterError("it changed", status=409, reason="Conflict")
        return real(api, kind, name, namespace, **words)

    yard.cluster.delete = delete  # type: ignore[method-assign]
    done = yard.clean()
    assert done.exit == 1
    assert "resourceclaim/b was left: it changed meanwhile" in done.err
    assert yard.cluster.objects == {}


def test_pods_that_stay_keep_their_domain(yard: Yard) -> None:
    """Deleted under its pods a domain takes NVLink from them."""
    yard.stopped("a")
    yard.put("ComputeDomain", "d", run="a")
    done = yard.clean()
    assert done.exit == 1
    assert "computedomain/d was left: its pods are still there" in done.err
    assert ("ComputeDomain", "default", "d") in yard.cluster.objects


def test_a_refusal_for_one_leaves_the_others_to_go(yard: Yard) -> None:
    yard.put("ConfigMap", "a")
    yard.put("ComputeDomain", "b")
    yard.cluster.faults["delete", "ConfigMap"] = ClusterError("cannot delete configmaps: forbidden", status=403)
    done = yard.clean()
    assert done.exit == 1
    assert "configmap/a was left: cannot delete configmaps: forbidden" in done.err
    assert yard.deleted()[-1] == "ComputeDomain/b"


def test_what_is_stuck_is_named_with_its_finalizer_and_is_no_question(yard: Yard) -> None:
    meta = {"deletionTimestamp": "2026-11-30T14:00:00Z", "finalizers": ["example.com/hold"]}
    yard.put("ComputeDomain", "d", meta=meta)
    done = yard.clean().ok()
    assert (
        "computedomain/d cannot be cleaned: being deleted since 1h00m, held by finalizer example.com/hold" in done.err
    )
    assert "hint: kubectl get computedomain d -n default -o yaml" in done.err
    assert yard.deleted() == []


def test_on_a_terminal_there_is_one_question_for_all(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    yard.stopped("a")
    yard.pods_go("a")
    yard.put("ComputeDomain", "d", run="never-made")
    for module in ("connecting", "clean"):
        monkeypatch.setattr(f"kubectl_nrl.commands.{module}.can_ask", lambda: True)
    done = yard.clean(stdin="n\n")
    assert done.exit == 2
    assert done.err.count("[y/N]") == 1
    assert "release 1 run, delete 1 object? [y/N]" in done.err
    assert yard.deleted() == []
    yard.clean(stdin="y\n").ok()
    assert yard.deleted() == ["RayCluster/a-c", "ComputeDomain/d"]


@pytest.mark.parametrize("flags", ["--force", "--local -A", "--local x"])
def test_flags_that_contradict_each_other_are_refused(yard: Yard, flags: str) -> None:
    assert yard.project.run(f"clean {flags}").exit == 2
    assert yard.cluster.calls == []


def test_a_cluster_that_cannot_be_reached_is_an_error_and_this_machine_alone_is_not(yard: Yard) -> None:
    yard.cluster.faults["list", "RayJob"] = ClusterError("cannot reach the API server", reason="Unreachable")
    assert yard.clean().exit == 3
    assert yard.project.run("clean --local").ok().out == "nothing was left behind on this machine\n"


def test_nothing_found_where_not_all_may_be_seen_is_said_as_that(yard: Yard) -> None:
    yard.cluster.faults["list", "Pod"] = ClusterError("cannot list pods", status=403, reason="Forbidden")
    done = yard.clean().ok()
    assert done.out.endswith('nor by my runs in namespace "default", as far as may be seen\n')
    assert "Pods were not looked at: cannot list pods" in done.err


def test_an_empty_name_is_not_everything_without_a_run(yard: Yard) -> None:
    yard.put("ComputeDomain", "d", labels={"kubectl-nrl/run": "", "kubectl-nrl/cluster": "gone"})
    done = yard.clean("'' --yes")
    assert (done.exit, yard.deleted()) == (2, [])
    assert "an empty NAME names nothing" in done.err
