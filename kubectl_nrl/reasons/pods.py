"""Which pods of a Ray cluster there are: the head, the workers of each group, ready or not, on their way out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..labels import RAY_GROUP, RAY_NODE_TYPE, labels_of
from ..raycluster_state import condition

Pod = Mapping[str, Any]


def name_of(obj: Mapping[str, Any]) -> str:
    return str(obj["metadata"]["name"])


def being_deleted(pod: Pod) -> bool:
    return bool(pod.get("metadata", {}).get("deletionTimestamp"))


def is_worker(pod: Pod) -> bool:
    return labels_of(pod).get(RAY_NODE_TYPE) == "worker"


def is_ready(pod: Pod) -> bool:
    return condition(pod, "Ready").get("status") == "True"


#: The pods of a Deployment as a role; there is one in what is judged.
REPLICAS = "replicas"


def role_of(pod: Pod) -> str:
    """`head`, `workers of NAME`, or `replicas` (of a Deployment); a pod that is none of these (a submitter) by its name."""
    labels = labels_of(pod)
    kind = labels.get(RAY_NODE_TYPE)
    if kind == "head":
        return "head"
    if kind == "worker":
        return workers_of(str(labels.get(RAY_GROUP) or ""))
    owners = pod["metadata"].get("ownerReferences") or ()
    return REPLICAS if any(ref.get("kind") == "ReplicaSet" for ref in owners) else name_of(pod)


def workers_of(group: str) -> str:
    """A worker group as a role."""
    return f"workers of {group}" if group else "workers"


def who(found: Mapping[str, int], totals: Mapping[str, int]) -> str:
    """Pods counted by role: `head`, `4/4 workers of gpu`, `head and 2/4 workers of gpu`; `17/64 pods` beyond two roles."""
    roles = sorted(found, key=lambda role: (role != "head", role))
    if len(roles) > 2:
        return f"{sum(found.values())}/{sum(max(totals.get(r, 0), found[r]) for r in totals.keys() | set(roles))} pods"
    return " and ".join(_counted(role, found[role], max(totals.get(role, 0), found[role])) for role in roles)


def _counted(role: str, found: int, total: int) -> str:
    return role if total == 1 and not role.startswith(("workers", REPLICAS)) else f"{found}/{total} {role}"


def container_statuses(pod: Pod) -> Iterator[Mapping[str, Any]]:
    """Of the init containers, then of the others, in the order in which they start."""
    status = pod.get("status") or {}
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()
