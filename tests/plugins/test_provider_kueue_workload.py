"""Why Kueue keeps a run waiting, read off Workloads of the shapes that the real one makes."""

from __future__ import annotations

from typing import Any

import pytest
from context import FakeCluster, thing
from nrl_plugins.scheduler_kueue import KueueScheduler

from kubectl_nrl.api import Reason

UID, OTHER = "5f0c6d2e-0000-4000-8000-000000000001", "5f0c6d2e-0000-4000-8000-000000000002"
RUN = {
    "metadata": {
        "name": "r", "namespace": "rl", "uid": UID, "labels": {"kueue.x-k8s.io/queue-name": "rl"},
        "creationTimestamp": "2026-01-01T00:00:00Z",
    },
    "spec": {"suspend": True},
}  # fmt: skip
PREEMPTED = (
    f"Preempted to accommodate a workload (UID: {OTHER}, JobUID: {OTHER}) due to prioritization in the ClusterQueue; "
    "preemptor path: /cq; preemptee path: /cq"
)


def workload(*conditions: dict[str, str], uid: str = UID, owner: str = "r", **fields: Any) -> dict[str, Any]:
    status = {"conditions": list(conditions), **fields.pop("status", {})}
    meta = {
        "namespace": "rl",
        "labels": {"kueue.x-k8s.io/job-uid": uid},
        "ownerReferences": [{"uid": uid, "kind": "RayJob", "name": owner}],
    }
    return thing("Workload", f"rayjob-{owner}", metadata=meta, spec={"queueName": "rl", **fields}, status=status)


