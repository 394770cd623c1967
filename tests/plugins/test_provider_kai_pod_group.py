"""What KAI's PodGroup says of a run that waits: objects of the shape that the real one has (March 2026)."""

from __future__ import annotations

from typing import Any

import pytest
from context import FakeCluster, thing
from nrl_plugins.scheduler_kai import KaiScheduler

from kubectl_nrl.api import Reason

KAI = KaiScheduler()
RUN = {"metadata": {"name": "r", "namespace": "rl", "uid": "u1"}, "status": {"rayClusterName": "r-abc"}}


def pod_group(*conditions: dict[str, Any], uid: str = "u1", least: int = 2, **annotations: str) -> dict[str, Any]:
    meta = {"ownerReferences": [{"uid": uid, "kind": "RayJob"}], "annotations": annotations}
    spec = {"minMember": least, "queue": "nope", "priorityClassName": "train"}
    return thing("PodGroup", "pg-r-u1", metadata=meta, spec=spec, status={"schedulingConditions": list(conditions)})


def unschedulable(reason: str, message: str, pool: str = "default") -> dict[str, Any]:
    return {
        "type": "UnschedulableOnNodePool",
        "nodePool": pool,
        "status": "True",
        "reason": "Unschedulable",
        "message": f"{reason}: {message}.\n",
        "transitionID": "1",
        "reasons": [{"reason": reason, "message": message}],
    }


def pods(placed: int, waiting: int, **meta: Any) -> list[dict[str, Any]]:
    found = []
    for number in range(placed + waiting):
        metadata = {"labels": {"ray.io/cluster": "r-abc"}, "annotations": {"pod-group-name": "pg-r-u1"}, **meta}
        found.append(thing("Pod", f"p{number}", metadata=metadata, spec={"nodeName": "n"} if number < placed else {}))
    return found


def reasons(*objects: dict[str, Any]) -> list[Reason]:
    return list(KAI.reasons(RUN, FakeCluster(list(objects))))


def test_a_queue_that_does_not_exist_does_not_heal() -> None:
    (reason,) = reasons(pod_group(unschedulable("QueueDoesNotExist", "Queue 'nope' does not exist")), *pods(0, 2))
    assert (reason.subject, reason.reason, reason.heals) == ("PodGroup pg-r-u1", "QueueDoesNotExist", False)
    assert reason.message == "Queue 'nope' does not exist"


@pytest.mark.parametrize(
    ("reason", "message", "heals"),
    [
        (
            "OverLimit",
            "rl quota has reached the allowable limit of GPUs. Limit is 4 GPUs, currently 4 GPUs allocated",
            True,
        ),
        ("NonPreemptibleOverQuota", "Non-preemptible workload is over quota. Workload requested 8 GPUs", False),
        ("PodSchedulingErrors", "Requested topology gb300 does not exist", False),
        (
            "PodSchedulingErrors",
            "topology gb300-topology, requirement nvidia.com/gpu.clique couldn't be satisfied for job <rl/pg-r-u1>",
            True,
        ),
    ],
)
def test_quota_and_capacity_heal_and_what_is_missing_does_not(reason: str, message: str, heals: bool) -> None:
    (found,) = reasons(pod_group(unschedulable(reason, message)), *pods(0, 2))
    assert (found.reason, found.message, found.heals) == (reason, message, heals)


def test_a_condition_that_kai_left_behind_is_no_reason_once_the_pods_have_nodes() -> None:
    assert reasons(pod_group(unschedulable("OverLimit", "m")), *pods(2, 0)) == []


def test_only_the_last_condition_of_a_node_pool_counts() -> None:
    old, new = unschedulable("QueueDoesNotExist", "Queue 'nope' does not exist"), unschedulable("OverLimit", "m")
    assert [r.reason for r in reasons(pod_group(old, new), *pods(0, 2))] == ["OverLimit"]
    other = unschedulable("OverLimit", "n", pool="other")
    assert [r.message for r in reasons(pod_group(new, other), *pods(0, 2))] == ["m", "n"]


def test_one_reason_said_twice_is_said_once() -> None:
    both = {**unschedulable("OverLimit", "m"), "reasons": 2 * [{"reason": "OverLimit", "message": "m"}]}
    assert len(reasons(pod_group(both), *pods(0, 2))) == 1


def test_a_gang_says_how_far_it_is() -> None:
    (reason,) = reasons(pod_group(least=8), *pods(5, 3))
    assert (reason.reason, reason.heals) == ("GangWaiting", True)
    assert reason.message.startswith("5/8 pods scheduled")


def test_a_gang_whose_pods_are_not_all_there_says_so() -> None:
    (reason,) = reasons(pod_group(least=8), *pods(0, 3))
    assert reason.message.startswith("3 of 8 pods exist")


def test_pods_that_are_going_are_no_members() -> None:
    going = pods(3, 0, deletionTimestamp="2026-11-30T12:00:00Z")
    assert reasons(pod_group(least=3), *going) == []


def test_a_gang_that_lost_members_is_named_before_kai_evicts_the_rest() -> None:
    stale = {"kai.scheduler/stale-podgroup-timestamp": "2026-11-30T12:00:00Z"}
    (reason,) = reasons(pod_group(least=2, **stale), *pods(1, 0))
    assert reason.reason == "StaleGang"
    assert "1 pods are left of a gang of at least 2" in reason.message


def test_reasons_of_others_are_not_ours() -> None:
    assert reasons(pod_group(unschedulable("OverLimit", "m"), uid="u2")) == []


@pytest.mark.parametrize("how", ["forbidden", "absent", "broken"])
def test_pod_groups_that_cannot_be_read_give_no_reason(how: str) -> None:
    assert list(KAI.reasons(RUN, FakeCluster(**{how: frozenset({"PodGroup"})}))) == []


def test_conditions_are_shown_to_who_may_not_see_pods() -> None:
    group = pod_group(unschedulable("OverLimit", "m"))
    assert [r.reason for r in KAI.reasons(RUN, FakeCluster([group], forbidden=frozenset({"Pod"})))] == ["OverLimit"]
