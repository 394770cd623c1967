"""Giving back what a run holds: the cluster it made, by uid, with its pods; the record stays."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from fake_cluster import FakeCluster

from kubectl_nrl.apply import delete_run, release
from kubectl_nrl.errors import ClusterError


def stopped(owner: str = "") -> tuple[FakeCluster, dict[str, Any]]:
    cluster = FakeCluster()
    status = {"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED", "rayClusterName": "r-abc"}
    job = cluster.put({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "r"}, "status": status})
    refs = [{"uid": owner or job["metadata"]["uid"]}]
    cluster.put({"kind": "RayCluster", "metadata": {"name": "r-abc", "ownerReferences": refs}})
    cluster.put({"kind": "Pod", "metadata": {"name": "w0", "labels": {"ray.io/cluster": "r-abc"}}})
    return cluster, job


def test_the_cluster_goes_and_the_record_stays() -> None:
    cluster, job = stopped()
    threading.Timer(0.2, lambda: cluster.remove("Pod", "w0")).start()
    released = release(cluster, job, within=60)
    assert released.ray_cluster == "r-abc"
    assert released.left == ()
    assert list(cluster.objects) == [("RayJob", "default", "r")]


def test_pods_that_do_not_go_are_named() -> None:
    cluster, job = stopped()
    assert release(cluster, job, within=0.1).left == ("w0",)


def test_a_cluster_that_the_run_did_not_make_is_left_alone() -> None:
    cluster, job = stopped(owner="somebody")
    released = release(cluster, job, within=0.1)
    assert (released.ray_cluster, released.left) == ("", ()), "nor are its pods waited for"
    assert ("RayCluster", "default", "r-abc") in cluster.objects


def test_pods_that_may_not_be_listed_are_not_taken_for_gone() -> None:
    cluster, job = stopped()
    cluster.faults["list", "Pod"] = ClusterError("cannot list pods", status=403, reason="Forbidden")
    released = release(cluster, job, within=0.1)
    assert (released.ray_cluster, released.left, released.seen) == ("r-abc", (), False)
    assert delete_run(cluster, job, say=lambda text: None) is None


def test_a_run_without_a_cluster_holds_nothing() -> None:
    cluster, job = stopped()
    job["status"].pop("rayClusterName")
    assert release(cluster, job).ray_cluster == ""
    assert not [c for c in cluster.calls if c[0] == "delete"]


def test_deleting_a_finished_run_lets_its_pods_go_first() -> None:
    cluster, job = stopped()
    cluster.after["delete", "RayCluster"] = lambda: cluster.remove("Pod", "w0")
    delete_run(cluster, job, say=lambda text: None)
    assert cluster.objects == {}
    assert [c[1] for c in cluster.calls if c[0] == "delete"] == ["RayCluster", "RayJob"]


def test_a_live_run_is_deleted_whole() -> None:
    cluster, job = stopped()
    job["status"].update(jobDeploymentStatus="Running", jobStatus="RUNNING")
    cluster.after["delete", "RayJob"] = lambda: cluster.remove("Pod", "w0")
    delete_run(cluster, job, say=lambda text: None)
    assert [c[1] for c in cluster.calls if c[0] == "delete"] == ["RayJob"]


def test_a_finalizer_that_holds_a_run_is_named() -> None:
    cluster, job = stopped()
    cluster.objects.clear()
    meta = {"name": "r", "uid": job["metadata"]["uid"], "finalizers": ["ray.io/rayjob-finalizer"]}
    cluster.put({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": meta})
    cluster.delete = lambda *a, **k: True  # type: ignore[method-assign]
    with pytest.raises(ClusterError, match="rayjob-finalizer"):
        delete_run(cluster, job, say=lambda text: None, within=0.1)
