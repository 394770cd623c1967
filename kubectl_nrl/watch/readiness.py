"""Whether a RayCluster or a Deployment is up, from its object alone, and what is missing in words.

What a RayCluster's status means is decided in `raycluster_state`; here more is asked for before something is submitted to it: that
KubeRay has seen this very spec, and that all its pods were ready once (the condition RayClusterProvisioned).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..raycluster_state import (
    CREATED,
    DEGRADED,
    READY,
    STARTING,
    condition,
    describe,
    head_ready,
    is_true,
    reason_of,
    state_of,
    whole,
)
from ..rayjob_state import status_of
from ..reasons import replicas


@dataclass(frozen=True)
class Readiness:
    """`ready`; else `words` say what is missing, and `why` what the object itself says of that, in its controller's words.

    `stuck`: it does not get ready by waiting.
    """

    ready: bool
    words: str
    stuck: bool = False
    why: str = ""

    @property
    def text(self) -> str:
        """All of it, for who has no better reason at hand (`kubectl_nrl.reasons`)."""
        return f"{self.words}: {self.why}" if self.why else self.words


def readiness_of(live: Mapping[str, Any], suspended_by: str = "") -> Readiness:
    """A RayCluster's or Deployment's. `suspended_by` names the scheduler that may suspend it, and will resume it."""
    if live["metadata"].get("deletionTimestamp"):
        return Readiness(False, "being deleted", stuck=True)
    return _deployment(live) if live.get("kind") == "Deployment" else _ray_cluster(live, suspended_by)


def workers_of(live: Mapping[str, Any]) -> tuple[int, int]:
    """Ready and desired workers of a RayCluster, as KubeRay counts them."""
    status = status_of(live)
    return whole(status.get("readyWorkerReplicas")), whole(status.get("desiredWorkerReplicas"))


def _ray_cluster(live: Mapping[str, Any], suspended_by: str) -> Readiness:
    if (live.get("spec") or {}).get("suspend"):
        if suspended_by:
            return Readiness(False, f"suspended: {suspended_by} has not admitted it yet")
        return Readiness(False, "suspended (its spec.suspend is true)", stuck=True)
    state, reason = state_of(live), _line(reason_of(live))
    if whole(status_of(live).get("observedGeneration")) < whole(live["metadata"].get("generation")):
        state, reason = CREATED, ""
    if state == READY and (is_true(live, "RayClusterProvisioned") or not status_of(live).get("conditions")):
        return Readiness(True, f"ready, {_count(workers_of(live)[1], 'worker')}")
    if state in (READY, STARTING, DEGRADED) and head_ready(live):
        ready, desired = workers_of(live)
        return Readiness(False, f"{ready}/{desired} workers ready" if ready < desired else describe(STARTING))
    return Readiness(False, describe(state), why=reason)


def _deployment(live: Mapping[str, Any]) -> Readiness:
    status = status_of(live)
    if int(status.get("observedGeneration") or 0) < int(live["metadata"].get("generation") or 0):
        return Readiness(False, "accepted, its controller has not looked at it yet")
    wanted = replicas(live)
    available, updated = int(status.get("availableReplicas") or 0), int(status.get("updatedReplicas") or 0)
    if min(available, updated) >= wanted:
        return Readiness(True, f"ready, {_count(wanted, 'replica')}")
    words = f"{min(available, updated)}/{wanted} replicas ready"
    for name in ("ReplicaFailure", "Progressing"):
        found = condition(live, name)
        if found.get("status") == ("True" if name == "ReplicaFailure" else "False"):
            return Readiness(False, words, why=f"{found.get('reason')}: {_line(found.get('message'))}")
    return Readiness(False, words)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _line(text: Any) -> str:
    return " ".join(str(text or "").split())[:300]
