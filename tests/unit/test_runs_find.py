"""Finding runs: by id, by name, never by a guessed cluster name; and only mine unless asked."""

from __future__ import annotations

from typing import Any

import pytest
from fake_cluster import FakeCluster

from kubectl_nrl.api import User
from kubectl_nrl.errors import ClusterError, ExitCode, UsageError
from kubectl_nrl.runs import find_run, held_gpus, my_runs

ME = User("jo", "jo")


def put_run(cluster: FakeCluster, name: str, run: str = "", owner: str = "jo", made: str = "1", **status: Any) -> None:
    labels = {"kubectl-nrl/managed": "true", "kubectl-nrl/owner": owner, **({"kubectl-nrl/run": run} if run else {})}
    cluster.put(
        {
            "kind": "RayJob",
            "metadata": {"name": name, "labels": labels, "creationTimestamp": f"2026-11-30T12:00:0{made}Z"},
            "spec": {"jobId": f"sub-{name}"},
            "status": status,
        }
    )


def gpu_pod(
    cluster: FakeCluster, name: str, ray_cluster: str, gpus: str, phase: str = "Running", node: str = "n0"
) -> None:
    limits = {"nvidia.com/gpu": gpus, "cpu": "4"}
    cluster.put(
        {
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"ray.io/cluster": ray_cluster}},
            "spec": {"containers": [{"resources": {"limits": limits}}], **({"nodeName": node} if node else {})},
            "status": {"phase": phase},
        }
    )


@pytest.mark.parametrize("word", ["id-a", "a", "rayjob/a", "sub-a"])
def test_a_run_is_found_by_any_of_its_names(word: str) -> None:
    cluster = FakeCluster()
    put_run(cluster, "a", "id-a")
    put_run(cluster, "b", "id-b")
    found = find_run(cluster, "default", word)
    assert found is not None
    assert (found.name, found.id, found.submission_id) == ("a", "id-a", "sub-a")


def test_the_newest_of_one_id_counts() -> None:
    cluster = FakeCluster()
    put_run(cluster, "old", "id-a", made="1")
    put_run(cluster, "new", "id-a", made="2")
    found = find_run(cluster, "default", "id-a")
    assert found is not None
    assert found.name == "new"


@pytest.mark.parametrize("word", ["nope", "rayjob/nope"])
def test_what_is_not_there_is_none(word: str) -> None:
    assert find_run(FakeCluster(), "default", word) is None


@pytest.mark.parametrize("word", ["pod/a", "../a", "a b", "-a", "x" * 64])
def test_words_that_no_run_can_have_are_refused_before_anything_is_asked(word: str) -> None:
    cluster = FakeCluster()
    with pytest.raises(UsageError):
        find_run(cluster, "default", word)
    assert cluster.calls == []


def test_a_name_that_is_a_raycluster_too_must_be_made_clear() -> None:
    cluster = FakeCluster()
    put_run(cluster, "a", "id-a")
    cluster.put({"kind": "RayCluster", "metadata": {"name": "a"}})
    with pytest.raises(UsageError, match="both a RayJob and a RayCluster"):
        find_run(cluster, "default", "a")
    assert find_run(cluster, "default", "rayjob/a") is not None
    assert find_run(cluster, "default", "id-a") is not None


def test_a_run_says_its_state_and_ray_cluster_from_its_status() -> None:
    cluster = FakeCluster()
    put_run(cluster, "a", "id-a", jobDeploymentStatus="Complete", jobStatus="STOPPED", rayClusterName="a-x7k2p")
    found = find_run(cluster, "default", "a")
    assert found is not None
    assert (found.state, found.ray_cluster, found.exit_code) == ("STOPPED", "a-x7k2p", ExitCode.STOPPED)


def test_a_run_that_is_held_back_says_that_a_queue_may_be_why() -> None:
    cluster = FakeCluster()
    put_run(cluster, "a", "id-a", jobDeploymentStatus="Suspended")
    put_run(cluster, "b", "id-b", jobDeploymentStatus="Running")
    runs = {run.id: run for run in my_runs(cluster, "default", ME, all_namespaces=False, all_users=False)}
    assert (runs["id-a"].state, runs["id-a"].reason) == ("Suspended", "queued, or by hand")
    assert runs["id-b"].reason == ""


def test_runs_are_mine_and_the_newest_comes_first() -> None:
    cluster = FakeCluster()
    put_run(cluster, "a", "id-a", made="1")
    put_run(cluster, "b", "id-b", made="3")
    put_run(cluster, "c", "id-c", owner="anna", made="2")
    assert [r.id for r in my_runs(cluster, "default", ME, all_namespaces=False, all_users=False)] == ["id-b", "id-a"]
    assert len(my_runs(cluster, "default", ME, all_namespaces=False, all_users=True)) == 3


def test_a_person_whose_name_maps_alike_is_not_me() -> None:
    cluster = FakeCluster()
    put_run(cluster, "a", "id-a")
    cluster.objects["RayJob", "default", "a"]["metadata"]["annotations"] = {"kubectl-nrl/user": "j.o"}
    assert my_runs(cluster, "default", ME, all_namespaces=False, all_users=False) == []


def test_held_gpus_are_those_of_pods_that_have_a_node_and_live() -> None:
    cluster = FakeCluster()
    put_run(cluster, "a", "id-a", rayClusterName="a-1")
    gpu_pod(cluster, "w0", "a-1", "4")
    gpu_pod(cluster, "w1", "a-1", "4")
    gpu_pod(cluster, "w2", "a-1", "4", phase="Succeeded")
    gpu_pod(cluster, "w3", "a-1", "4", phase="Pending", node="")
    gpu_pod(cluster, "x0", "other", "8")
    [run] = my_runs(cluster, "default", ME, all_namespaces=False, all_users=False)
    assert run.gpus == 8
    assert held_gpus([]) == {}


def test_who_may_not_see_pods_still_sees_runs() -> None:
    cluster = FakeCluster()
    put_run(cluster, "a", "id-a")
    cluster.faults["list", "Pod"] = ClusterError("forbidden", status=403)
    [run] = my_runs(cluster, "default", ME, all_namespaces=False, all_users=False)
    assert run.gpus is None


def test_a_run_that_only_used_a_cluster_does_not_hold_what_that_holds() -> None:
    cluster = FakeCluster()
    put_run(cluster, "a", "id-a", rayClusterName="shared", jobDeploymentStatus="Complete", jobStatus="SUCCEEDED")
    cluster.objects["RayJob", "default", "a"]["spec"]["clusterSelector"] = {"ray.io/cluster": "shared"}
    gpu_pod(cluster, "p", "shared", "8")
    [run] = my_runs(cluster, "default", ME, all_namespaces=False, all_users=False)
    assert (run.gpus, run.forgotten) == (0, "")
