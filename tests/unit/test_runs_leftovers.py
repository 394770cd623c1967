"""What counts as litter: never a live run, what was told to stay, or what another terminal may be making just now."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from fake_cluster import FakeCluster

from kubectl_nrl.api import User
from kubectl_nrl.errors import ClusterError
from kubectl_nrl.runs import Leftover, Survey, leftovers, survey

NOW = datetime(2026, 11, 30, 12, tzinfo=timezone.utc)
ME = User("jo", "jo")

ENDS = ({"jobStatus": "SUCCEEDED"}, {"jobStatus": "FAILED"}, {"jobDeploymentStatus": "Failed"})


def ago(**words: float) -> str:
    return f"{NOW - timedelta(**words):%Y-%m-%dT%H:%M:%SZ}"


def rules(head: int = 3600, record: int = 604800) -> list[dict[str, Any]]:
    policies = (("DeleteWorkers", 0), ("DeleteCluster", head), ("DeleteSelf", record))
    return [{"policy": p, "condition": {**end, "ttlSeconds": s}} for p, s in policies for end in ENDS]


def thing(kind: str, name: str, *, made: str = "", owner: str = "jo", run: str = "r", **more: Any) -> dict[str, Any]:
    labels = {"kubectl-nrl/managed": "true", "kubectl-nrl/owner": owner, "kubectl-nrl/run": run}
    meta = {
        "name": name, "namespace": "rl", "uid": f"uid-{name}", "resourceVersion": "1",
        "creationTimestamp": made or ago(hours=3), "labels": labels,
    }  # fmt: skip
    meta |= more.pop("metadata", {})
    return {"apiVersion": "v1", "kind": kind, "metadata": meta, **more}


def owned(*owners: tuple[str, str]) -> dict[str, Any]:
    return {
        "metadata": {"ownerReferences": [{"kind": kind, "name": name, "uid": f"uid-{name}"} for kind, name in owners]}
    }


def run(deployment: str, job: str, *, ended: str = "", spec: Any = None, **more: Any) -> dict[str, Any]:
    spec = {"deletionStrategy": {"deletionRules": rules()}} if spec is None else spec
    status = {"jobDeploymentStatus": deployment, "jobStatus": job, "rayClusterName": "c"}
    status |= {"endTime": ended} if ended else {}
    return thing("RayJob", "j", spec=spec, status=status, **more)


CLUSTER = thing("RayCluster", "c", **owned(("RayJob", "j")))


def pod(name: str, node_type: str, gpus: int = 0, **more: Any) -> dict[str, Any]:
    made = thing(
        "Pod",
        name,
        **owned(("RayCluster", "c")),
        spec={"nodeName": "n0", "containers": [{"resources": {"limits": {"nvidia.com/gpu": gpus}}}]},
    )
    made["metadata"]["labels"] |= {"ray.io/cluster": "c", "ray.io/node-type": node_type}
    made["metadata"] |= more
    return made


PODS = (pod("head", "head"), pod("w0", "worker", 4), pod("w1", "worker", 4))


def judged(*rayjobs: Mapping[str, Any], **parts: Any) -> list[Leftover]:
    return leftovers(Survey(NOW, rayjobs=rayjobs, **parts), ME)


def seen(*rayjobs: Mapping[str, Any], **parts: Any) -> list[tuple[str, str]]:
    return [(left.words, left.action) for left in judged(*rayjobs, **parts)]


def held(job: Mapping[str, Any], pods: Any = PODS) -> list[Leftover]:
    return judged(job, rayclusters=(CLUSTER,), pods=pods)


@pytest.mark.parametrize(
    "state", [("", ""), ("Running", "RUNNING"), ("Suspended", ""), ("Retrying", "FAILED"), ("Novel", "")]
)
def test_a_live_run_is_never_litter_however_old(state: tuple[str, str]) -> None:
    job = run(*state, made=ago(days=90))
    assert held(job) == []
    assert seen(job, children=(thing("ComputeDomain", "d"), thing("ConfigMap", "s", **owned(("RayJob", "j"))))) == []


def test_a_stopped_run_is_released_with_all_it_holds() -> None:
    [left] = held(run("Complete", "STOPPED", ended=ago(minutes=5)))
    assert (left.words, left.action, left.busy, left.owner.mine) == ("rayjob/j", "release", False, True)
    assert left.holds.words == "8 GPUs, 3 pods"
    assert left.holds.rayclusters == (("c", "uid-c"),)
    assert left.why == "over (STOPPED), matches no deletion rule"


def test_an_end_of_a_moment_ago_is_left_to_whoever_follows_it() -> None:
    assert held(run("Complete", "STOPPED", ended=ago(seconds=5))) == []


@pytest.mark.parametrize("kept", [{"shutdownAfterJobFinishes": False}, {}])
def test_what_was_told_to_stay_stays(kept: dict[str, Any]) -> None:
    for job in ("SUCCEEDED", "STOPPED"):
        assert held(run("Complete", job, ended=ago(days=3), spec=kept)) == []


@pytest.mark.parametrize("minutes", [1, 30, 59])
def test_a_head_within_its_ttl_stays(minutes: int) -> None:
    job = run("Complete", "SUCCEEDED", ended=ago(minutes=minutes))
    assert held(job, PODS[:1]) == []


@pytest.mark.parametrize(
    "spec",
    [
        {"deletionStrategy": {"deletionRules": rules()}},
        {"shutdownAfterJobFinishes": True, "ttlSecondsAfterFinished": 3600},
    ],
)
@pytest.mark.parametrize("end", [("Complete", "SUCCEEDED"), ("Failed", "FAILED"), ("Failed", "RUNNING")])
def test_a_head_that_outlives_its_ttl_is_released(spec: Any, end: tuple[str, str]) -> None:
    [left] = held(run(*end, ended=ago(hours=2), spec=spec), PODS[:1])
    assert (left.words, left.action) == ("rayjob/j", "release")
    assert "was due to go 1h00m ago" in left.why


def test_workers_that_outlive_their_job_are_released_though_the_head_may_stay() -> None:
    [left] = held(run("Failed", "FAILED", ended=ago(minutes=10)))
    assert left.holds.words == "8 GPUs, 2 pods"
    assert "its workers were due to go 10m00s ago" in left.why


def test_a_run_that_kuberay_gave_up_on_may_still_run() -> None:
    [left] = held(run("ValidationFailed", "RUNNING", made=ago(hours=5)))
    assert left.busy


def test_records_go_after_their_week_where_kuberay_was_not_told_to_take_them() -> None:
    classic = {"shutdownAfterJobFinishes": True}
    assert seen(run("Complete", "SUCCEEDED", ended=ago(days=6), spec=classic)) == []
    assert seen(run("Complete", "SUCCEEDED", ended=ago(days=8), spec=classic)) == [("rayjob/j", "delete")]
    longer = {"deletionStrategy": {"deletionRules": rules(head=30 * 86400, record=30 * 86400)}}
    assert seen(run("Complete", "SUCCEEDED", ended=ago(days=8), spec=longer)) == []


def waiting(ready: str, **spec: Any) -> dict[str, Any]:
    job = run("Waiting", "", spec={"submissionMode": "InteractiveMode", **spec}, made=ago(hours=9))
    job["status"]["rayClusterStatus"] = {"stateTransitionTimes": {"ready": ready}}
    return job


def test_a_run_whose_code_never_came_is_litter_after_its_deadline() -> None:
    assert seen(waiting(ago(minutes=50))) == []
    assert seen(waiting(ago(minutes=50), preRunningDeadlineSeconds=600)) == [("rayjob/j", "delete")]
    assert seen(waiting(ago(minutes=70))) == [("rayjob/j", "delete")]
    assert seen(waiting(ago(minutes=70), jobId="r")) == [], "it was submitted"


def test_children_of_a_run_that_was_never_made_are_litter_once_nobody_can_be_making_it() -> None:
    kinds = ("ComputeDomain", "ResourceClaimTemplate", "ConfigMap")
    young = tuple(thing(kind, kind.lower(), made=ago(minutes=4)) for kind in kinds)
    assert seen(children=young) == []
    old = tuple(thing(kind, kind.lower(), made=ago(minutes=6)) for kind in kinds)
    words = [left.words for left in judged(children=old)]
    assert words[-1] == "computedomain/computedomain", "last, since it serves the others"
    assert len(words) == 3


def test_children_that_no_owner_was_given_are_their_runs_until_it_needs_them_no_more() -> None:
    child = thing("ComputeDomain", "d")
    ended = run("Complete", "SUCCEEDED", ended=ago(minutes=30))
    assert seen(run("Running", "RUNNING"), children=(child,)) == []
    parts = {"rayclusters": (CLUSTER,), "children": (child, thing("ConfigMap", "script"))}
    assert seen(ended, pods=PODS[:1], **parts) == [("computedomain/d", "delete")], "the kept head may need its script"
    assert seen(ended, children=parts["children"]) == [("configmap/script", "delete"), ("computedomain/d", "delete")]


def test_what_a_finished_run_owns_goes_too_though_its_record_stays() -> None:
    child = thing("Deployment", "judge", **owned(("RayJob", "j")))
    assert seen(run("Failed", "FAILED", ended=ago(minutes=30)), children=(child,)) == [("deployment/judge", "delete")]


def test_a_stopped_runs_children_go_with_it() -> None:
    parts = {"rayclusters": (CLUSTER,), "pods": PODS, "children": (thing("ComputeDomain", "d"),)}
    assert seen(run("Complete", "STOPPED", ended=ago(minutes=5)), **parts) == [
        ("rayjob/j", "release"),
        ("computedomain/d", "delete"),
    ]


def test_what_belongs_to_a_living_cluster_or_to_who_knows_what_is_left_alone() -> None:
    children = (
        thing("ConfigMap", "record", **owned(("RayCluster", "c"))),
        thing("ConfigMap", "a", **owned(("Workflow", "x"))),
        thing("ConfigMap", "b", metadata={"labels": {"kubectl-nrl/managed": "true", "kubectl-nrl/owner": "jo"}}),
    )
    assert seen(rayclusters=(thing("RayCluster", "c", run=""),), children=children) == []
    assert seen(children=children[:1], blind=frozenset({"RayCluster"})) == []
    assert seen(children=children[:1]) == [("configmap/record", "delete")]


def test_a_cluster_whose_rayjob_was_deleted_from_over_it_may_still_run() -> None:
    labels = {**CLUSTER["metadata"]["labels"], "ray.io/originated-from-crd": "RayJob"}
    left_over = {**CLUSTER, "metadata": {**CLUSTER["metadata"], "labels": labels}}
    [left] = judged(rayclusters=(left_over,), pods=PODS)
    assert (left.words, left.busy, left.holds.gpus) == ("raycluster/c", True, 8)
    assert judged(rayclusters=(CLUSTER,), pods=PODS) == [], "a long-lived one is nobody's litter"


def claim(owner_pod: str, **status: Any) -> dict[str, Any]:
    """As Kubernetes makes it of a pod's template, with what NVIDIA's controller wrote into that."""
    config = [{"opaque": {"driver": "compute-domain.nvidia.com", "parameters": {"domainID": "uid-d"}}}]
    made = thing(
        "ResourceClaim", "w0-channel", **owned(("Pod", owner_pod)), spec={"devices": {"config": config}}, status=status
    )
    del made["metadata"]["labels"]
    return made


def test_a_claim_is_litter_when_its_pod_is_gone_and_nobody_has_it() -> None:
    job, domain = run("Running", "RUNNING"), thing("ComputeDomain", "d", **owned(("RayJob", "j")))
    parts = {"rayclusters": (CLUSTER,), "pods": PODS, "children": (domain,)}
    assert seen(job, claims=(claim("w0"),), **parts) == []
    assert seen(job, claims=(claim("w9", reservedFor=[{"name": "w9"}]),), **parts) == []
    [left] = judged(job, claims=(claim("w9"),), **parts)
    assert (left.words, left.run, left.owner.mine) == ("resourceclaim/w0-channel", "r", True)
    foreign = claim("w9")
    foreign["spec"]["devices"]["config"] = []
    assert seen(job, claims=(foreign,), **parts) == [], "of which nothing says that a run has to do with it"


def test_what_is_being_deleted_and_does_not_go_is_named_with_what_holds_it() -> None:
    stuck = pod("w0", "worker", 4, deletionTimestamp=ago(minutes=12), finalizers=["example.com/hold"])
    [left] = held(run("Running", "RUNNING"), (stuck,))
    assert (left.words, left.action, left.holds.gpus) == ("pod/w0", "look", 4)
    assert left.why == "being deleted since 12m00s, held by finalizer example.com/hold"
    dead = pod("w0", "worker", 4, deletionTimestamp=ago(minutes=12))
    dead["spec"]["nodeName"] = "n7"
    [left] = held(run("Running", "RUNNING"), (dead,))
    assert "node n7 has not ended it" in left.why
    dying = pod("w0", "worker", 4, deletionTimestamp=ago(seconds=20))
    assert held(run("Running", "RUNNING"), (dying,)) == []


def test_whose_it_is_is_told_and_decides_nothing_here() -> None:
    [left] = held(run("Complete", "STOPPED", ended=ago(minutes=5), owner="anna"))
    assert (left.owner.mine, left.owner.owner) == (False, "anna")


def test_without_a_view_of_pods_nothing_is_taken_for_unused() -> None:
    child = thing("ComputeDomain", "d")
    assert seen(run("Complete", "SUCCEEDED", ended=ago(days=1)), children=(child,), blind=frozenset({"Pod"})) == []


def test_what_may_not_be_listed_is_said_and_the_rest_is_judged_by_the_servers_clock() -> None:
    cluster = FakeCluster(now=NOW, namespace="rl")
    cluster.faults["list", "ConfigMap"] = ClusterError("forbidden", status=403)
    cluster.put(run("Complete", "STOPPED", ended=ago(minutes=5)))
    cluster.put(CLUSTER)
    for one in PODS:
        cluster.put(one)
    wrong = NOW + timedelta(days=30)
    found = survey(cluster, "rl", all_namespaces=False, clock=lambda: wrong)
    assert [left.words for left in leftovers(found, ME)] == ["rayjob/j"]
    assert found.unseen == ("ConfigMaps were not looked at: forbidden",)
    assert found.now == NOW
    cluster.faults["list", "RayJob"] = ClusterError("forbidden", status=403)
    with pytest.raises(ClusterError):
        survey(cluster, "rl", all_namespaces=False, clock=lambda: wrong)
