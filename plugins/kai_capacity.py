"""What KAI could start now: what the nodes have left, and no more than the limits of the queues leave.

What KAI could reclaim from queues over their quota is not counted: that is a promise for later, not room now.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubectl_nrl.api import Capacity, ClusterReader, Context
from kubectl_nrl.errors import ClusterError
from kubectl_nrl.manifests.amounts import amounts, pod_amounts
from kubectl_nrl.manifests.pods import pod_sets
from kubectl_nrl.node_room import capacity_of_nodes
from kubectl_nrl.written import dig

from .kai_objects import QUEUES

REQUIRED = "kai.scheduler/topology-required-placement"


def capacity(ctx: Context, cluster: ClusterReader, queues: Iterable[str], label: str) -> Capacity:
    """GPUs for the rendered pods; groups whose pods require a domain of `label` are placed in one each."""
    pods = [pods for manifest in ctx.rendered for pods in pod_sets(manifest)]
    together = frozenset(
        p.group for p in pods if label and p.group and dig(p.template, "metadata", "annotations", REQUIRED) == label
    )
    found = capacity_of_nodes(ctx, cluster, label=label, together=together)
    gpu = str(ctx.profile.get("gpus.resource", "nvidia.com/gpu"))
    lefts = [left for queue in queues for left in headrooms(cluster, queue, gpu)]
    left, queue = min(lefts, default=(found.free_gpus, ""))
    if left >= found.free_gpus:
        return found
    needed = sum(pod_amounts(p.spec).get(gpu, 0) * p.count for p in pods)
    words = f'queue "{queue}" has {left} GPUs left below its limit'
    return Capacity(
        left, found.total_gpus, f"{found.detail}; {words}".lstrip("; "), bool(found.fits) and needed <= left
    )


def headrooms(cluster: ClusterReader, name: str, gpu: str) -> list[tuple[int, str]]:
    """GPUs that the limits of a queue and of its ancestors leave, with the queue's name; nothing where none limits them.

    Source: KAI's pkg/apis/scheduling/v2/queue_types.go (`status.allocated` is a ResourceList; a limit of -1 is none).
    """
    lefts: list[tuple[int, str]] = []
    at, seen = name, set[str]()
    while at and at not in seen:
        seen.add(at)
        try:
            queue = cluster.get(*QUEUES, at)
        except ClusterError as error:
            if error.status != 403 and error.reason != "NotServed":
                raise
            break
        limit = dig(queue, "spec", "resources", "gpu", "limit")
        used = amounts(dig(queue, "status", "allocated")).get(gpu, 0)
        if isinstance(limit, (int, float)) and limit >= 0:
            lefts.append((max(0, int(limit - used)), at))
        at = str(dig(queue, "spec", "parentQueue") or "")
    return lefts
