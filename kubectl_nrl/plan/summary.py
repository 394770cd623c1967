"""The short form of a Plan that `check` shows: per role its pods, GPUs, images, groups and claims, read off the rendered objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .choices import Choices
from .drafts import Drafts
from .model import WORKLOAD_WAVE, GroupPlan, PlannedObject, RolePlan
from .roles import gpus_of


def role_plans(drafts: Drafts, objects: Sequence[PlannedObject], choices: Choices) -> tuple[RolePlan, ...]:
    """One per Ray cluster, in the order of the roles."""
    resource = str(choices.profile.get("gpus.resource", "nvidia.com/gpu"))
    found = []
    for name in drafts.roles:
        workload = next(
            o for o in objects if o.role == name and o.wave == WORKLOAD_WAVE and o.kind in ("RayJob", "RayCluster")
        )
        spec = workload.manifest["spec"]
        cluster = spec.get("rayClusterSpec", spec)
        head, groups = cluster["headGroupSpec"], cluster.get("workerGroupSpecs") or []
        claims = sorted({claim for group in (head, *groups) for claim in _claims(group)})
        plans = tuple(
            GroupPlan(
                str(g["groupName"]),
                int(g.get("replicas", 0)) * int(g.get("numOfHosts", 1) or 1),
                gpus_of(g, resource),
                _image(g),
            )
            for g in groups
        )
        found.append(
            RolePlan(name, workload.name, workload.kind, _image(head), gpus_of(head, resource), plans, tuple(claims))
        )
    return tuple(found)


def _image(group: Mapping[str, Any]) -> str:
    containers = (((group.get("template") or {}).get("spec")) or {}).get("containers") or [{}]
    return str(containers[0].get("image", ""))


def _claims(group: Mapping[str, Any]) -> list[str]:
    pod = ((group.get("template") or {}).get("spec")) or {}
    named = [c.get("resourceClaimTemplateName") or c.get("resourceClaimName") for c in pod.get("resourceClaims") or []]
    return [str(n) for n in named if n]
