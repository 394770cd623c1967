"""What the least Role grants: all that the tool uses in a namespace for RayJobs, in every verb.

A run is refused for few of them. The others show why it waits, or take away what it left, and every verb does without.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .permissions import RAY, Need, Wanted, each_once, rayjob_needs

if TYPE_CHECKING:
    from ..api import ClusterFacts

_DRA, _DOMAINS = "resource.k8s.io", "resource.nvidia.com"
_LITTER = "to find and remove what runs left behind"


def least_needs(facts: ClusterFacts | None) -> list[Need]:
    """Each permission once; what only some clusters serve is in it where `facts` say so, None for a cluster that is not known."""
    needs = [
        Need("create", RAY, "rayjobs", "to make runs"),
        *rayjob_needs(Wanted(wait=True, uploads=True)),
        *_looking(),
        *_beside_a_run("", "configmaps", "for launch scripts that are too long for a RayJob"),
    ]
    if facts and facts.dra_version:
        needs += _beside_a_run(_DRA, "resourceclaimtemplates", "for claims of NICs and NVLink")
        needs += [Need(verb, _DRA, "resourceclaims", _LITTER, False) for verb in ("list", "delete")]
    if facts and facts.compute_domain_version:
        needs += _beside_a_run(_DOMAINS, "computedomains", "for NVLink between nodes")
    if facts and facts.kai:
        needs.append(Need("list", "scheduling.run.ai", "podgroups", "to say why KAI lets a run wait", False))
    if facts and facts.kueue:
        for verb, resource in (("list", "workloads"), ("get", "localqueues")):
            needs.append(Need(verb, "kueue.x-k8s.io", resource, "to say why Kueue lets a run wait", False))
    return each_once(needs)


def _looking() -> Iterator[Need]:
    """For `status`, `cluster list`, `logs` of pods, `verify`, `clean`."""
    yield Need("list", RAY, "rayclusters", "to list Ray clusters, and what runs left behind", False)
    yield Need("watch", RAY, "rayclusters", "to show how Ray clusters change (cluster list -w)", False)
    yield Need("get", "", "pods", "to show a pod's log", False)
    yield Need("get", "", "pods/log", "to show a pod's log", False)
    yield Need("delete", "", "pods", _LITTER, False)
    yield Need("list", "", "persistentvolumeclaims", "to say why a volume is not bound", False)


def _beside_a_run(group: str, resource: str, why: str) -> Iterator[Need]:
    """What is made beside a RayJob: made, given its owner, found again, removed."""
    for verb in ("create", "get", "patch"):
        yield Need(verb, group, resource, why, False)
    for verb in ("list", "delete"):
        yield Need(verb, group, resource, _LITTER, False)
