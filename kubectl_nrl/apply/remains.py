"""What is left of a Ray cluster that somebody deleted, by itself or with its RayJob, until nothing is.

Kubernetes' garbage collection takes the pods, a moment later; what was deleted with its dependents orphaned keeps running.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..labels import FROM_NAME, RAY_API, RAY_CLUSTER

#: Seconds between two looks.
LOOK = 0.5


@dataclass(frozen=True)
class Remains:
    """`pods` that are still there; `orphan` names what nobody will take away, so that its driver may go on (empty: nothing)."""

    pods: tuple[Mapping[str, Any], ...] = ()
    orphan: str = ""
    present: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(str(pod["metadata"]["name"]) for pod in self.pods)


def ray_cluster_of(cluster: Any, namespace: str, rayjob: str) -> str:
    """The newest Ray cluster that KubeRay made for a RayJob of that name; empty for none. Raises `ClusterError`."""
    found = cluster.list(RAY_API, "RayCluster", namespace, label_selector=f"{FROM_NAME}={rayjob}")
    newest = max(found, key=lambda one: str(one["metadata"].get("creationTimestamp") or ""), default=None)
    return str(newest["metadata"]["name"]) if newest is not None else ""


def remains(cluster: Any, namespace: str, ray_cluster: str, uid: str = "") -> Remains:
    """One look. `uid`: that of the RayCluster, where another of its name may be there. Raises `ClusterError`."""
    live = cluster.get(RAY_API, "RayCluster", ray_cluster, namespace)
    if live is not None and uid and live["metadata"]["uid"] != uid:
        live = None
    found = cluster.list("v1", "Pod", namespace, label_selector=f"{RAY_CLUSTER}={ray_cluster}")
    pods = tuple(pod for pod in found if not uid or not _owners(pod) or uid in _owners(pod))
    left = [f"pod {pod['metadata']['name']}" for pod in pods if _orphaned(pod)]
    if live is not None:
        left = [f"raycluster/{ray_cluster}"] if _orphaned(live) else []
    return Remains(pods, ", ".join(left), live is not None)


def until_gone(cluster: Any, namespace: str, ray_cluster: str, *, uid: str = "", within: float) -> Remains:
    """Look until nothing is left, an orphan is, or `within` seconds are over: what is left then. Raises `ClusterError`."""
    deadline = time.monotonic() + within
    while True:
        seen = remains(cluster, namespace, ray_cluster, uid)
        if seen.orphan or not (seen.pods or seen.present) or time.monotonic() >= deadline:
            return seen
        time.sleep(LOOK)


def _owners(obj: Mapping[str, Any]) -> set[str]:
    return {str(ref.get("uid")) for ref in obj["metadata"].get("ownerReferences") or ()}


def _orphaned(obj: Mapping[str, Any]) -> bool:
    return not obj["metadata"].get("deletionTimestamp") and not _owners(obj)
