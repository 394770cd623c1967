"""A Ray cluster as its RayCluster object tells it: pure functions, whoever made the object.

KubeRay's `status.state` is not withdrawn once it was `ready`, so a state is read from the conditions and from the
counts of workers, and `status.state` only where an older KubeRay writes no conditions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..labels import FROM_KIND, FROM_NAME, OWNER, RUN, UPSTREAM_OWNER, labels_of
from ..rayjob_state import parse_time

#: States of a cluster, as they are shown.
READY, STARTING, DEGRADED, HEAD_DOWN = "Ready", "Starting", "Degraded", "HeadNotReady"
SUSPENDED, SUSPENDING, FAILED, TERMINATING, CREATED = "Suspended", "Suspending", "Failed", "Terminating", "Created"


@dataclass(frozen=True)
class ClusterRecord:
    """One RayCluster. Times are aware (UTC)."""

    raycluster: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.raycluster["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.raycluster["metadata"]["namespace"])

    @property
    def uid(self) -> str:
        return str(self.raycluster["metadata"]["uid"])

    @property
    def created(self) -> datetime | None:
        return parse_time(self.raycluster["metadata"].get("creationTimestamp"))

    @property
    def owner(self) -> str:
        labels = labels_of(self.raycluster)
        return labels.get(OWNER) or labels.get(UPSTREAM_OWNER) or ""

    @property
    def rayjob(self) -> str:
        """Name of the RayJob that it belongs to; empty for a long-lived cluster (KubeRay: originated-from labels)."""
        labels = labels_of(self.raycluster)
        return labels.get(FROM_NAME, "") if labels.get(FROM_KIND) == "RayJob" else ""

    @property
    def run(self) -> str:
        """The run it was made for: its id, else the RayJob as `rayjob/NAME`; empty for a long-lived cluster."""
        return labels_of(self.raycluster).get(RUN) or (f"rayjob/{self.rayjob}" if self.rayjob else "")

    @property
    def head_ready(self) -> bool:
        head = self._condition("HeadPodReady")
        return head["status"] == "True" if head else self._status.get("state") == "ready"

    @property
    def may_answer(self) -> bool:
        """Whether it is worth asking Ray: the head was up once, and nobody took it away."""
        return self.head_ready or self.state == HEAD_DOWN

    @property
    def pods(self) -> tuple[int, int]:
        """Pods ready, and pods wanted, the head among both."""
        wanted = _whole(self._status.get("desiredWorkerReplicas"))
        return int(self.head_ready) + _whole(self._status.get("readyWorkerReplicas")), 1 + wanted

    @property
    def gpus(self) -> int:
        """GPUs that its pods ask for: as KubeRay counts them, else (devices of DRA claims) what Ray is told of; 0 while suspended."""
        if self.state == SUSPENDED:
            return 0
        return _whole(self._status.get("desiredGPU")) or _told_gpus(self.raycluster.get("spec") or {})

    @property
    def state(self) -> str:
        """What it is now, from its conditions; `Created` until KubeRay has looked at it."""
        if self.raycluster["metadata"].get("deletionTimestamp"):
            return TERMINATING
        held = self._held_back
        if held:
            return held
        if self._is("ReplicaFailure") or self._status.get("state") == "failed":
            return FAILED
        return self._progress if self._status else CREATED

    @property
    def _held_back(self) -> str:
        """The state of a cluster that is suspended, or on its way there; empty otherwise."""
        asked = bool((self.raycluster.get("spec") or {}).get("suspend"))
        if self._is("RayClusterSuspended") or self._status.get("state") == "suspended" or (asked and not self._status):
            return SUSPENDED
        return SUSPENDING if asked or self._is("RayClusterSuspending") else ""

    @property
    def _progress(self) -> str:
        ready, wanted = self.pods
        was_up = self._is("RayClusterProvisioned") or self._status.get("state") == "ready"
        if self.head_ready and ready >= wanted:
            return READY
        if not was_up:
            return STARTING
        return DEGRADED if self.head_ready else HEAD_DOWN

    @property
    def reason(self) -> str:
        """Why it is not ready, in KubeRay's words; empty where it gives none."""
        state = self.state
        if state == FAILED:
            failure = self._condition("ReplicaFailure") or {}
            return str(failure.get("message") or failure.get("reason") or self._status.get("reason") or "")
        if state in (STARTING, HEAD_DOWN):
            head = self._condition("HeadPodReady") or {}
            said = str(head.get("reason") or "") if head.get("status") != "True" else ""
            # KubeRay writes Unknown for a head that has only just been made, and a head that starts is not there yet.
            return "" if said == "Unknown" or (said == "HeadPodNotFound" and state == STARTING) else said
        if state == TERMINATING:
            return ", ".join(self.raycluster["metadata"].get("finalizers") or ())
        return ""

    @property
    def _status(self) -> Mapping[str, Any]:
        return self.raycluster.get("status") or {}

    def _condition(self, kind: str) -> Mapping[str, Any] | None:
        return next((c for c in self._status.get("conditions") or () if c.get("type") == kind), None)

    def _is(self, kind: str) -> bool:
        return (self._condition(kind) or {}).get("status") == "True"


def _whole(value: Any) -> int:
    text = str(value or "0")
    return int(text) if text.isdecimal() else 0


def _told_gpus(spec: Mapping[str, Any]) -> int:
    """GPUs by `rayStartParams.num-gpus` of head and workers: where devices come by claims, no resource counts them."""
    head = _whole(((spec.get("headGroupSpec") or {}).get("rayStartParams") or {}).get("num-gpus"))
    groups = (group for group in spec.get("workerGroupSpecs") or () if not group.get("suspend"))
    return head + sum(
        _whole((group.get("rayStartParams") or {}).get("num-gpus"))
        * _whole(group.get("replicas"))
        * max(1, _whole(group.get("numOfHosts")))
        for group in groups
    )


def ordered(clusters: list[ClusterRecord], mine: str) -> list[ClusterRecord]:
    """Those of the owner `mine` first, then by namespace and owner; among equals the newest first."""
    newest = sorted(
        clusters, key=lambda c: (str(c.raycluster["metadata"].get("creationTimestamp") or ""), c.name), reverse=True
    )
    return sorted(newest, key=lambda c: (c.owner != mine, c.namespace, c.owner))
