"""What a Deployment says itself: the replicas that it wants, and those that the API server refused it.

Sources: Kubernetes' pkg/controller/deployment/util (conditions ReplicaFailure and Progressing, with the message of the ReplicaSet).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..raycluster_state import condition, whole
from .causes import denied
from .model import Trouble
from .pods import REPLICAS, who
from .ray_objects import Wanted, template_gpus


def replicas(deployment: Mapping[str, Any]) -> int:
    """How many it should have; one where it does not say."""
    written = (deployment.get("spec") or {}).get("replicas")
    return 1 if written is None else whole(written)


def replicas_wanted(deployment: Mapping[str, Any] | None) -> list[Wanted]:
    """As `ray_objects.wanted`."""
    if deployment is None:
        return []
    return [Wanted(REPLICAS, REPLICAS, replicas(deployment), template_gpus(deployment.get("spec") or {}))]


def deployment_troubles(deployment: Mapping[str, Any], present: Mapping[str, int]) -> Iterator[Trouble]:
    """Pods that could not be created; `present` counts those that were, by role."""
    failure, total = condition(deployment, "ReplicaFailure"), replicas(deployment)
    lacking = total - present.get(REPLICAS, 0)
    if failure.get("status") == "True" and lacking > 0:
        found = denied(str(failure.get("reason")), str(failure.get("message") or ""))
        yield Trouble(who({REPLICAS: lacking}, {REPLICAS: total}), found.reason, found.message, found.heals, found.key)
