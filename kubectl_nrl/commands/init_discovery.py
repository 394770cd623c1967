"""What a cluster tells `init`: the hardware its nodes are labelled with, queues, and claims that many pods can mount.

Every read is optional and all together get a few seconds: a file can be written without a cluster, and permission to
list nodes or queues is rare on shared ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import ClusterError

if TYPE_CHECKING:
    from ..api import Profile

#: Seconds for all reads together.
PATIENCE = 3.0

GPU = "nvidia.com/gpu"


class Reader(Protocol):
    """What is asked of a cluster (`kubectl_nrl.cluster.Cluster`)."""

    context: str

    def list(self, api_version: str, kind: str, namespace: str | None = None) -> list[dict[str, Any]]: ...


@dataclass(frozen=True)
class Found:
    """What the cluster said; what could not be read is empty. `gpus` is the largest count on one node."""

    where: str = ""
    profile: str = ""
    nodes: int = 0
    gpus: int = 0
    kai_queues: tuple[str, ...] = ()
    local_queues: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()


def discover(cluster: Reader, profiles: Iterable[Profile], namespace: str, seconds: float) -> Found | None:
    """What can be read within that time; None when nothing at all was answered."""
    reads: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "nodes": lambda: cluster.list("v1", "Node"),
        "kai": lambda: cluster.list("scheduling.run.ai/v2", "Queue"),
        # Every version of Kueue serves v1beta1.
        "kueue": lambda: cluster.list("kueue.x-k8s.io/v1beta1", "LocalQueue", namespace),
        "claims": lambda: cluster.list("v1", "PersistentVolumeClaim", namespace),
    }
    answered, lists = _side_by_side(reads, seconds)
    if not answered:
        return None
    profile, nodes, gpus = _hardware(lists.get("nodes", []), profiles)
    return Found(
        where=f"context {cluster.context}" if cluster.context else "the cluster",
        profile=profile,
        nodes=nodes,
        gpus=gpus,
        kai_queues=_leaves(lists.get("kai", [])),
        local_queues=tuple(sorted(_name(queue) for queue in lists.get("kueue", []))),
        claims=tuple(sorted(_name(claim) for claim in lists.get("claims", []) if _shared(claim))),
    )


def _side_by_side(
    reads: Mapping[str, Callable[[], list[dict[str, Any]]]], seconds: float
) -> tuple[bool, dict[str, list[dict[str, Any]]]]:
    """Whether anything was answered, a refusal included, and the lists that came in time."""
    from ..cluster.side_by_side import within

    lists: dict[str, list[dict[str, Any]]] = {}
    answers: list[str] = []

    def read(name: str) -> None:
        try:
            lists[name] = reads[name]()
        except ClusterError as error:
            if not error.status:
                return
        answers.append(name)

    within(seconds, [partial(read, name) for name in reads])
    return bool(answers), dict(lists)


def _hardware(nodes: list[dict[str, Any]], profiles: Iterable[Profile]) -> tuple[str, int, int]:
    """(profile, nodes, GPUs a node): of the profile whose labels most nodes carry, else of all nodes with GPUs."""
    best: tuple[str, int, int] = ("", 0, 0)
    for profile in profiles:
        wanted = profile.get("nodeSelector")
        if not wanted:
            continue
        matching = [node for node in nodes if _carries(node, wanted)]
        if len(matching) > best[1]:
            resource = str(profile.get("gpus.resource", GPU))
            best = (profile.name, len(matching), max(_count(node, resource) for node in matching))
    if best[0]:
        return best
    counts = [count for node in nodes if (count := _count(node, GPU))]
    return "", len(counts), max(counts, default=0)


def _carries(node: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    labels = (node.get("metadata") or {}).get("labels") or {}
    return all(labels.get(key) == value for key, value in wanted.items())


def _count(node: Mapping[str, Any], resource: str) -> int:
    text = str(((node.get("status") or {}).get("allocatable") or {}).get(resource, "0"))
    return int(text) if text.isdigit() else 0


def _leaves(queues: list[dict[str, Any]]) -> tuple[str, ...]:
    """KAI's queues that take workloads: those that are no other's parent (its `spec.parentQueue`)."""
    parents = {str((queue.get("spec") or {}).get("parentQueue") or "") for queue in queues}
    return tuple(sorted(name for queue in queues if (name := _name(queue)) not in parents))


def _shared(claim: Mapping[str, Any]) -> bool:
    return "ReadWriteMany" in ((claim.get("spec") or {}).get("accessModes") or [])


def _name(item: Mapping[str, Any]) -> str:
    return str(item["metadata"]["name"])
