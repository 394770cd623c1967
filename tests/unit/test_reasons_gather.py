"""What is read of a run, how often, and what becomes of what may not be read."""

from __future__ import annotations

from typing import Any

import pytest
from fake_cluster import FakeCluster
from waiting_pods import event, head, pod, ray_cluster, rayjob

from kubectl_nrl.api import Provider, Reason
from kubectl_nrl.errors import ClusterError
from kubectl_nrl.reasons import gather


class Says(Provider):
    name = "says"

    def __init__(self, *answer: Any) -> None:
        self.answer = answer

    def reasons(self, run: Any, cluster: Any) -> Any:
        for item in self.answer:
            if isinstance(item, Exception):
                raise item
            yield item


def filled(*objects: dict[str, Any]) -> FakeCluster:
    cluster = FakeCluster()
    for obj in (rayjob(), ray_cluster(1), *objects):
        cluster.put(obj)
    cluster.calls.clear()
    return cluster


def asked(cluster: FakeCluster) -> list[tuple[str, str]]:
    return [(verb, kind) for verb, kind, _ in cluster.calls]


READY = (head(ready=True), pod("w0", ready=True))


def test_a_run_whose_pods_are_ready_costs_two_requests() -> None:
    cluster = filled(*READY)
    found = gather(cluster, "default", rayjob=rayjob(), providers=[Says(Reason("x", "y", "z"))])
    assert asked(cluster) == [("get", "RayCluster"), ("list", "Pod")]
    assert len(found.pods) == 2
    assert found.said == ()


def test_a_run_that_waits_costs_one_more_whatever_its_size() -> None:
    cluster = filled(head(), *(pod(f"w{n}") for n in range(64)))
    gather(cluster, "default", rayjob=rayjob())
    assert asked(cluster) == [("get", "RayCluster"), ("list", "Pod"), ("list", "Event")]


def test_a_run_that_is_over_is_not_asked_why_it_waits() -> None:
    cluster = filled(head())
    gather(cluster, "default", rayjob=rayjob("Complete", "SUCCEEDED"))
    assert ("list", "Event") not in asked(cluster)


def test_a_run_without_a_cluster_yet_asks_for_none() -> None:
    cluster = filled()
    found = gather(
        cluster, "default", rayjob=rayjob("Suspended", rayClusterName=""), providers=[Says(Reason("q", "r", "m"))]
    )
    assert asked(cluster) == [("list", "Event")]
    assert found.said == (Reason("q", "r", "m"),)


def test_a_long_lived_cluster_is_looked_at_by_itself() -> None:
    cluster = filled(*READY)
    found = gather(cluster, "default", ray_cluster=ray_cluster(1))
    assert asked(cluster) == [("list", "Pod")]
    assert found.rayjob is None


@pytest.mark.parametrize(("verb", "kind"), [("list", "Event"), ("list", "Pod"), ("get", "RayCluster")])
def test_what_may_not_be_read_is_a_note(verb: str, kind: str) -> None:
    cluster = filled(head())
    cluster.faults[verb, kind] = ClusterError("no", status=403, reason="Forbidden")
    [note] = gather(cluster, "default", rayjob=rayjob()).notes
    assert note == f"{kind.lower()}s may not be read with these permissions"


def test_an_outage_is_no_note() -> None:
    cluster = filled(head())
    cluster.faults["list", "Pod"] = ClusterError("connection refused", reason="ConnectionLost")
    with pytest.raises(ClusterError):
        gather(cluster, "default", rayjob=rayjob())


def test_a_provider_that_raises_is_named_and_the_others_are_heard() -> None:
    providers = [Says(ValueError("boom")), Says(Reason("q", "r", "m"))]
    found = gather(filled(head()), "default", rayjob=rayjob(), providers=providers)
    assert found.said == (Reason("q", "r", "m"),)
    assert "ValueError: boom" in found.notes[0]


def unscheduled(message: str, **words: Any) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return pod("w0", conditions=[condition], **words)


def test_the_claim_that_is_not_bound_is_named_with_its_own_reason() -> None:
    claim = {
        "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "uid": "uid-data"},
        "spec": {"storageClassName": "nope"}, "status": {"phase": "Pending"},
    }  # fmt: skip
    volume = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
    stuck = unscheduled("pod has unbound immediate PersistentVolumeClaims.", spec=volume)
    [reason] = gather(filled(stuck, claim), "default", rayjob=rayjob()).said
    assert (reason.subject, reason.message) == ('PersistentVolumeClaim "data"', 'not bound (storage class "nope")')
    said = event(claim, "ProvisioningFailed", 'storageclass.storage.k8s.io "nope" not found')
    [reason] = gather(filled(stuck, claim, said), "default", rayjob=rayjob()).said
    assert (reason.message, reason.heals) == ('storageclass.storage.k8s.io "nope" not found', False)


def test_device_claims_that_nobody_allocates_are_counted_by_class() -> None:
    status = {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "w0-c"}]}
    request = {"name": "nic", "exactly": {"deviceClassName": "roce.example", "count": 8}}
    claim = {"kind": "ResourceClaim", "metadata": {"name": "w0-c"}, "spec": {"devices": {"requests": [request]}}}
    stuck = pod("w0", **status)
    [reason] = gather(filled(stuck, claim), "default", rayjob=rayjob()).said
    assert (reason.subject, reason.reason) == ("1 resource claim", "Unallocated")
    assert "8 x roce.example, for workers of w" in reason.message
    allocated = {**claim, "status": {"allocation": {"devices": {}}}}
    assert gather(filled(stuck, allocated), "default", rayjob=rayjob()).said == ()


@pytest.mark.parametrize("error", [ClusterError("no", status=403), ClusterError("not served", reason="NotServed")])
def test_claims_that_cannot_be_read_leave_the_pods_own_words(error: ClusterError) -> None:
    cluster = filled(pod("w0", resourceClaimStatuses=[{"name": "c", "resourceClaimName": "w0-c"}]))
    cluster.faults["list", "ResourceClaim"] = error
    assert gather(cluster, "default", rayjob=rayjob()).said == ()
