"""Names of the labels and annotations that tie objects to a run and to its owner, and how they are read back.

Upstream's owner label is written and honoured beside ours, so that either tool's guard protects the other's runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .api import User
from .cells import printable

MANAGED = "kubectl-nrl/managed"
OWNER = "kubectl-nrl/owner"
CLUSTER = "kubectl-nrl/cluster"
RUN = "kubectl-nrl/run"
ROLE = "kubectl-nrl/role"
UPSTREAM_OWNER = "nrl-k8s/owner"
#: The user's name as the environment said it: two names that map to one label are told apart by it.
RAW_USER = "kubectl-nrl/user"
LAST_APPLIED = "kubectl-nrl/last-applied"
#: The run's wandb page, written on its RayJob once the driver's log named it.
WANDB = "kubectl-nrl/wandb-url"
#: On a ConfigMap that is a record: of what (`run`).
RECORD = "kubectl-nrl/record"

#: In the metadata of a daemon's Ray job: a hash of what it is, its code's package, its health URL, and the uid of the RayCluster that it
#: was started on.
DAEMON = "kubectl-nrl/daemon"
CODE = "kubectl-nrl/code"
HEALTH = "kubectl-nrl/health-url"
CLUSTER_UID = "kubectl-nrl/cluster-uid"

#: What is left to submit of a run whose code is uploaded (KubeRay's InteractiveMode), as JSON: see `plan.assemble`.
SUBMISSION = "kubectl-nrl/submission"

#: The API that KubeRay serves its kinds by.
RAY_API = "ray.io/v1"

#: KubeRay's own pod labels (ray-operator/controllers/ray/utils/constant.go).
RAY_CLUSTER = "ray.io/cluster"
RAY_NODE_TYPE = "ray.io/node-type"
RAY_GROUP = "ray.io/group"
#: On a RayCluster and its pods: the object it was made for (`FROM_KIND` is `RayJob`, `RayService` or `RayCluster`).
FROM_NAME = "ray.io/originated-from-cr-name"
FROM_KIND = "ray.io/originated-from-crd"


def labels_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    """An object's labels; empty where it has none, or no metadata."""
    return obj.get("metadata", {}).get("labels") or {}


def annotations_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    """An object's annotations; empty where it has none, or no metadata."""
    return obj.get("metadata", {}).get("annotations") or {}


def is_child(obj: Mapping[str, Any], run: Mapping[str, Any]) -> bool:
    """Whether an object was made for that run (a RayJob): its owner is, or, before it could be told of one, its labels are the run's.

    Labels alone are no proof, since anybody may write them: an object that something else owns is never the run's.
    """
    owners = {ref.get("uid") for ref in obj["metadata"].get("ownerReferences") or ()}
    if owners:
        return run["metadata"]["uid"] in owners
    mine, its = labels_of(run), labels_of(obj)
    return bool(mine.get(RUN)) and all(its.get(key) == mine.get(key) for key in (RUN, OWNER))


@dataclass(frozen=True)
class Ownership:
    """Whose an object is: `owner` as its labels say (empty: nobody's), `mine` when that is the asking user."""

    owner: str
    mine: bool

    @property
    def words(self) -> str:
        """The owner, for a message."""
        return f'"{printable(self.owner)}"' if self.owner else "nobody (it has no owner label)"


def ownership(obj: Mapping[str, Any], user: User) -> Ownership:
    """Read the owner from our label, else upstream's; a differing raw name beside an equal label is another person."""
    labels = labels_of(obj)
    owner = labels.get(OWNER) or labels.get(UPSTREAM_OWNER) or ""
    raw = annotations_of(obj).get(RAW_USER, "")
    if owner == user.name and raw and raw != user.raw:
        return Ownership(raw, False)
    return Ownership(owner, owner == user.name)
