"""The default scheduler tells a full cluster from a request that no node could ever hold."""

from __future__ import annotations

from typing import Any

from context import FakeCluster, thing
from nrl_plugins.scheduler_default import DefaultScheduler

DEFAULT = DefaultScheduler()
RUN = {"metadata": {"name": "r", "namespace": "rl", "uid": "u1"}, "status": {"rayClusterName": "r-abc"}}


def node(name: str, gpus: str = "4", **labels: str) -> dict[str, Any]:
    return thing(
        "Node", name, metadata={"labels": labels}, status={"allocatable": {"nvidia.com/gpu": gpus, "cpu": "64"}}
    )


def pod(requests: dict[str, str], **spec: Any) -> dict[str, Any]:
    return thing(
        "Pod", "w0",
        metadata={"labels": {"ray.io/cluster": "r-abc", "ray.io/group": "gpu"}},
        spec={"containers": [{"resources": {"requests": requests}}], **spec},
        status={"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
    )  # fmt: skip


def messages(*objects: dict[str, Any], **how: Any) -> list[str]:
    return [f"{r.subject}: {r.reason}, {r.message}" for r in DEFAULT.reasons(RUN, FakeCluster(list(objects), **how))]


def test_a_request_that_no_node_could_hold_is_named_with_the_largest_node() -> None:
    assert messages(pod({"nvidia.com/gpu": "8", "cpu": "8"}), node("a"), node("b", "2")) == [
        "pods of gpu: TooLarge, a pod asks for nvidia.com/gpu 8, and no node has more than 4, even empty"
    ]


def test_a_full_cluster_is_left_to_the_schedulers_own_words() -> None:
    assert messages(pod({"nvidia.com/gpu": "4"}), node("a")) == []


def test_labels_that_no_node_has_are_named() -> None:
    (line,) = messages(pod({"cpu": "1"}, nodeSelector={"pool": "gb300"}), node("a", pool="cpu"))
    assert line.endswith("no node has what its node selector and affinity ask for (pool=gb300)")


def test_labels_that_an_affinity_requires_count_as_well() -> None:
    term = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["gb300"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    asks = pod({"nvidia.com/gpu": "8"}, affinity={"nodeAffinity": required})
    (line,) = messages(asks, node("a", "16", pool="cpu"), node("b", "4", pool="gb300"))
    assert line.endswith("no node with its labels has more than 4, even empty")


def test_a_node_that_is_only_away_for_now_could_hold_a_pod() -> None:
    away = node("a", "8")
    away["spec"] = {
        "unschedulable": True,
        "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}],
    }
    away["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    assert messages(pod({"nvidia.com/gpu": "8"}), away) == []


def test_only_nodes_with_the_asked_labels_count() -> None:
    (line,) = messages(
        pod({"nvidia.com/gpu": "4"}, nodeSelector={"pool": "small"}), node("a"), node("b", "2", pool="small")
    )
    assert line.endswith("no node with its labels has more than 2, even empty")


def test_pods_of_another_scheduler_are_not_judged() -> None:
    assert messages(pod({"nvidia.com/gpu": "8"}, schedulerName="kai-scheduler"), node("a")) == []


def test_nodes_that_may_not_be_read_give_no_reason() -> None:
    assert messages(pod({"nvidia.com/gpu": "8"}), forbidden=frozenset({"Node"})) == []
