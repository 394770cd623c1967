"""A Ray cluster as its RayCluster object tells it: pure functions, whoever made the object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .. import raycluster_state
from ..labels import FROM_KIND, FROM_NAME, RUN, labels_of
from ..raycluster_state import HEAD_DOWN, SUSPENDED, state_of, whole
from .named import Owned


@dataclass(frozen=True)
class ClusterRecord(Owned):
    """One RayCluster. Times are aware (UTC)."""

    @property
    def raycluster(self) -> Mapping[str, Any]:
        return self.manifest

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
        return raycluster_state.head_ready(self.raycluster)

    @property
    def may_answer(self) -> bool:
        """Whether it is worth asking Ray: the head was up once, and nobody took it away."""
        return self.head_ready or self.state == HEAD_DOWN

    @property
    def pods(self) -> tuple[int, int]:
        """Pods ready, and pods wanted, the head among both."""
        return raycluster_state.pods_of(self.raycluster)

    @property
    def gpus(self) -> int:
        """GPUs that its pods ask for: as KubeRay counts them, else (devices of DRA claims) what Ray is told of; 0 while suspended."""
        if self.state == SUSPENDED:
            return 0
        return whole((self.raycluster.get("status") or {}).get("desiredGPU")) or _told_gpus(
            self.raycluster.get("spec") or {}
        )

    @property
    def state(self) -> str:
        """What it is now; `Created` until KubeRay has looked at it."""
        return state_of(self.raycluster)

    @property
    def reason(self) -> str:
        """Why it is not ready, in KubeRay's words; empty where it gives none."""
        return raycluster_state.reason_of(self.raycluster)


def _told_gpus(spec: Mapping[str, Any]) -> int:
    """GPUs by `rayStartParams.num-gpus` of head and workers: where devices come by claims, no resource counts them."""
    head = whole(((spec.get("headGroupSpec") or {}).get("rayStartParams") or {}).get("num-gpus"))
    groups = (group for group in spec.get("workerGroupSpecs") or () if not group.get("suspend"))
    return head + sum(
        whole((group.get("rayStartParams") or {}).get("num-gpus"))
        * whole(group.get("replicas"))
        * max(1, whole(group.get("numOfHosts")))
        for group in groups
    )


def ordered(clusters: list[ClusterRecord], mine: str) -> list[ClusterRecord]:
    """Those of the owner `mine` first, then by namespace and owner; among equals the newest first."""
    newest = sorted(
        clusters, key=lambda c: (str(c.raycluster["metadata"].get("creationTimestamp") or ""), c.name), reverse=True
    )
    return sorted(newest, key=lambda c: (c.owner != mine, c.namespace, c.owner))
