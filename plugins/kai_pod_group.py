"""What the PodGroup that KAI made of a run says of its pods, and how far the gang is.

KAI leaves a PodGroup's condition as it was when its pods get nodes, so the pods are asked as well: a condition counts only
while one of them has none. Fields: KAI's pkg/apis/scheduling/v2alpha2/podgroup_types.go; texts:
pkg/scheduler/cache/status_updater, pkg/scheduler/plugins/{proportion,topology}; annotations: pkg/common/constants.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kubectl_nrl.api import ClusterReader, Reason
from kubectl_nrl.errors import ClusterError
from kubectl_nrl.labels import RAY_CLUSTER
from kubectl_nrl.written import dig, maps

POD_GROUPS = ("scheduling.run.ai/v2alpha2", "PodGroup")
#: KAI's annotation on each pod of a PodGroup.
OF_GROUP = "pod-group-name"
#: When a running gang lost members; KAI evicts the others after its grace (60 s unless configured).
STALE = "kai.scheduler/stale-podgroup-timestamp"

#: Reasons in a PodGroup's conditions that time does not cure.
_LASTING = frozenset({"QueueDoesNotExist", "NonPreemptibleOverQuota"})

Pods = Sequence[Mapping[str, Any]]


def pod_group_reasons(run: Mapping[str, Any], cluster: ClusterReader) -> Iterator[Reason]:
    """Of the PodGroups that belong to the run (its RayJob or RayCluster); nothing where they cannot be read."""
    meta = run.get("metadata") or {}
    try:
        groups = cluster.list(*POD_GROUPS, meta.get("namespace"))
    except ClusterError:
        return
    for group in groups:
        owners = [owner.get("uid") for _, owner in maps(dig(group, "metadata", "ownerReferences"))]
        if meta.get("uid") in owners:
            yield from _group_reasons(group, _members(group, run, cluster))


def _members(group: Mapping[str, Any], run: Mapping[str, Any], cluster: ClusterReader) -> Pods | None:
    """The group's pods that are not on their way out; None when pods may not be seen."""
    name, namespace = dig(group, "metadata", "name"), dig(run, "metadata", "namespace")
    ray_cluster = dig(run, "status", "rayClusterName") or dig(run, "metadata", "name")
    try:
        pods = cluster.list("v1", "Pod", namespace, label_selector=f"{RAY_CLUSTER}={ray_cluster}")
    except ClusterError:
        return None
    mine = [pod for pod in pods if dig(pod, "metadata", "annotations", OF_GROUP) == name]
    return [pod for pod in mine if not dig(pod, "metadata", "deletionTimestamp")]


def _group_reasons(group: Mapping[str, Any], members: Pods | None) -> Iterator[Reason]:
    subject = f"PodGroup {dig(group, 'metadata', 'name')}"
    placed = [pod for pod in members or () if dig(pod, "spec", "nodeName")]
    if members and len(placed) == len(members):
        yield from _staleness(group, subject, members)
        return
    said = list(_conditions(group, subject))
    yield from said
    least = int(dig(group, "spec", "minMember") or 1)
    if members is not None and 0 < len(members) < least:
        words = f"{len(members)} of {least} pods exist; KAI places none before the others do"
        yield Reason(subject, "GangIncomplete", words)
    elif members and (placed or not said):
        words = f"{len(placed)}/{len(members)} pods scheduled (at least {least} start together)"
        yield Reason(subject, "GangWaiting", words)


def _conditions(group: Mapping[str, Any], subject: str) -> Iterator[Reason]:
    """The present condition of each node pool, which is its last one in the list."""
    latest = {c.get("nodePool"): c for _, c in maps(dig(group, "status", "schedulingConditions"))}
    seen = set()
    for condition in latest.values():
        if condition.get("status") == "False":
            continue
        for _, entry in list(maps(condition.get("reasons"))) or [(0, condition)]:
            reason, message = str(entry.get("reason") or "Unschedulable"), str(entry.get("message") or "")
            if not message or (reason, message) in seen:
                continue
            seen.add((reason, message))
            lasting = reason in _LASTING or message.startswith("Requested topology")
            yield Reason(subject, reason, message, heals=not lasting)


def _staleness(group: Mapping[str, Any], subject: str, members: Pods) -> Iterator[Reason]:
    since = dig(group, "metadata", "annotations", STALE)
    if since:
        least = dig(group, "spec", "minMember")
        words = f"{len(members)} pods are left of a gang of at least {least}, since {since}; KAI evicts them after its grace"
        yield Reason(subject, "StaleGang", words)
