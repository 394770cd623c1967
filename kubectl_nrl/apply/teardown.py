"""Names what holds a finished run's pods and claims when they do not go: a finalizer, a node that does not answer, KubeRay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ClusterError
from ..labels import RAY_API


@dataclass(frozen=True)
class Holder:
    """What holds something, as a sentence without its end, and the command that shows it."""

    words: str
    look: str


def holders(cluster: Any, namespace: str, ray_cluster: str, left: Iterable[Mapping[str, Any]]) -> Iterator[Holder]:
    """Why the objects `left` (pods and ResourceClaims of one Ray cluster) are still there."""
    found = list(left)
    pods = [obj for obj in found if "nodeName" in (obj.get("spec") or {}) or obj.get("kind", "Pod") == "Pod"]
    if any(not pod["metadata"].get("deletionTimestamp") for pod in pods):
        yield from _of_cluster(cluster, namespace, ray_cluster)
    for obj in found:
        kind = str(obj.get("kind") or "Pod").lower()
        meta = obj["metadata"]
        look = f"kubectl get {kind} {meta['name']} -n {namespace} -o yaml"
        yield Holder(f"{kind} {meta['name']} is still there ({_why(cluster, obj)})", look)


def _why(cluster: Any, obj: Mapping[str, Any]) -> str:
    meta = obj["metadata"]
    finalizers = ", ".join(meta.get("finalizers") or ())
    if not meta.get("deletionTimestamp"):
        return "not being deleted"
    if finalizers:
        return f"being deleted; finalizer {finalizers}"
    node = str((obj.get("spec") or {}).get("nodeName") or "")
    if node and not _ready(cluster, node):
        return f"being deleted; its node {node} is not ready, so nobody ends its containers"
    return "being deleted; its containers have not ended"


def _of_cluster(cluster: Any, namespace: str, ray_cluster: str) -> Iterator[Holder]:
    """Pods that nobody deletes: their Ray cluster is held, or KubeRay has not acted on it."""
    try:
        live = cluster.get(RAY_API, "RayCluster", ray_cluster, namespace)
    except ClusterError:
        return
    if live is None:
        return
    look = f"kubectl get raycluster {ray_cluster} -n {namespace} -o yaml"
    finalizers = ", ".join(live["metadata"].get("finalizers") or ())
    if live["metadata"].get("deletionTimestamp"):
        held = f"finalizer {finalizers}" if finalizers else "no finalizer: Kubernetes' garbage collection is behind"
        yield Holder(f"raycluster {ray_cluster} is being deleted and does not go ({held})", look)
    else:
        yield Holder(f"KubeRay has not acted on raycluster {ray_cluster}: its operator may be down", look)


def _ready(cluster: Any, name: str) -> bool:
    """Whether a node is ready; who may not see nodes takes it for so."""
    try:
        node = cluster.get("v1", "Node", name)
    except ClusterError:
        return True
    conditions = ((node or {}).get("status") or {}).get("conditions") or ()
    return node is not None and any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
