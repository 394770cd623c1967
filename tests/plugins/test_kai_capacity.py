"""What KAI could start now: the nodes' room, a domain for each segment, and no more than the queues' limits leave."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from context import FakeCluster, context, thing
from nrl_plugins.scheduler_kai import KaiScheduler

from kubectl_nrl.api import Capacity, Context

KAI = KaiScheduler()
RACK = "nvidia.com/gpu.clique"
REQUIRED = "kai.scheduler/topology-required-placement"


def node(name: str, rack: str) -> dict[str, Any]:
    status = {"allocatable": {"cpu": "64", "nvidia.com/gpu": "4", "pods": "110"}}
    return thing("Node", name, metadata={"labels": {RACK: rack}}, spec={}, status=status)


def queue(name: str, limit: int = -1, used: str = "0", parent: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {"resources": {"gpu": {"limit": limit}}}
    return thing("Queue", name, spec={**spec, "parentQueue": parent}, status={"allocated": {"nvidia.com/gpu": used}})


def asked(*sizes: int, required: bool = False) -> Context:
    """A Context whose rendered RayCluster has groups of so many pods with 4 GPUs."""
    pod = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 4}}}]}
    template = {"metadata": {"annotations": {REQUIRED: RACK} if required else {}}, "spec": pod}
    groups = [{"groupName": f"g{i}", "replicas": n, "template": template} for i, n in enumerate(sizes)]
    spec = {"headGroupSpec": {"template": {"spec": {"containers": [{}]}}}, "workerGroupSpecs": groups}
    scheduler = {"kind": "kai", "queue": "rl", **({"topology": "t", "requiredPlacement": RACK} if required else {})}
    made = context({"scheduler": scheduler})
    return replace(made, rendered=({"kind": "RayCluster", "metadata": {"name": "x"}, "spec": spec},))


NODES = [node(f"{rack}{i}", rack) for rack in "ab" for i in range(2)]


def capacity(ctx: Context, *objects: dict[str, Any], **cluster: Any) -> Capacity:
    return KAI.capacity(ctx, FakeCluster([*NODES, *objects], **cluster))


def test_the_nodes_decide_where_no_queue_limits() -> None:
    found = capacity(asked(4), queue("rl"))
    assert (found.free_gpus, found.total_gpus, found.fits) == (16, 16, True)
    assert capacity(asked(5), queue("rl")).fits is False


def test_a_segment_must_find_a_rack() -> None:
    assert capacity(asked(3, required=True), queue("rl")).fits is False
    assert capacity(asked(2, 2, required=True), queue("rl")).fits is True


def test_the_limit_of_the_queue_or_of_any_above_it_decides() -> None:
    own = capacity(asked(2), queue("rl", 12, "8"))
    assert (own.free_gpus, own.fits) == (4, False)
    assert 'queue "rl" has 4 GPUs left below its limit' in own.detail
    above = capacity(asked(2), queue("rl", parent="dept"), queue("dept", 8, "1"))
    assert (above.free_gpus, above.fits) == (7, False)
    assert 'queue "dept"' in above.detail
    assert capacity(asked(2), queue("rl", 8, "0")).fits is True


def test_queues_that_go_round_in_a_circle_or_may_not_be_read_limit_nothing() -> None:
    assert capacity(asked(1), queue("rl", parent="rl")).fits is True
    assert capacity(asked(1), forbidden=frozenset({"Queue"})).fits is True
