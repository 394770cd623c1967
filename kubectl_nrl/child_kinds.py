"""The kinds of objects that a run is given beside its workload, and which of them serve its workers alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

DRA_GROUP, DOMAIN_GROUP = "resource.k8s.io", "resource.nvidia.com"

#: What nobody needs once the workers are gone, in the order in which it may go: a ComputeDomain last, since deleted
#: under its pods it takes NVLink from them (dra-driver-nvidia-gpu PR #384).
WORKERS_ONLY = ("Deployment", "Service", "ResourceClaimTemplate", "ComputeDomain")


def child_kinds(served: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Kind -> apiVersion, in the newest version served, without what is not served; `served` is group -> versions."""
    kinds = {"ConfigMap": "v1", "Service": "v1", "Deployment": "apps/v1"}
    for group, kind in ((DRA_GROUP, "ResourceClaimTemplate"), (DOMAIN_GROUP, "ComputeDomain")):
        if version := newest(served, group):
            kinds[kind] = version
    return kinds


def newest(served: Mapping[str, Sequence[str]], group: str) -> str:
    """The group's apiVersion that the server prefers; empty when the group is not served."""
    return next((f"{group}/{version}" for version in served.get(group, ())), "")
