"""What a Plan's pods ask for together, as Kueue counts it (its pkg/util/limitrange and pkg/dra/claims.go).

Rendered manifests are frozen, so their lists are tuples.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kubectl_nrl.manifests.amounts import Amounts, plus, pod_amounts
from kubectl_nrl.manifests.pods import pod_sets
from kubectl_nrl.written import dig, maps


def claimed_classes(manifests: Iterable[Mapping[str, Any]]) -> set[str]:
    """DeviceClasses of the claim templates among the manifests."""
    found = set()
    for manifest in manifests:
        if manifest.get("kind") == "ResourceClaimTemplate":
            for _, request in maps(_listed(dig(manifest, "spec", "spec", "devices", "requests"))):
                exactly = request.get("exactly") or request
                found.add(str(exactly.get("deviceClassName")))
    return found - {"None"}


def requested(manifests: Iterable[Mapping[str, Any]]) -> Amounts:
    """What the pods of RayJobs and RayClusters request together; a submitter's pod is none of the Ray cluster's."""
    total: Amounts = {}
    for manifest in manifests:
        if manifest.get("kind") in ("RayJob", "RayCluster"):
            for pods in pod_sets(manifest):
                if "submitterPodTemplate" not in pods.at:
                    total = plus(total, pod_amounts(pods.spec), pods.count)
    return {resource: amount for resource, amount in total.items() if amount}


def _listed(value: Any) -> list[Any]:
    """Rendered manifests are frozen: their lists are tuples."""
    return list(value) if isinstance(value, (list, tuple)) else []
