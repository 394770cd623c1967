"""KAI's objects on a live cluster: whether a queue or topology can be used.

Queues and topologies are cluster-scoped, so that reading them is often forbidden: that is never a failure. Fields:
KAI's pkg/apis/scheduling/v2/queue_types.go, pkg/apis/kai/v1alpha1/topology_types.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubectl_nrl.api import Check, ClusterReader
from kubectl_nrl.errors import ClusterError
from kubectl_nrl.unreadable import unreadable
from kubectl_nrl.written import dig, maps

QUEUES = ("scheduling.run.ai/v2", "Queue")
TOPOLOGIES = ("kai.scheduler/v1alpha1", "Topology")


def check_queue(cluster: ClusterReader, name: str, *, needs_gpus: bool) -> Check:
    """Whether KAI's queue can hold a workload: it exists, is a leaf, its parents exist, its limits are not zero.

    Queues are cluster-scoped and listing them is often forbidden; then the queue alone is asked for.
    """
    title = f'KAI queue "{name}"'
    try:
        listed = {str(dig(queue, "metadata", "name")): queue for queue in cluster.list(*QUEUES)}
    except ClusterError as error:
        if error.status == 403:
            return _queue_alone(cluster, name, title)
        no_kai = (
            "this cluster has no KAI (scheduling.run.ai/v2 is not served)",
            "leave `scheduler` out, or install KAI",
        )
        return unreadable(error, title, not_served=no_kai)
    parents = {str(dig(queue, "spec", "parentQueue")) for queue in listed.values() if dig(queue, "spec", "parentQueue")}
    leaves = sorted(set(listed) - parents)
    choose = f"leaf queues here: {', '.join(leaves[:8]) or 'none'}"
    if name not in listed:
        return Check(title, False, f"not found; {choose}", "set scheduler.queue to one of them")
    if name in parents:
        return Check(title, False, f"is a parent queue, which cannot hold workloads; {choose}", "choose a leaf queue")
    above, at = [name], dig(listed[name], "spec", "parentQueue")
    while at:
        if at not in listed or at in above:
            fault = "does not exist" if at not in listed else "is its own ancestor"
            return Check(title, False, f'its parent "{at}" {fault}, so KAI drops it', f"ask for queue {at}")
        above.append(at)
        at = dig(listed[at], "spec", "parentQueue")
    return _limits(title, [listed[queue] for queue in above], needs_gpus)


def _limits(title: str, queues: list[Mapping[str, Any]], needs_gpus: bool) -> Check:
    """An unset or zero limit means that nothing of that resource may run."""
    for queue in queues:
        for resource in ("gpu", "cpu", "memory") if needs_gpus else ("cpu", "memory"):
            if not dig(queue, "spec", "resources", resource, "limit"):
                where = dig(queue, "metadata", "name")
                return Check(title, False, f'queue "{where}" has a {resource} limit of 0, so nothing may run in it',
                             f"ask its admin to set spec.resources.{resource}.limit (-1 is unlimited)")  # fmt: skip
    return Check(title, True)


def _queue_alone(cluster: ClusterReader, name: str, title: str) -> Check:
    try:
        found = cluster.get(*QUEUES, name)
    except ClusterError as error:
        return unreadable(error, title)
    if found:
        return Check(title, True, "exists; whether it is a leaf could not be seen (listing queues is forbidden)")
    return Check(title, False, "not found", "ask which queue is yours, and set scheduler.queue")


def check_topology(cluster: ClusterReader, name: str, labels: tuple[str | None, ...]) -> Check:
    """Whether KAI's Topology exists and has the labels as levels."""
    title = f'KAI topology "{name}"'
    try:
        found = cluster.get(*TOPOLOGIES, name)
    except ClusterError as error:
        no_such_kind = ("this KAI has no topologies", "leave scheduler.topology out, or update KAI")
        return unreadable(error, title, not_served=no_such_kind)
    fix = "kubectl get topologies.kai.scheduler, then set scheduler.topology"
    if found is None:
        return Check(title, False, "not found", fix)
    levels = [str(level.get("nodeLabel")) for _, level in maps(dig(found, "spec", "levels"))]
    for label in labels:
        if label and label not in levels:
            return Check(title, False, f'has no level "{label}"; its levels: {", ".join(levels)}', fix)
    return Check(title, True)


def check_priority(cluster: ClusterReader, name: str) -> Check:
    """Whether the priority class exists: KAI takes a name that it does not know for the default, without a word."""
    title = f'KAI priority class "{name}"'
    try:
        found = cluster.get("scheduling.k8s.io/v1", "PriorityClass", name)
    except ClusterError as error:
        return unreadable(error, title)
    if found:
        return Check(title, True)
    fix = "kubectl get priorityclasses   # then set scheduler.priority"
    return Check(title, False, "not found, so KAI would use its default (train)", fix, blocks=False)
