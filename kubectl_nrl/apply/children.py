"""Takes away what served a run's workers, once they are gone: claim templates, Deployments, and ComputeDomains last.

The RayJob stays for days as the record, and what it owns would stay with it: a Deployment's pods, a domain on its nodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ..child_kinds import DRA_GROUP, WORKERS_ONLY, child_kinds, newest
from ..errors import ClusterError
from ..labels import RUN, is_child, labels_of
from .outages import Outages
from .release import LOOK


def take_children(cluster: Any, rayjob: Mapping[str, Any], warn: Callable[[str], None]) -> list[str]:
    """Delete what served the workers of a run that is over; `kind/name` of each. What may not be deleted is warned about."""
    meta, run = rayjob["metadata"], labels_of(rayjob).get(RUN)
    if not run:
        return []
    taken, clean = [], f"kubectl nrl clean -n {meta['namespace']}"
    try:
        kinds = _served(cluster)
    except ClusterError as error:
        warn(f"what served the workers of run {run} may be left: {error.message}; {clean}")
        return []
    for kind, version in kinds:
        try:
            found = cluster.list(version, kind, meta["namespace"], label_selector=f"{RUN}={run}")
        except ClusterError as error:
            if error.status != 403:  # who may not list them has hardly made any
                warn(f"{kind}s of run {run} may be left: {error.message}; {clean}")
            continue
        for child in (obj for obj in found if is_child(obj, rayjob)):
            name, uid = child["metadata"]["name"], child["metadata"]["uid"]
            try:
                cluster.delete(version, kind, name, meta["namespace"], uid=uid)
                taken.append(f"{kind.lower()}/{name}")
            except ClusterError as error:
                warn(f"{kind.lower()}/{name} is left: {error.message}; {clean}")
    return taken


def _served(cluster: Any) -> list[tuple[str, str]]:
    kinds = child_kinds(cluster.served())
    return [(kind, kinds[kind]) for kind in WORKERS_ONLY if kind in kinds]


def wait_for_claims(
    cluster: Any, namespace: str, pods: Collection[str], within: float, say: Callable[[str], None] = lambda text: None
) -> list[Mapping[str, Any]]:
    """Wait until the ResourceClaims of these pods (by uid) are gone, `within` seconds at most; those that are left."""
    deadline = time.monotonic() + within
    outages = Outages(deadline, say)
    version = newest(outages.ask(cluster.served), DRA_GROUP)
    while version and pods:
        try:
            claims = outages.ask(lambda: cluster.list(version, "ResourceClaim", namespace))
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
