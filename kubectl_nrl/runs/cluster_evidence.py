"""What the end of a run on a long-lived cluster is judged by: its RayCluster, what came up beside that, and the pods of both.

Every object is known by the uid that the run's record has: a cluster that was made anew under the name is another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ClusterError
from ..labels import CLUSTER, RAY_API, RAY_CLUSTER, labels_of
from .cluster_run import ClusterRun
from .clusters import ClusterRecord

Objects = tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Standing:
    """What is there of the cluster of a run.

    `own` is the run's RayCluster, None when it is gone; `namesake`: another has its name. `beside` are the RayClusters that the
    same infra file made, `deployments` its Deployments. `pods` are those of the run's own cluster, also of one that is gone.
    What may not be looked at is empty (`pods`: None), and `unseen` says why, by the field's name.
    """

    own: ClusterRecord | None
    namesake: bool
    beside: Sequence[ClusterRecord]
    deployments: Objects
    pods: Objects | None
    unseen: Mapping[str, str]

    @property
    def clusters(self) -> list[ClusterRecord]:
        """Those whose daemons count, the run's own first."""
        return [*([self.own] if self.own else []), *self.beside]


def standing(cluster: Any, run: ClusterRun) -> Standing:
    """Look at the cluster. Raises `ClusterError` when it is out of reach; what is forbidden is only noted."""
    unseen: dict[str, str] = {}

    def ask(field: str, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except ClusterError as error:
            if error.status != 403:
                raise
            unseen[field] = error.message
            return None

    def items(field: str, api_version: str, kind: str, selector: str) -> Objects | None:
        found = ask(field, lambda: cluster.list(api_version, kind, run.namespace, label_selector=selector))
        return None if found is None else tuple(found)

    live = ask("own", lambda: cluster.get(RAY_API, "RayCluster", run.ray_cluster, run.namespace))
    known = ClusterRecord({"apiVersion": RAY_API, "kind": "RayCluster", **live}) if live is not None else None
    own = known if known is not None and known.uid == run.ray_cluster_uid else None
    label = labels_of(run.manifest).get(CLUSTER)
    made = f"{CLUSTER}={label}"
    rayclusters = items("beside", RAY_API, "RayCluster", made) if label else ()
    beside = [
        found for found in map(ClusterRecord, rayclusters or ()) if not found.rayjob and found.name != run.ray_cluster
    ]
    pods = items("pods", "v1", "Pod", f"{RAY_CLUSTER}={run.ray_cluster}")
    return Standing(
        own,
        known is not None and own is None,
        beside,
        (items("deployments", "apps/v1", "Deployment", made) if label else ()) or (),
        None if pods is None else tuple(pod for pod in pods if _belongs(pod, run, known)),
        unseen,
    )


def _belongs(pod: Mapping[str, Any], run: ClusterRun, now: ClusterRecord | None) -> bool:
    """Whether a pod was made for the RayCluster of the run, and not for the one that has its name `now`."""
    owners = [ref.get("uid") for ref in pod["metadata"].get("ownerReferences") or () if ref.get("kind") == "RayCluster"]
    if not owners:
        return now is None or now.uid == run.ray_cluster_uid
    return run.ray_cluster_uid in owners
