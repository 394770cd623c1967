"""What holds a finished run is named, object and finalizer; what served its workers goes once they are gone."""

from __future__ import annotations

import threading
from typing import Any

from fake_cluster import FakeCluster

from kubectl_nrl.apply import holders, take_children, wait_for_claims
from kubectl_nrl.errors import ClusterError

DRA = {"resource.k8s.io": ("v1",), "resource.nvidia.com": ("v1beta1",)}


def pod(name: str = "w0", *, node: str = "n1", **meta: Any) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "default", **meta}, "spec": {"nodeName": node}}


def node(cluster: FakeCluster, ready: str) -> None:
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    cluster.put({"kind": "Node", "metadata": {"name": "n1"}, "status": status})


def said(cluster: FakeCluster, *left: dict[str, Any]) -> list[tuple[str, str]]:
    return [(holder.words, holder.look) for holder in holders(cluster, "default", "c", left)]


DYING: dict[str, Any] = {"deletionTimestamp": "2026-11-30T12:00:00Z"}


def test_a_finalizer_of_a_pod_is_named_with_the_command_that_shows_it() -> None:
    [(words, look)] = said(FakeCluster(), pod(**DYING, finalizers=["example.com/hold"]))
    assert words == "pod w0 is still there (being deleted; finalizer example.com/hold)"
    assert look == "kubectl get pod w0 -n default -o yaml"


def test_a_pod_on_a_dead_node_is_named_with_the_node() -> None:
    cluster = FakeCluster()
    node(cluster, "Unknown")
    [(words, _)] = said(cluster, pod(**DYING))
    assert words == "pod w0 is still there (being deleted; its node n1 is not ready, so nobody ends its containers)"


def test_a_pod_that_is_slow_or_whose_node_may_not_be_seen_is_not_blamed_on_the_node() -> None:
    cluster = FakeCluster()
    node(cluster, "True")
    assert "its containers have not ended" in said(cluster, pod(**DYING))[0][0]
    cluster.faults["get", "Node"] = ClusterError("forbidden", status=403)
    assert "its containers have not ended" in said(cluster, pod(**DYING))[0][0]


def test_a_finalizer_of_the_ray_cluster_is_named_when_its_pods_are_not_even_being_deleted() -> None:
    cluster = FakeCluster()
    cluster.put({"kind": "RayCluster", "metadata": {"name": "c", **DYING, "finalizers": ["example.com/audit"]}})
    held, one = said(cluster, pod())
    assert held[0] == "raycluster c is being deleted and does not go (finalizer example.com/audit)"
    assert held[1] == "kubectl get raycluster c -n default -o yaml"
    assert one[0] == "pod w0 is still there (not being deleted)"


def test_an_operator_that_does_nothing_is_suspected() -> None:
    cluster = FakeCluster()
    cluster.put({"kind": "RayCluster", "metadata": {"name": "c"}})
    assert said(cluster, pod())[0][0] == "KubeRay has not acted on raycluster c: its operator may be down"


def test_claims_are_waited_for_and_named() -> None:
    cluster = FakeCluster(groups={"ray.io": ("v1",), **DRA})
    refs = [{"kind": "Pod", "name": "w0", "uid": "p0"}]
    meta = {
        "name": "w0-nic",
        "ownerReferences": refs,
        **DYING,
        "finalizers": ["resource.kubernetes.io/delete-protection"],
    }
    cluster.put({"kind": "ResourceClaim", "metadata": meta})
    foreign = {"name": "other", "ownerReferences": [{"kind": "Pod", "name": "x", "uid": "p9"}]}
    cluster.put({"kind": "ResourceClaim", "metadata": foreign})
    left = wait_for_claims(cluster, "default", {"p0"}, 0.0)
    [(words, look)] = said(cluster, *left)
    assert (
        words
        == "resourceclaim w0-nic is still there (being deleted; finalizer resource.kubernetes.io/delete-protection)"
    )
    assert look == "kubectl get resourceclaim w0-nic -n default -o yaml"
    threading.Timer(0.1, lambda: cluster.remove("ResourceClaim", "w0-nic")).start()
    assert wait_for_claims(cluster, "default", {"p0"}, 60.0) == []


def test_who_may_not_see_claims_does_not_wait_for_them() -> None:
    cluster = FakeCluster(groups={"ray.io": ("v1",), **DRA})
    cluster.faults["list", "ResourceClaim"] = ClusterError("forbidden", status=403)
    assert wait_for_claims(cluster, "default", {"p0"}, 60.0) == []
    assert wait_for_claims(FakeCluster(), "default", {"p0"}, 60.0) == []


def over(cluster: FakeCluster, run: str = "r") -> dict[str, Any]:
    labels = {"kubectl-nrl/run": run}
    return cluster.put({"kind": "RayJob", "metadata": {"name": run, "labels": labels}})


def child(cluster: FakeCluster, kind: str, name: str, run: str = "r") -> None:
    cluster.put({"kind": kind, "metadata": {"name": name, "labels": {"kubectl-nrl/run": run}}})


def test_what_served_the_workers_goes_with_them_the_domain_last_and_nothing_of_another_run() -> None:
    cluster = FakeCluster(groups={"ray.io": ("v1",), **DRA})
    job = over(cluster)
    for kind in ("ComputeDomain", "ResourceClaimTemplate", "Service", "Deployment", "ConfigMap"):
        child(cluster, kind, kind.lower())
    child(cluster, "ComputeDomain", "others", "other")
    of_another = {"labels": {"kubectl-nrl/run": "r"}, "ownerReferences": [{"kind": "RayJob", "name": "x", "uid": "x"}]}
    cluster.put({"kind": "ComputeDomain", "metadata": {"name": "owned", **of_another}})
    taken = take_children(cluster, job, lambda text: None)
    assert taken == [
        "deployment/deployment", "service/service", "resourceclaimtemplate/resourceclaimtemplate", "computedomain/computedomain",
    ]  # fmt: skip
    left = {f"{kind}/{name}" for kind, _, name in cluster.objects}
    assert left == {"RayJob/r", "ConfigMap/configmap", "ComputeDomain/others", "ComputeDomain/owned"}, (
        "the kept head may start its script again"
    )


def test_what_may_not_be_taken_is_said_and_ends_nothing() -> None:
    cluster = FakeCluster(groups={"ray.io": ("v1",), **DRA})
    job = over(cluster)
    child(cluster, "Deployment", "judge")
    child(cluster, "ComputeDomain", "d")
    cluster.faults["delete", "Deployment"] = ClusterError("server is overloaded", status=500)
    cluster.faults["list", "Service"] = ClusterError("forbidden", status=403)
    warned: list[str] = []
    assert take_children(cluster, job, warned.append) == ["computedomain/d"]
    assert warned == ["deployment/judge is left: server is overloaded; kubectl nrl clean -n default"]


def test_an_outage_before_the_children_are_looked_for_is_said_and_ends_nothing() -> None:
    cluster = FakeCluster(groups=DRA)
    job = over(cluster)

    def away() -> Any:
        raise ClusterError("cannot reach it", reason="Unreachable")

    cluster.served = away  # type: ignore[method-assign]
    warned: list[str] = []
    assert take_children(cluster, job, warned.append) == []
    assert warned == ["what served the workers of run r may be left: cannot reach it; kubectl nrl clean -n default"]
