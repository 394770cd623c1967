"""Takes away what served a run's workers, once they are gone: claim templates, Deployments, and ComputeDomains last.

The RayJob stays for days as the record, and what it owns would stay with it: a Deployment's pods, a domain on its nodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ..child_kinds import DRA_GROUP, WORKERS_ONLY, child_kinds, newest
from ..errors import ClusterError
from ..labels import RUN, labels_of
from .release import LOOK


def take_children(cluster: Any, rayjob: Mapping[str, Any], warn: Callable[[str], None]) -> list[str]:
    """Delete what served the workers of a run that is over; `kind/name` of each. What may not be deleted is warned about."""
    meta, run = rayjob["metadata"], labels_of(rayjob).get(RUN)
    if not run:
        return []
    served = child_kinds(cluster.served())
    taken = []
    for kind in WORKERS_ONLY:
        if kind not in served:
            continue
        try:
            found = cluster.list(served[kind], kind, meta["namespace"], label_selector=f"{RUN}={run}")
            for child in found:
                words = f"{kind.lower()}/{child['metadata']['name']}"
                uid = child["metadata"]["uid"]
                cluster.delete(served[kind], kind, child["metadata"]["name"], meta["namespace"], uid=uid)
                taken.append(words)
        except ClusterError as error:
            if error.status != 403 and error.reason != "NotServed":
                warn(f"{kind}s of run {run} may be left: {error.message}; kubectl nrl clean")
    return taken


def wait_for_claims(cluster: Any, namespace: str, pods: Collection[str], within: float) -> list[Mapping[str, Any]]:
    """Wait until the ResourceClaims of these pods (by uid) are gone, `within` seconds at most; those that are left."""
    version = newest(cluster.served(), DRA_GROUP)
    deadline = time.monotonic() + within
    while version and pods:
        try:
            claims = cluster.list(version, "ResourceClaim", namespace)
        except ClusterError as error:
            if error.status == 403 or error.reason == "NotServed":
                return []  # who may not see claims cannot wait for them
            raise
        left = [claim for claim in claims if _pods_of(claim) & set(pods)]
        if not left or time.monotonic() >= deadline:
            return left
        time.sleep(LOOK)
    return []


def _pods_of(claim: Mapping[str, Any]) -> set[str]:
    return {str(ref.get("uid")) for ref in claim["metadata"].get("ownerReferences") or () if ref.get("kind") == "Pod"}
