"""What RayJob and RayCluster say: a refusal, an operator that is not there, pods that never came to be."""

from __future__ import annotations

from typing import Any

from waiting_pods import at, event, head, pod, ray_cluster, rayjob, stamp, waiting

from kubectl_nrl.api import Reason
from kubectl_nrl.reasons import Situation, Trouble, snapshot, troubles


def found(now: float = 1000.0, **situation: Any) -> list[Trouble]:
    return troubles(Situation(**situation), at(now))


def lines(now: float = 1000.0, **situation: Any) -> list[str]:
    return [trouble.line for trouble in found(now, **situation)]


def failure(message: str, what: str = "FailedCreateWorkerPod") -> dict[str, Any]:
    return {"type": "ReplicaFailure", "status": "True", "reason": what, "message": f"{what}\n{message}"}


QUOTA = 'pods "r-abc-w-worker-x" is forbidden: exceeded quota: q, requested: requests.cpu=1'


def test_a_quota_that_leaves_no_pod_at_all_is_named_with_the_pods_that_lack() -> None:
    cluster = ray_cluster(4, failure(QUOTA))
    [trouble] = found(rayjob=rayjob(), ray_cluster=cluster, pods=(head(ready=True), pod("w0", ready=True)))
    assert trouble.line == "3/4 workers of w: QuotaExceeded, exceeded quota: q, requested: requests.cpu=1"
    assert trouble.heals == "alone"


def test_a_head_that_is_refused_is_named_and_not_the_workers_that_come_after_it() -> None:
    refused = failure('pods "h" is forbidden: maximum cpu usage per Container is 500m', "FailedCreateHeadPod")
    assert lines(rayjob=rayjob(), ray_cluster=ray_cluster(2, refused)) == [
        "head: LimitRange, maximum cpu usage per Container is 500m"
    ]


def test_a_refusal_is_over_once_the_pods_are_there() -> None:
    pods = (head(ready=True), pod("w0", ready=True), pod("w1", ready=True))
    assert lines(rayjob=rayjob(), ray_cluster=ray_cluster(2, failure(QUOTA)), pods=pods) == []


def test_without_the_condition_the_newest_event_says_why_pods_lack() -> None:
    cluster = ray_cluster(2)
    said = event(cluster, "FailedToCreateWorkerPod", f"Failed to create worker Pod for the cluster a/r-abc, {QUOTA}")
    assert lines(rayjob=rayjob(), ray_cluster=cluster, pods=(head(ready=True),), events=(said,))[0].startswith(
        "2/2 workers of w: QuotaExceeded"
    )


def test_a_certain_refusal_comes_first() -> None:
    cluster = ray_cluster(2, failure('Pod "x" is invalid: spec.volumes[0]: Forbidden'))
    pods = (head(containerStatuses=waiting("ErrImagePull", "x: not found")),)
    assert [t.heals for t in found(rayjob=rayjob(), ray_cluster=cluster, pods=pods)] == ["never", "by hand"]


def test_a_spec_that_kuberay_refuses_is_certain() -> None:
    [trouble] = found(rayjob=rayjob("ValidationFailed", message="The RayJob spec is invalid: no\n rayClusterSpec"))
    assert trouble.heals == "never"
    assert trouble.line == "rayjob/r: ValidationFailed, The RayJob spec is invalid: no rayClusterSpec"


def test_an_old_kuberay_refuses_in_an_event_only() -> None:
    job = rayjob("")
    [trouble] = found(5, rayjob=job, events=(event(job, "InvalidRayJobSpec", "names are too long"),))
    assert (trouble.reason, trouble.heals) == ("InvalidRayJobSpec", "never")


def test_an_operator_that_does_not_look_is_named_after_a_while() -> None:
    assert lines(15, rayjob=rayjob("")) == []
    assert "is the operator running" in lines(21, rayjob=rayjob(""))[0]
    cluster = ray_cluster()
    del cluster["status"]
    assert lines(21, ray_cluster=cluster)[0].startswith("raycluster/r-abc: NotReconciled")


def test_a_run_that_its_queue_holds_is_not_one_that_nobody_looked_at() -> None:
    job = {**rayjob(""), "spec": {"suspend": True}}
    assert lines(rayjob=job) == []
    [trouble] = found(rayjob=rayjob("Suspended"))
    assert (trouble.reason, trouble.heals) == ("Suspended", "alone")


def test_a_queue_that_says_why_it_holds_a_run_has_the_word() -> None:
    said = (Reason("Workload w", "Pending", "no quota", heals=True),)
    assert lines(rayjob=rayjob("Suspended"), said=said) == ["Workload w: Pending, no quota"]