def condition(kind: str, status: str, reason: str, message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def waits(message: str, reason: str = "Pending") -> dict[str, str]:
    return condition("QuotaReserved", "False", reason, message)


RESERVED, ADMITTED = condition("QuotaReserved", "True", "QuotaReserved"), condition("Admitted", "True", "Admitted")


def reasons(*objects: dict[str, Any], run: dict[str, Any] = RUN, **cluster: Any) -> list[Reason]:
    return list(KueueScheduler().reasons(run, FakeCluster(list(objects), **cluster)))


@pytest.mark.parametrize(
    ("reason", "message", "said", "heals"),
    [
        ("Pending", "couldn't assign flavors to pod set w: insufficient unused quota for nvidia.com/gpu in flavor gb300, 4 more needed",
         "LocalQueue rl: w: insufficient unused quota for nvidia.com/gpu in flavor gb300, 4 more needed", True),
        ("Pending", "couldn't assign flavors to pod set w: insufficient quota for cpu in flavor a, previously considered podsets "
         "requests (0) + current podset request (9) > maximum capacity (8)", None, False),
        ("Pending", "couldn't assign flavors to pod set w: insufficient quota for cpu in flavor a, request > maximum capacity (8), "
         "insufficient unused quota for cpu in flavor b, 2 more needed", None, True),
        ("Pending", "couldn't assign flavors to pod set head: insufficient unused quota for cpu in flavor a, 2 more needed; couldn't "
         "assign flavors to pod set w: resource example.com/widget unavailable in ClusterQueue", None, False),
        ("Inadmissible", "LocalQueue nope doesn't exist", "LocalQueue nope doesn't exist", False),
        ("Inadmissible", "ClusterQueue cq doesn't exist", "LocalQueue rl: ClusterQueue cq doesn't exist", False),
        ("Inadmissible", "ClusterQueue cq is inactive", None, True),
        ("Inadmissible", "DeviceClass x is not mapped in DRA configuration for podset w", None, False),
    ],
)  # fmt: skip
def test_a_queued_run_says_what_it_lacks_and_whether_that_passes(
    reason: str, message: str, said: str | None, heals: bool
) -> None:
    (found,) = reasons(workload(waits(message, reason)))
    assert found.heals is heals
    assert found.reason == ("Queued" if reason == "Pending" else reason)
    assert said is None or found.message == said


def test_how_many_wait_is_said_where_it_can_be_read() -> None:
    def queue(waiting: int) -> dict[str, Any]:
        return thing("LocalQueue", "rl", status={"pendingWorkloads": waiting})

    (found,) = reasons(workload(waits("x")), queue(3))
    assert found.message == "LocalQueue rl (3 waiting): x"
    (alone,) = reasons(workload(waits("x")), queue(1))
    assert alone.message == "LocalQueue rl (1 waiting): x"
    (hidden,) = reasons(workload(waits("x")), queue(3), forbidden=frozenset({"LocalQueue"}))
    assert hidden.message == "LocalQueue rl: x"


def test_a_run_that_kueue_has_just_taken_up_is_in_its_queue() -> None:
    (found,) = reasons(workload())
    assert (found.reason, found.message, found.heals) == ("Queued", "in LocalQueue rl", True)


def test_a_preempted_run_names_the_one_that_took_its_place() -> None:
    evicted = condition("Evicted", "True", "Preempted", PREEMPTED)
    boss = workload(RESERVED, ADMITTED, uid=OTHER, owner="boss")
    (found,) = reasons(workload(waits(PREEMPTED), evicted), boss)
    assert found.reason == "Preempted"
    assert found.message == "for rayjob/boss, prioritization in the ClusterQueue; it is queued again"
    assert found.heals
    (foreign,) = reasons(workload(waits(PREEMPTED), evicted))
    assert "for a job of another namespace" in foreign.message


def test_once_looked_at_again_a_preempted_run_says_both() -> None:
    evicted = condition("Evicted", "True", "Preempted", PREEMPTED)
    found = reasons(workload(waits("no quota, 1 more needed"), evicted))
    assert [reason.reason for reason in found] == ["Preempted", "Queued"]


def test_pods_that_were_not_ready_in_time_are_an_eviction_with_its_next_try() -> None:
    evicted = condition("Evicted", "True", "PodsReadyTimeout", "Exceeded the PodsReady timeout rl/rayjob-r")
    again = {"requeueState": {"count": 2, "requeueAt": "2026-11-30T12:00:00Z"}}
    (found,) = reasons(workload(waits("Exceeded the PodsReady timeout rl/rayjob-r"), evicted, status=again))
    assert found.reason == "PodsReadyTimeout"
    assert "tried again at 2026-11-30T12:00:00Z (attempt 3)" in found.message


def test_a_deactivated_run_needs_a_hand() -> None:
    evicted = condition(
        "Evicted", "True", "DeactivatedDueToRequeuingLimitExceeded", "exceeding the maximum number of retries"
    )
    (found,) = reasons(workload(waits("x"), evicted, active=False))
    assert not found.heals
    assert "deactivated it: exceeding the maximum number of retries" in found.message


def test_admission_checks_are_told_when_there_is_quota() -> None:
    checks = {"admissionChecks": [
        {"name": "provision", "state": "Pending", "message": "waiting for nodes"}, {"name": "done", "state": "Ready"},
    ]}  # fmt: skip
    (found,) = reasons(workload(RESERVED, status=checks))
    assert found.message == 'has quota, admission check "provision" is Pending: waiting for nodes'
    assert found.heals
    (rejected,) = reasons(workload(RESERVED, status={"admissionChecks": [{"name": "p", "state": "Rejected"}]}))
    assert not rejected.heals


@pytest.mark.parametrize(
    "conditions",
    [
        [RESERVED, ADMITTED],
        [RESERVED, ADMITTED, condition("Evicted", "False", "QuotaReserved", "Previously: preempted")],
        [waits("x"), condition("Finished", "True", "Succeeded")],
    ],
    ids=["admitted", "admitted again", "finished"],
)
def test_a_run_that_does_not_wait_has_no_reason(conditions: list[dict[str, str]]) -> None:
    assert reasons(workload(*conditions)) == []


def test_other_jobs_workloads_are_not_this_runs() -> None:
    assert reasons(workload(waits("x"), uid=OTHER), run={**RUN, "spec": {}}) == []


def test_a_run_that_kueue_does_not_see_is_said_after_a_while() -> None:
    (found,) = reasons()
    assert found.reason == "NotSeenByKueue"
    fresh = {**RUN, "metadata": {**RUN["metadata"], "creationTimestamp": "2999-01-01T00:00:00Z"}}
    unlabelled = {**RUN, "metadata": {**RUN["metadata"], "labels": {}}}
    for run in (fresh, unlabelled, {**RUN, "spec": {"suspend": False}}):
        assert reasons(run=run) == []


def test_workloads_that_may_not_be_read_give_no_reason() -> None:
    assert reasons(workload(waits("x")), forbidden=frozenset({"Workload"})) == []


def test_an_older_kueue_is_read_in_its_own_version() -> None:
    class Old(FakeCluster):
        def _guard(self, api_version: str, kind: str, namespace: str | None) -> None:
            from kubectl_nrl.errors import ClusterError

            super()._guard(api_version, kind, namespace)
            if api_version.endswith("v1beta2"):
                raise ClusterError("not served", status=404, reason="NotServed")

    (found,) = KueueScheduler().reasons(RUN, Old([workload(waits("x"))]))
    assert found.message == "LocalQueue rl: x"
    assert list(KueueScheduler().reasons({**RUN, "spec": {}}, FakeCluster(absent=frozenset({"Workload"})))) == []
