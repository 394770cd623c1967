"""Whether any node could hold a pod, were it empty: kube-scheduler says "Insufficient", for the busy and the impossible alike.

Only requests and labels are looked at, so that what is said here is certain: taints come and go, and a node that is cordoned or
silent comes back. A cluster that adds nodes by itself may still find one, hence a trouble that may heal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from kubectl_nrl.api import ClusterReader, Reason
from kubectl_nrl.errors import ClusterError
from kubectl_nrl.labels import RAY_CLUSTER, RAY_GROUP, labels_of
from kubectl_nrl.manifests.amounts import pod_amounts, show
from kubectl_nrl.node_room import room_of, selects
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
    spec = pod.get("spec") or {}
    chosen = [node for node in (room_of(node, {}) for node in nodes) if selects(node, spec)]
    if not nodes:
        return ""
    if not chosen:
        labels = ", ".join(f"{key}={value}" for key, value in sorted((spec.get("nodeSelector") or {}).items()))
        return f"no node has what its node selector and affinity ask for{f' ({labels})' if labels else ''}"
    asked = pod_amounts(spec)
    short: list[str] = []
    for node in chosen:
        lacking = [name for name in sorted(asked) if node.total.get(name, 0) < asked[name]]
        if not lacking:
            return ""
        short += lacking
    name = max(sorted(set(short)), key=short.count)
    most = max((node.total.get(name, Fraction(0)) for node in chosen), default=Fraction(0))
    of = " with its labels" if len(chosen) < len(nodes) else ""
    return (
        f"a pod asks for {name} {show(name, asked[name])}, and no node{of} has more than {show(name, most)}, even empty"
    )