def test_a_suspended_long_lived_cluster_is_named() -> None:
    cluster = ray_cluster()
    cluster["spec"]["suspend"] = True
    assert lines(ray_cluster=cluster)[0].startswith("raycluster/r-abc: Suspended")
    assert lines(rayjob=rayjob("Suspended"), ray_cluster=cluster)[0].startswith("rayjob/r: Suspended")


def test_a_cluster_that_cannot_even_be_created_is_named() -> None:
    """Its name stands in the RayJob's status all the same."""
    job = rayjob()
    message = (
        'Failed to create RayCluster e/r-abc: rayclusters.ray.io "r-abc" is forbidden: exceeded quota: q, requested: '
        "count/rayclusters.ray.io=1, used: count/rayclusters.ray.io=0, limited: count/rayclusters.ray.io=0"
    )
    said = event(job, "FailedToCreateRayCluster", message)
    [line] = lines(rayjob=job, events=(said,))
    assert line.startswith("rayjob/r: QuotaExceeded, exceeded quota: q, requested: count/rayclusters.ray.io=1")
    assert lines(rayjob=job, ray_cluster=ray_cluster(0), pods=(head(ready=True),), events=(said,)) == []


def test_a_submitter_that_cannot_be_created_is_named_until_there_is_a_driver() -> None:
    job = rayjob()
    said = event(
        job, "FailedToCreateRayJobSubmitter", 'jobs.batch "r" is forbidden: exceeded quota: q, requested: count=1'
    )
    cluster, pods = ray_cluster(0), (head(ready=True),)
    assert lines(rayjob=job, ray_cluster=cluster, pods=pods, events=(said,)) == [
        "rayjob/r: QuotaExceeded, exceeded quota: q, requested: count=1"
    ]
    assert lines(rayjob=rayjob("Running", "RUNNING"), ray_cluster=cluster, pods=pods, events=(said,)) == []


def test_a_finished_run_has_no_troubles() -> None:
    pods = (head(containerStatuses=waiting("CrashLoopBackOff")),)
    assert lines(rayjob=rayjob("Failed", "FAILED"), ray_cluster=ray_cluster(2, failure(QUOTA)), pods=pods) == []


def test_what_a_scheduler_says_twice_is_said_once() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    condition["message"] = "QueueDoesNotExist: Queue 'nope' does not exist."
    pods = (head(conditions=[condition]), pod("w0", conditions=[condition]))
    said = (Reason("PodGroup pg", "QueueDoesNotExist", "Queue 'nope' does not exist", heals=False),)
    assert lines(rayjob=rayjob(), ray_cluster=ray_cluster(1), pods=pods, said=said) == [
        "head and 1/1 workers of w: QueueDoesNotExist, Queue 'nope' does not exist."
    ]


def test_what_a_provider_said_is_over_once_every_pod_is_ready() -> None:
    pods = (head(ready=True), pod("w0", ready=True))
    said = (Reason("PodGroup pg", "OverLimit", "full"),)
    assert lines(rayjob=rayjob(), ray_cluster=ray_cluster(1), pods=pods, said=said) == []
    assert lines(rayjob=rayjob(), ray_cluster=ray_cluster(2), pods=pods, said=said) == ["PodGroup pg: OverLimit, full"]


def test_a_ready_cluster_without_a_driver_is_named_by_its_own_times() -> None:
    cluster = ray_cluster(0, state="ready", stateTransitionTimes={"ready": stamp(10)})
    assert lines(100, rayjob=rayjob(), ray_cluster=cluster, pods=(head(ready=True),)) == []
    [line] = lines(131, rayjob=rayjob(), ray_cluster=cluster, pods=(head(ready=True),))
    assert "8265" in line
    assert lines(131, rayjob=rayjob("Running", "RUNNING"), ray_cluster=cluster, pods=(head(ready=True),)) == []


def test_a_snapshot_counts_what_should_be_there_and_what_is_held() -> None:
    gpus = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "4"}}}]}
    bound, unbound = pod("w0", ready=True, spec={**gpus, "nodeName": "n"}), pod("w1", spec=gpus)
    picture = snapshot(
        Situation(rayjob(startTime=stamp(3)), ray_cluster(4), (head(ready=True), bound, unbound)), at(60)
    )
    assert (picture.state, picture.started, picture.gpus) == ("Initializing", at(3), 4)
    assert [(g.role, g.name, g.ready, g.total, g.gpus) for g in picture.groups] == [
        ("head", "head", 1, 1, 0),
        ("worker", "w", 1, 4, 4),
    ]


def test_a_long_lived_cluster_whose_head_died_is_not_ready_whatever_its_state_says() -> None:
    gone = {"type": "HeadPodReady", "status": "False"}
    assert snapshot(Situation(ray_cluster=ray_cluster(1, gone, state="ready")), at(0)).state == "HeadNotReady"
    assert snapshot(Situation(ray_cluster=ray_cluster(1, state="ready")), at(0)).state == "Ready"
