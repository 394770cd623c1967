"""Reads what a namespace holds of runs, for `leftovers` to judge: RayJobs, Ray clusters, pods, claims, children.

What may not be listed is named and left out: who may see little still cleans what they see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..child_kinds import DRA_GROUP, child_kinds, newest
from ..errors import ClusterError
from ..labels import MANAGED, RAY_API, RAY_CLUSTER

Objects = tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Survey:
    """Objects as the API server holds them, at `now` by its clock. `unseen` says what could not be looked at, and why;
    `blind` are those kinds.

    RayJobs and Ray clusters are everybody's, since any of them may own a child; `children` are the other objects that
    this tool made.
    """

    now: datetime
    rayjobs: Objects = ()
    rayclusters: Objects = ()
    pods: Objects = ()
    claims: Objects = ()
    children: Objects = ()
    unseen: Sequence[str] = ()
    blind: frozenset[str] = frozenset()


def survey(cluster: Any, namespace: str, *, all_namespaces: bool, clock: Callable[[], datetime]) -> Survey:
    """Look at a namespace, or at all. `clock` is this machine's, for a server that does not tell its own.

    Raises `ClusterError` when RayJobs may not be listed: then nothing can be judged.
    """
    now = cluster.time() or clock()
    unseen: dict[str, str] = {}

    def items(api_version: str, kind: str, selector: str = "") -> Objects:
        words = {"label_selector": selector, "all_namespaces": all_namespaces}
        try:
            return tuple(cluster.list(api_version, kind, namespace, **words))
        except ClusterError as error:
            if kind == "RayJob" or error.status == 0:
                raise
            if error.reason != "NotServed":
                unseen[kind] = f"{kind}s were not looked at: {error.message}"
            return ()

    # Children before their possible owners: one that is made between two lists is then young, never an orphan.
    managed = f"{MANAGED}=true"
    children = [obj for kind, api in child_kinds(cluster.served()).items() for obj in items(api, kind, managed)]
    dra = newest(cluster.served(), DRA_GROUP)
    claims = items(dra, "ResourceClaim") if dra else ()
    pods = items("v1", "Pod", RAY_CLUSTER)
    rayclusters = items(RAY_API, "RayCluster")
    rayjobs = items(RAY_API, "RayJob")
    return Survey(now, rayjobs, rayclusters, pods, claims, tuple(children), tuple(unseen.values()), frozenset(unseen))
