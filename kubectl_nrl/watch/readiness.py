"""Whether a RayCluster or a Deployment is up, from its object alone, and what is missing in words.

KubeRay does not take `state: ready` back when pods die, nor the condition RayClusterProvisioned, so both conditions and the workers'
count are asked for together (ray-operator: raycluster_controller.go, calculateStatus).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..rayjob_state import status_of


@dataclass(frozen=True)
class Readiness:
    """`ready`; else `words` say what is missing. `stuck`: it does not get ready by waiting."""

    ready: bool
    words: str
    stuck: bool = False


def readiness_of(live: Mapping[str, Any], suspended_by: str = "") -> Readiness:
    """A RayCluster's or Deployment's. `suspended_by` names the scheduler that may suspend it, and will resume it."""
    if live["metadata"].get("deletionTimestamp"):
        return Readiness(False, "being deleted", stuck=True)
    return _deployment(live) if live.get("kind") == "Deployment" else _ray_cluster(live, suspended_by)


def conditions_of(live: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Conditions by type."""
    return {str(c.get("type")): c for c in status_of(live).get("conditions") or ()}


def workers_of(live: Mapping[str, Any]) -> tuple[int, int]:
    """Ready and desired workers of a RayCluster, as KubeRay counts them."""
    status = status_of(live)
    return int(status.get("readyWorkerReplicas") or 0), int(status.get("desiredWorkerReplicas") or 0)


def _ray_cluster(live: Mapping[str, Any], suspended_by: str) -> Readiness:
    if (live.get("spec") or {}).get("suspend"):
        if suspended_by:
            return Readiness(False, f"suspended: {suspended_by} has not admitted it yet")
        return Readiness(False, "suspended (its spec.suspend is true)", stuck=True)
    status = status_of(live)
    if not status or int(status.get("observedGeneration") or 0) < int(live["metadata"].get("generation") or 0):
        return Readiness(False, "accepted, KubeRay has not looked at it yet")
    missing = _trouble(live) or _missing(live)
    return Readiness(False, missing) if missing else Readiness(True, f"ready, {_count(workers_of(live)[1], 'worker')}")


def _trouble(live: Mapping[str, Any]) -> str:
    """What KubeRay complains of."""
    status, failure = status_of(live), conditions_of(live).get("ReplicaFailure") or {}
    if status.get("state") == "failed":
        return f"failed: {_line(status.get('reason')) or 'KubeRay does not say why'}"
    if failure.get("status") == "True":
        return f"{failure.get('reason') or 'ReplicaFailure'}: {_line(failure.get('message'))}"
    return ""


def _missing(live: Mapping[str, Any]) -> str:
    """What is not there yet; a KubeRay that writes no conditions (before 1.3) only says `state`."""
    conditions = conditions_of(live)
    met = {name for name, condition in conditions.items() if condition.get("status") == "True"}
    if conditions and "HeadPodReady" not in met:
        return "its head pod is not ready"
    ready, desired = workers_of(live)
    if ready < desired:
        return f"{ready}/{desired} workers ready"
    provisioned = "RayClusterProvisioned" in met if conditions else status_of(live).get("state") == "ready"
    return "" if provisioned else "starting"


def _deployment(live: Mapping[str, Any]) -> Readiness:
    status, conditions = status_of(live), conditions_of(live)
    if int(status.get("observedGeneration") or 0) < int(live["metadata"].get("generation") or 0):
        return Readiness(False, "accepted, its controller has not looked at it yet")
    wanted = (live.get("spec") or {}).get("replicas")
    wanted = 1 if wanted is None else int(wanted)
    available, updated = int(status.get("availableReplicas") or 0), int(status.get("updatedReplicas") or 0)
    if min(available, updated) >= wanted:
        return Readiness(True, f"ready, {_count(wanted, 'replica')}")
    for name in ("ReplicaFailure", "Progressing"):
        condition = conditions.get(name) or {}
        failed = condition.get("status") == ("True" if name == "ReplicaFailure" else "False")
        if failed:
            return Readiness(False, f"{condition.get('reason')}: {_line(condition.get('message'))}")
    return Readiness(False, f"{min(available, updated)}/{wanted} replicas ready")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _line(text: Any) -> str:
    return " ".join(str(text or "").split())[:300]
