"""Whether the cluster serves what a run is made of, and whether the run's name is free for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..api import Check, ClusterFacts
from ..labels import RAY_API

if TYPE_CHECKING:
    from ..plan.model import Plan


def kuberay_age(facts: ClusterFacts) -> str:
    """The KubeRay that serves such RayJobs, from their fields: its version stands nowhere that everybody may read."""
    if facts.deletion_rules:
        return "1.6 or newer"
    if not facts.rayjob_fields:
        return "of unknown version (its schema may not be read)"
    return "1.4 or 1.5" if "deletionStrategy" in facts.rayjob_fields else "older than 1.4"


def kuberay_check(facts: ClusterFacts, versions: Sequence[str], install: str) -> Check:
    """Whether ray.io/v1 is served, and by how new a KubeRay."""
    if not facts.kuberay:
        others = f"; it serves ray.io/{', '.join(versions)} alone, of a KubeRay before 1.0" if versions else ""
        return Check("KubeRay", False, f"this cluster has no KubeRay (ray.io/v1 is not served){others}", install)
    without = (
        "" if facts.deletion_rules else ": it cannot keep the head for its log, so the cluster goes as one at the end"
    )
    return Check("KubeRay", True, f"{kuberay_age(facts)}, ray.io/v1 is served{without}")


def name_checks(cluster: Any, plan: Plan) -> Iterator[Check]:
    """A RayJob and a RayCluster of one name want one head Service, and KubeRay turns it to whichever came last.

    Source: KubeRay's rayjob_controller.go, reconcileServices, and utils.GenerateHeadServiceName.
    """
    other = "RayCluster" if plan.kind == "RayJob" else "RayJob"
    for obj in plan.objects:
        if obj.kind not in ("RayJob", "RayCluster"):
            continue
        found = cluster.get(RAY_API, other, obj.name, plan.namespace)
        if found is not None and not (found.get("metadata") or {}).get("deletionTimestamp"):
            fix = (
                "--rayjob-name OTHER"
                if plan.kind == "RayJob"
                else f"kubectl delete rayjob {obj.name} -n {plan.namespace}"
            )
            detail = f"a {other} has this name: the head Service {obj.name}-head-svc would be taken from it"
            yield Check(f'name "{obj.name}"', False, detail, fix)
