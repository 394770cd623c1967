"""Which object belongs to which, by ownerReferences and by labels, over the objects of a `Survey`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ..child_kinds import WORKERS_ONLY
from ..labels import CLUSTER, MANAGED, RAY_CLUSTER, RAY_NODE_TYPE, RUN, labels_of
from ..rayjob_state import outcome, status_of
from .holds import NOTHING, Holds, held
from .survey import Survey

Obj = Mapping[str, Any]

#: KubeRay's label on what it makes of a RayJob (ray-operator/controllers/ray/utils/constant.go).
MADE_FROM = "ray.io/originated-from-crd"
#: Kinds of owners that a survey lists whole: an owner of another kind counts as living.
_KNOWN = ("RayJob", "RayCluster", "Pod")
#: What alone serves a Ray cluster, so that without one nobody needs it. (A Deployment may be there for itself.)
_SERVES_A_CLUSTER = ("ComputeDomain", "ResourceClaimTemplate")


@dataclass(frozen=True)
class Graph:
    """Answers about the objects of one survey."""

    seen: Survey
    uids: frozenset[str]

    @classmethod
    def of(cls, seen: Survey) -> Graph:
        """What owns what among all that was seen."""
        owners = (*seen.rayjobs, *seen.rayclusters, *seen.pods)
        return cls(seen, frozenset(str(obj["metadata"]["uid"]) for obj in owners))

    def has_owner(self, obj: Obj) -> bool:
        """Whether one of the owners that the object names is there, or may be."""
        return any(self._may_live(ref) for ref in obj["metadata"].get("ownerReferences") or ())

    def held_by_run(self, rayjob: Obj) -> Holds:
        """The Ray clusters that a RayJob made (one for each attempt), and their pods."""
        uid = rayjob["metadata"]["uid"]
        clusters = [c for c in self.seen.rayclusters if uid in _owner_uids(c)]
        return held([pod for c in clusters for pod in self._pods_of(c)], clusters)

    def workers_of(self, rayjob: Obj) -> Holds:
        """The workers among them; empty names when there are none."""
        uid = rayjob["metadata"]["uid"]
        clusters = [c for c in self.seen.rayclusters if uid in _owner_uids(c)]
        pods = [pod for c in clusters for pod in self._pods_of(c)]
        return held([pod for pod in pods if labels_of(pod).get(RAY_NODE_TYPE) == "worker"])

    def held_by_cluster(self, raycluster: Obj) -> Holds:
        """The Ray cluster itself, and its pods."""
        return held(self._pods_of(raycluster), [raycluster])

    def made_by_rayjob(self, raycluster: Obj) -> bool:
        """Whether a RayJob of this tool made it: KubeRay copies the RayJob's labels."""
        labels = labels_of(raycluster)
        return labels.get(MANAGED) == "true" and labels.get(MADE_FROM) == "RayJob"

    def maker_of_claim(self, claim: Obj) -> Obj | None:
        """What says whose a claim is: itself by its labels, else the ComputeDomain that its configuration names.

        Source of the latter: the NVIDIA DRA driver's ComputeDomainChannelConfig.domainID. None for a foreign claim.
        """
        if labels_of(claim).get(MANAGED) == "true":
            return claim
        domains = {str(c["metadata"]["uid"]): c for c in self.seen.children if c["kind"] == "ComputeDomain"}
        for entry in ((claim.get("spec") or {}).get("devices") or {}).get("config") or ():
            parameters = (entry.get("opaque") or {}).get("parameters") or {}
            if str(parameters.get("domainID")) in domains:
                return domains[str(parameters["domainID"])]
        return None

    def orphaned(self, child: Obj, going: Collection[str]) -> str:
        """Why nobody needs a child any more; empty when somebody may. `going`: uids of RayJobs that are litter."""
        if refs := child["metadata"].get("ownerReferences"):
            alive = [ref for ref in refs if self._may_live(ref)]
            if not alive:
                return f"its owner {refs[0].get('kind', '').lower()}/{refs[0].get('name')} is gone"
            runs = [self._rayjob(str(ref.get("uid"))) for ref in alive]
        elif run := labels_of(child).get(RUN):
            # A run that was killed before it could own its children: they are its own all the same.
            runs = [job for job in self._beside(self.seen.rayjobs, child) if labels_of(job).get(RUN) == run]
            if not runs:
                return "no run owns it: whoever began to create it was killed"
        else:
            return self._without_cluster(child)
        needed = any(job is None or self._needs(job, str(child["kind"]), going) for job in runs)
        return "" if needed else "its run is over"

    def _rayjob(self, uid: str) -> Obj | None:
        return next((job for job in self.seen.rayjobs if job["metadata"]["uid"] == uid), None)

    def _needs(self, rayjob: Obj, kind: str, going: Collection[str]) -> bool:
        """Whether a run still uses such a child: some kinds serve its workers alone, the others as long as a pod is there."""
        if rayjob["metadata"]["uid"] in going:
            return False
        if outcome(status_of(rayjob)) is None or "Pod" in self.seen.blind:
            return True
        return bool(self.workers_of(rayjob).pods) if kind in WORKERS_ONLY else self.held_by_run(rayjob) != NOTHING

    def _without_cluster(self, child: Obj) -> str:
        name = labels_of(child).get(CLUSTER)
        if child["kind"] not in _SERVES_A_CLUSTER or not name or "RayCluster" in self.seen.blind:
            return ""
        beside = self._beside(self.seen.rayclusters, child)
        there = any(labels_of(c).get(CLUSTER) == name or c["metadata"]["name"] == name for c in beside)
        return "" if there else "no Ray cluster owns it: whoever began to create one was killed"

    def _beside(self, objects: tuple[Obj, ...], child: Obj) -> list[Obj]:
        return [obj for obj in objects if obj["metadata"]["namespace"] == child["metadata"]["namespace"]]

    def _pods_of(self, raycluster: Obj) -> list[Obj]:
        name = raycluster["metadata"]["name"]
        return [pod for pod in self._beside(self.seen.pods, raycluster) if labels_of(pod).get(RAY_CLUSTER) == name]

    def _may_live(self, ref: Mapping[str, Any]) -> bool:
        kind = ref.get("kind")
        return kind not in _KNOWN or kind in self.seen.blind or str(ref.get("uid")) in self.uids


def _owner_uids(obj: Obj) -> set[str]:
    return {str(ref.get("uid")) for ref in obj["metadata"].get("ownerReferences") or ()}
