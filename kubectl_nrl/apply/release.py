"""Gives back what a run holds, and deletes a run: workers and head first, then the RayJob with what it owns.

Deleting the RayCluster of a finished RayJob keeps the RayJob as the run's record, and KubeRay does not make another
cluster for it (tried on 1.6.2, for a stopped run, which no deletion rule matches).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ClusterError
from ..labels import RAY_API, RAY_CLUSTER
from ..rayjob_state import outcome, status_of
from .outages import Outages

#: Seconds between two looks at something that is going away.
LOOK = 0.5

Say = Callable[[str], None]


@dataclass(frozen=True)
class Released:
    """What releasing did: the RayCluster deleted (empty: there was none), and the pods that are not gone yet.

    `seen` is False for who may not list pods: then nobody knows whether any is left.
    """

    ray_cluster: str
    pods: tuple[Mapping[str, Any], ...] = ()
    seen: bool = True

    @property
    def left(self) -> tuple[str, ...]:
        """Their names."""
        return _names(self.pods)


def release(cluster: Any, rayjob: Mapping[str, Any], *, within: float = 60.0, say: Say = lambda text: None) -> Released:
    """Delete the Ray cluster of a finished run and wait until its pods are gone, `within` seconds at most.

    The cluster is deleted by its uid and only when the RayJob made it, so that another one of that name is safe. Raises
    `ClusterError` when it may not be deleted.
    """
    meta = rayjob["metadata"]
    name, namespace = str(status_of(rayjob).get("rayClusterName") or ""), meta["namespace"]
    if not name:
        return Released("")
    live = cluster.get(RAY_API, "RayCluster", name, namespace)
    if live is not None and not _made_by(live, meta["uid"]):
        return Released("")  # it only used it, and so are the pods not its own
    if live is not None and not live["metadata"].get("deletionTimestamp"):
        cluster.delete(RAY_API, "RayCluster", name, namespace, uid=live["metadata"]["uid"])
    left = _wait_for_pods(cluster, name, namespace, within, say)
    return Released(name if live is not None else "", tuple(left or ()), left is not None)


def delete_run(cluster: Any, rayjob: Mapping[str, Any], *, say: Say, within: float = 120.0) -> tuple[str, ...] | None:
    """Delete a run and wait until that uid is gone, with its pods; the pods that are not, None for who may not list pods.

    A finished run's cluster goes first, so that no claim or domain is taken from under a pod; a live one is deleted
    whole, and KubeRay stops its job. Raises `ClusterError` when something stays.
    """
    meta = rayjob["metadata"]
    if outcome(status_of(rayjob)) is not None:
        release(cluster, rayjob, within=within, say=say)
    cluster.delete(RAY_API, "RayJob", meta["name"], meta["namespace"], propagation="Foreground", uid=meta["uid"])
    wait_gone(cluster, rayjob, within=within, say=say)
    name = str(status_of(rayjob).get("rayClusterName") or "")
    own = name and not (rayjob.get("spec") or {}).get("clusterSelector")
    pods = _wait_for_pods(cluster, name, meta["namespace"], within, say) if own else []
    if pods is None:
        return None
    left = _names(pods)
    if left:
        say(f"pods of the deleted run are still ending: {', '.join(left)}")
    return left


def wait_gone(cluster: Any, obj: Mapping[str, Any], *, within: float, say: Say = lambda text: None) -> None:
    """Wait until the object of that uid is gone, through outages. Raises `ClusterError` that names what holds it."""
    meta = obj["metadata"]
    api, kind = obj.get("apiVersion", RAY_API), obj["kind"]
    deadline = time.monotonic() + within
    outages = Outages(deadline, say)
    while True:
        live = outages.ask(lambda: cluster.get(api, kind, meta["name"], meta["namespace"]))
        if live is None or live["metadata"]["uid"] != meta["uid"]:
            return
        if time.monotonic() >= deadline:
            held = ", ".join(live["metadata"].get("finalizers") or ()) or "nothing visible"
            raise ClusterError(
                f"{kind.lower()}/{meta['name']} is not gone after {within:.0f} s (held by finalizers: {held})",
                f"kubectl get {kind.lower()} {meta['name']} -n {meta['namespace']} -o yaml",
            )
        time.sleep(LOOK)


def _made_by(ray_cluster: Mapping[str, Any], uid: str) -> bool:
    return any(ref.get("uid") == uid for ref in ray_cluster["metadata"].get("ownerReferences") or ())


def _wait_for_pods(
    cluster: Any, ray_cluster: str, namespace: str, within: float, say: Say
) -> list[Mapping[str, Any]] | None:
    """The pods that are left after so many seconds; None for who may not see them, and so cannot wait for them."""
    deadline, selector = time.monotonic() + within, f"{RAY_CLUSTER}={ray_cluster}"
    outages = Outages(deadline, say)
    while True:
        try:
            pods = outages.ask(lambda: cluster.list("v1", "Pod", namespace, label_selector=selector))
        except ClusterError as error:
            if error.status == 403:
                return None
            raise
        if not pods or time.monotonic() >= deadline:
            return list(pods)
        time.sleep(LOOK)


def _names(pods: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(str(pod["metadata"]["name"]) for pod in pods)
