"""What nodes have left: counted as the scheduler counts, for the nodes that the pods may use, one domain for a segment."""

from __future__ import annotations

from typing import Any

import pytest

from kubectl_nrl.manifests.pods import PodSet
from kubectl_nrl.node_room import admits, room_for, rooms

GPU = "nvidia.com/gpu"


def node(
    name: str, gpus: int = 4, *, labels: Any = None, taints: Any = (), ready: str = "True", **spec: Any
) -> dict[str, Any]:
    allocatable = {"cpu": "64", "memory": "256Gi", "pods": "110", **({GPU: str(gpus)} if gpus else {})}
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"taints": list(taints), **spec},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": ready}]},
    }


def running(on: str, gpus: int, phase: str = "Running") -> dict[str, Any]:
    containers = [{"resources": {"limits": {GPU: gpus}}}]
    return {"spec": {"nodeName": on, "containers": containers}, "status": {"phase": phase}}


def pods(count: int, gpus: int = 4, group: str = "w", **spec: Any) -> PodSet:
    limits = {GPU: gpus} if gpus else {"cpu": 1}
    template = {"spec": {"containers": [{"resources": {"limits": limits}}], **spec}}
    return PodSet(f"pods of group {group}", (), template, count, "RayJob", group)


def test_what_running_pods_request_is_taken_and_ended_ones_hold_nothing() -> None:
    there = rooms([node("a"), node("b")], [running("a", 3), running("b", 4, "Succeeded"), running("gone", 4)])
    room = room_for([pods(1)], there, GPU)
    assert (room.free, room.total, room.nodes, room.fits) == (5, 8, 2, True)
    full = room_for([pods(2)], there, GPU)
    assert (full.fits, full.missing) == (False, "pods of group w")


def test_gpus_that_are_free_in_pieces_do_not_hold_a_pod() -> None:
    there = rooms([node("a"), node("b")], [running("a", 2), running("b", 2)])
    room = room_for([pods(1)], there, GPU)
    assert (room.free, room.fits) == (4, False)


@pytest.mark.parametrize("bad", [{"ready": "False"}, {"ready": "Unknown"}, {"unschedulable": True}])
def test_nodes_that_take_no_pods_do_not_count(bad: dict[str, Any]) -> None:
    assert room_for([pods(1)], rooms([node("a", **bad)], []), GPU).total == 0


TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("spec", "there", "may"),
    [
        ({}, {}, True),
        ({"nodeSelector": {"kind": "gb300"}}, {"labels": {"kind": "gb300"}}, True),
        ({"nodeSelector": {"kind": "gb300"}}, {}, False),
        ({}, {"taints": [TAINT]}, False),
        ({}, {"taints": [{**TAINT, "effect": "PreferNoSchedule"}]}, True),
        ({"tolerations": [{"operator": "Exists"}]}, {"taints": [TAINT]}, True),
        ({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, {"taints": [TAINT]}, True),
        ({"tolerations": [{"key": "gpu", "value": "yes"}]}, {"taints": [TAINT]}, True),
        ({"tolerations": [{"key": "gpu", "value": "no"}]}, {"taints": [TAINT]}, False),
        ({"tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}]}, {"taints": [TAINT]}, False),
        (
            {"tolerations": [{"key": "gpu", "operator": "Exists"}]},
            {"taints": [TAINT, {**TAINT, "key": "other"}]},
            False,
        ),
    ],
)
def test_selectors_and_taints_decide_which_nodes_count(spec: dict[str, Any], there: dict[str, Any], may: bool) -> None:
    (found,) = rooms([node("a", **there)], [])
    assert admits(found, spec) is may


@pytest.mark.parametrize(
    ("expression", "may"),
    [
        ({"operator": "In", "values": ["x", "y"]}, True),
        ({"operator": "In", "values": ["y"]}, False),
        ({"operator": "NotIn", "values": ["y"]}, True),
        ({"operator": "Exists"}, True),
        ({"operator": "DoesNotExist"}, False),
        ({"operator": "Gt", "values": ["1"]}, False),
    ],
)
def test_required_affinity_decides_too(expression: dict[str, Any], may: bool) -> None:
    (found,) = rooms([node("a", labels={"k": "x", "n": "5"})], [])
    terms = [{"matchExpressions": [{"key": "k", **expression}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    assert admits(found, {"affinity": affinity}) is may
    number = {"matchExpressions": [{"key": "n", "operator": "Gt", "values": ["4"]}]}
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    for term in (number, named):
        affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] = [*terms, term]
        assert admits(found, {"affinity": affinity}), "one term of several is enough"


def test_only_nodes_that_the_gpu_pods_may_use_are_counted() -> None:
    there = rooms([node("a", labels={"kind": "old"}), node("b", labels={"kind": "new"}), node("cpu", 0)], [])
    room = room_for([pods(1, nodeSelector={"kind": "new"}), pods(1, 0, "head")], there, GPU)
    assert (room.free, room.total, room.fits) == (4, 4, True)


def test_pods_count_beside_one_another() -> None:
    there = rooms([node("a"), node("b")], [])
    assert room_for([pods(1), pods(1, group="v")], there, GPU).fits is True
    both = room_for([pods(2), pods(1, group="v")], there, GPU)
    assert (both.fits, both.missing) == (False, "pods of group v")


def test_a_segment_must_find_one_domain_and_the_fullest_is_named() -> None:
    racks = [node(f"{rack}{i}", labels={"rack": rack}) for rack in "ab" for i in range(3)]
    there = rooms(racks, [running("a0", 4)])
    spread = room_for([pods(4)], there, GPU, label="rack")
    assert (spread.fits, spread.domain, spread.largest) == (True, "b", 12)
    assert room_for([pods(4)], there, GPU, label="rack", together=frozenset({"w"})).fits is False
    assert room_for([pods(3)], there, GPU, label="rack", together=frozenset({"w"})).fits is True
    two = [pods(3, group="s0"), pods(3, group="s1")]
    assert room_for(two, there, GPU, label="rack", together=frozenset({"s0", "s1"})).fits is False


def test_a_pod_without_gpus_needs_room_as_well() -> None:
    huge = pods(1, 0)
    huge.template["spec"]["containers"][0]["resources"]["limits"]["cpu"] = 65  # type: ignore[index]
    assert room_for([huge], rooms([node("a", 0)], []), GPU).fits is False
