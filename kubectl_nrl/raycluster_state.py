"""What a RayCluster's status means: the one place that decides it.

KubeRay's `status.state` is not withdrawn once it was `ready`, so a state is read from the conditions and from the
counts of workers, and `status.state` only where an older KubeRay writes no conditions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: States of a cluster, as they are shown.
READY, STARTING, DEGRADED, HEAD_DOWN = "Ready", "Starting", "Degraded", "HeadNotReady"
SUSPENDED, SUSPENDING, FAILED, TERMINATING, CREATED = "Suspended", "Suspending", "Failed", "Terminating", "Created"

#: Digits of the largest count that is believed.
_DIGITS = 9

_WORDS = {
    READY: "ready",
    STARTING: "its pods are starting",
    DEGRADED: "some of its workers are not ready",
    HEAD_DOWN: "its head is not ready",
    SUSPENDED: "suspended: it has no pods",
    SUSPENDING: "being suspended",
    FAILED: "KubeRay could not make its pods",
    TERMINATING: "being deleted",
    CREATED: "accepted, KubeRay has not looked at it yet",
}

#: The longest word that a column of states has to hold.
WIDEST = max(_WORDS, key=len)


def state_of(raycluster: Mapping[str, Any]) -> str:
    """What it is now, from its conditions; `Created` until KubeRay has looked at it."""
    if raycluster["metadata"].get("deletionTimestamp"):
        return TERMINATING
    held = _held_back(raycluster)
    if held:
        return held
    if is_true(raycluster, "ReplicaFailure") or _status(raycluster).get("state") == "failed":
        return FAILED
    return _progress(raycluster) if _status(raycluster) else CREATED


def describe(state: str) -> str:
    """A state as a phrase."""
    return _WORDS[state]


def head_ready(raycluster: Mapping[str, Any]) -> bool:
    """Whether its head pod is ready, by KubeRay's condition, else (KubeRay before 1.3 has none) by the state of all."""
    head = condition(raycluster, "HeadPodReady")
    return head.get("status") == "True" if head else _status(raycluster).get("state") == "ready"


def pods_of(raycluster: Mapping[str, Any]) -> tuple[int, int]:
    """Pods ready, and pods wanted, the head among both, as KubeRay counts them."""
    status = _status(raycluster)
    wanted = whole(status.get("desiredWorkerReplicas"))
    return int(head_ready(raycluster)) + whole(status.get("readyWorkerReplicas")), 1 + wanted


def reason_of(raycluster: Mapping[str, Any]) -> str:
    """Why it is not ready, in KubeRay's words; empty where it gives none."""
    state = state_of(raycluster)
    if state == FAILED:
        failure = condition(raycluster, "ReplicaFailure")
        return str(failure.get("message") or failure.get("reason") or _status(raycluster).get("reason") or "")
    if state in (STARTING, HEAD_DOWN):
        head = condition(raycluster, "HeadPodReady")
        said = str(head.get("reason") or "") if head.get("status") != "True" else ""
        # KubeRay writes Unknown for a head that has only just been made, and a head that starts is not there yet.
        return "" if said == "Unknown" or (said == "HeadPodNotFound" and state == STARTING) else said
    if state == TERMINATING:
        return ", ".join(raycluster["metadata"].get("finalizers") or ())
    return ""


def condition(obj: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """The condition of that type in an object's status; empty when it has none."""
    return next((c for c in _status(obj).get("conditions") or () if c.get("type") == kind), {})


def is_true(obj: Mapping[str, Any], kind: str) -> bool:
    """Whether the object has that condition, and it holds."""
    return condition(obj, kind).get("status") == "True"


def whole(value: Any) -> int:
    """A count of KubeRay's, or of `rayStartParams`, where any text may stand; 0 for what is none, or an absurd one."""
    text = str(value or "0")
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else 0


def _held_back(raycluster: Mapping[str, Any]) -> str:
    """The state of a cluster that is suspended, or on its way there; empty otherwise."""
    status, asked = _status(raycluster), bool((raycluster.get("spec") or {}).get("suspend"))
    if is_true(raycluster, "RayClusterSuspended") or status.get("state") == "suspended" or (asked and not status):
        return SUSPENDED
    return SUSPENDING if asked or is_true(raycluster, "RayClusterSuspending") else ""


def _progress(raycluster: Mapping[str, Any]) -> str:
    ready, wanted = pods_of(raycluster)
    was_up = is_true(raycluster, "RayClusterProvisioned") or _status(raycluster).get("state") == "ready"
    if head_ready(raycluster) and ready >= wanted:
        return READY
    if not was_up:
        return STARTING
    return DEGRADED if head_ready(raycluster) else HEAD_DOWN


def _status(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    return obj.get("status") or {}
