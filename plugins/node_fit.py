"""Whether any node could hold a pod, were it empty: kube-scheduler says "Insufficient", for the busy and the impossible alike.

Only requests and nodeSelector are looked at, so that what is said here is certain; a cluster that adds nodes by itself may
still find one, hence a trouble that may heal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kubectl_nrl.api import ClusterReader, Reason
from kubectl_nrl.errors import ClusterError
from kubectl_nrl.labels import RAY_CLUSTER, RAY_GROUP, labels_of
from kubectl_nrl.schema.quantities import quantity
from kubectl_nrl.written import dig, maps

Objects = Sequence[Mapping[str, Any]]


def too_large(run: Mapping[str, Any], cluster: ClusterReader) -> Iterator[Reason]:
    """One reason per group of the run whose pods fit no node. Nodes are cluster-scoped, and often may not be read."""
    waiting = _unplaced(run, cluster)
    if not waiting:
        return
    try:
        nodes = cluster.list("v1", "Node")
    except ClusterError:
        return
    for group, pod in sorted(waiting.items()):
        words = _misfit(pod, nodes)
        if words:
            yield Reason(f"pods of {group}", "TooLarge", words)


def _unplaced(run: Mapping[str, Any], cluster: ClusterReader) -> dict[str, Mapping[str, Any]]:
    """A pod of each group that kube-scheduler found no node for."""
    name = dig(run, "status", "rayClusterName") or dig(run, "metadata", "name")
    try:
        pods = cluster.list("v1", "Pod", dig(run, "metadata", "namespace"), label_selector=f"{RAY_CLUSTER}={name}")
    except ClusterError:
        return {}
    found: dict[str, Mapping[str, Any]] = {}
    for pod in pods:
        for _, condition in maps(dig(pod, "status", "conditions")):
            unschedulable = condition.get("type") == "PodScheduled" and condition.get("reason") == "Unschedulable"
            if unschedulable and dig(pod, "spec", "schedulerName") in (None, "default-scheduler"):
                found.setdefault(str(labels_of(pod).get(RAY_GROUP)), pod)
    return found


def _misfit(pod: Mapping[str, Any], nodes: Objects) -> str:
    """Why none of the nodes can hold the pod; empty when one could."""
    wanted = dig(pod, "spec", "nodeSelector") or {}
    chosen = [node for node in nodes if wanted.items() <= labels_of(node).items()]
    if not nodes:
        return ""
    if not chosen:
        return "no node has the labels " + ", ".join(f"{key}={value}" for key, value in sorted(wanted.items()))
    asked = _asked(pod)
    short: list[str] = []
    for node in chosen:
        lacking = [name for name in sorted(asked) if _has(node, name) < asked[name]]
        if not lacking:
            return ""
        short += lacking
    name = max(sorted(set(short)), key=short.count)
    most = max((str(dig(node, "status", "allocatable", name) or 0) for node in chosen), key=lambda n: quantity(n) or 0)
    of = " with its labels" if wanted else ""
    return f"a pod asks for {name} {_written(pod, name)}, and no node{of} has more than {most}, even empty"


def _has(node: Mapping[str, Any], name: str) -> Any:
    return quantity(dig(node, "status", "allocatable", name)) or 0


def _asked(pod: Mapping[str, Any]) -> dict[str, Any]:
    sums: dict[str, Any] = {}
    for _, container in maps(dig(pod, "spec", "containers")):
        for name, value in (dig(container, "resources", "requests") or {}).items():
            sums[name] = sums.get(name, 0) + (quantity(value) or 0)
    return sums


def _written(pod: Mapping[str, Any], name: str) -> str:
    """The amount as the pod spells it, where one container asks for all of it."""
    found = [dig(c, "resources", "requests", name) for _, c in maps(dig(pod, "spec", "containers"))]
    spelt = [str(value) for value in found if value is not None]
    return spelt[0] if len(spelt) == 1 else " + ".join(spelt)
