"""Why a head does not know a job that it was given: when it started, and what ended the one before it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ..errors import ClusterError
from ..labels import RAY_CLUSTER, RAY_NODE_TYPE, labels_of
from ..rayjob_state import parse_time, span
from .containers import ray_container


def head_history(cluster: Any, namespace: str, ray_cluster: str) -> str:
    """`the head restarted 4m ago (OOMKilled); its history is lost`, as far as the head's pod tells."""
    try:
        pods = cluster.list("v1", "Pod", namespace, label_selector=f"{RAY_CLUSTER}={ray_cluster},{RAY_NODE_TYPE}=head")
        now = cluster.time()
    except ClusterError:
        pods, now = [], None
    alive = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    if not alive:
        return f"the head of raycluster/{ray_cluster} was replaced; the history of its jobs is lost"
    pod = max(alive, key=lambda pod: str(pod["metadata"].get("creationTimestamp") or ""))
    since, why = _last_start(pod)
    ago = f" {span((now - since).total_seconds())} ago" if since and now else ""
    return (
        f"the head of raycluster/{ray_cluster} restarted{ago}{f' ({why})' if why else ''}; "
        "the history of its jobs is lost"
    )


def same_head(cluster: Any, namespace: str, ray_cluster: str, pod: str) -> bool:
    """Whether the head is still the pod of that name, and its container was never started again; False where that cannot be told."""
    try:
        live = cluster.get("v1", "Pod", pod, namespace) if pod else None
    except ClusterError:
        return False
    if live is None or live["metadata"].get("deletionTimestamp"):
        return False
    return labels_of(live).get(RAY_CLUSTER) == ray_cluster and not _last_start(live)[1]


def _last_start(pod: Mapping[str, Any]) -> tuple[datetime | None, str]:
    """When the Ray container last started, and what ended it before (core/v1 ContainerStatus)."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    name = ray_container(pod) if (pod.get("spec") or {}).get("containers") else ""
    for status in statuses:
        if status.get("name") == name or len(statuses) == 1:
            running = (status.get("state") or {}).get("running") or {}
            ended = (status.get("lastState") or {}).get("terminated") or {}
            code = f"exit {ended['exitCode']}" if "exitCode" in ended else ""
            return parse_time(running.get("startedAt")), str(ended.get("reason") or code)
    return parse_time(pod["metadata"].get("creationTimestamp")), ""
