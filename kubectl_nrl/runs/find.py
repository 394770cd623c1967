"""Finds runs on a cluster: by id, by RayJob name, or all of mine.

The cluster of a RayJob is always read from its status, never guessed from its name: KubeRay makes a new one for each
attempt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ..api import User
from ..errors import ClusterError, UsageError
from ..labels import CLUSTER, MANAGED, OWNER, RAY_API, RAY_CLUSTER, RUN, labels_of, ownership
from ..manifests.names import label_value
from .clusters import ClusterRecord
from .holds import NOTHING, Holds, held
from .record import RunRecord

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_OBJECT_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


_KINDS = {
    **dict.fromkeys(("rayjob", "rayjobs", "rayjob.ray.io", "rayjobs.ray.io"), "RayJob"),
    **dict.fromkeys(("raycluster", "rayclusters", "raycluster.ray.io", "rayclusters.ray.io"), "RayCluster"),
}


def find(cluster: Any, namespace: str, word: str) -> RunRecord | ClusterRecord | None:
    """What `word` names: a run (its id, its RayJob's name, `rayjob/NAME`, Ray's submission id) or a Ray cluster (`raycluster/NAME`).

    None when there is none. Raises `UsageError` for a word that nothing can have, or that names a RayJob and a RayCluster
    at once.
    """
    kind, slash, name = word.rpartition("/")
    if slash:
        if kind not in _KINDS:
            raise UsageError(f'"{word}": write rayjob/NAME, raycluster/NAME, or a run id')
        return _by_name(cluster, namespace, name) if _KINDS[kind] == "RayJob" else _cluster(cluster, namespace, name)
    if not _LABEL_VALUE.fullmatch(word):
        raise UsageError(f'"{word}" is no run id and no RayJob name', "kubectl nrl runs")
    labelled = cluster.list(RAY_API, "RayJob", namespace, label_selector=f"{RUN}={word}")
    if labelled:
        return RunRecord(max(labelled, key=lambda job: str(job["metadata"].get("creationTimestamp") or "")))
    found = _by_name(cluster, namespace, word)
    if found is not None:
        _refuse_ambiguous(cluster, namespace, word)
        return found
    # A RayJob of another tool is known by Ray's id alone.
    for job in cluster.list(RAY_API, "RayJob", namespace):
        record = RunRecord(job)
        if record.submission_id == word:
            return record
    try:
        return _cluster(cluster, namespace, word)
    except ClusterError as error:
        if error.status == 403:
            return None  # who may see RayJobs alone has no cluster to name
        raise


def find_run(cluster: Any, namespace: str, word: str) -> RunRecord | None:
    """The run that `word` names, as `find` does; None when there is none. Raises `UsageError` for a Ray cluster."""
    found = find(cluster, namespace, word)
    if isinstance(found, ClusterRecord):
        raise UsageError(f'"{word}" is a Ray cluster, not a run', "kubectl nrl job list")
    return found


def runs_of_clusters(cluster: Any, namespace: str, names: Iterable[str], user: User) -> list[RunRecord]:
    """The runs of a recipe, by the name of the cluster that it asks for; mine where there are any, the newest first."""
    jobs = [
        job
        for name in dict.fromkeys(names)
        for job in cluster.list(RAY_API, "RayJob", namespace, label_selector=f"{CLUSTER}={label_value(name)}")
    ]
    mine = [job for job in jobs if ownership(job, user).mine]
    return newest_first(RunRecord(job) for job in mine or jobs)


def newest_first(runs: Iterable[RunRecord]) -> list[RunRecord]:
    return sorted(runs, key=lambda run: (run.rayjob["metadata"].get("creationTimestamp") or "", run.name), reverse=True)


def my_runs(cluster: Any, namespace: str, user: User, *, all_namespaces: bool, all_users: bool) -> list[RunRecord]:
    """My runs that this tool made, or everybody's RayJobs, other tools' included; newest first, with the GPUs they hold."""
    selector = "" if all_users else f"{MANAGED}=true,{OWNER}={user.name}"
    jobs = cluster.list(RAY_API, "RayJob", namespace, label_selector=selector, all_namespaces=all_namespaces)
    by_cluster = _held(cluster, namespace, all_namespaces) if jobs else {}
    runs = []
    for job in jobs:
        if not all_users and not ownership(job, user).mine:
            continue
        record = RunRecord(job)
        if record.borrows:
            holds: Holds | None = NOTHING  # its cluster holds what it holds with or without it
        else:
            holds = None if by_cluster is None else by_cluster.get((record.namespace, record.ray_cluster), NOTHING)
        runs.append(RunRecord(job, holds))
    return newest_first(runs)


def _held(cluster: Any, namespace: str, all_namespaces: bool) -> dict[tuple[str, str], Holds] | None:
    """What pods hold, by (namespace, RayCluster); None when pods may not be seen."""
    try:
        pods = cluster.list("v1", "Pod", namespace, label_selector=RAY_CLUSTER, all_namespaces=all_namespaces)
    except ClusterError as error:
        if error.status == 403:
            return None
        raise
    by_cluster: dict[tuple[str, str], list[Any]] = {}
    for pod in pods:
        by_cluster.setdefault((pod["metadata"]["namespace"], labels_of(pod)[RAY_CLUSTER]), []).append(pod)
    return {key: held(found) for key, found in by_cluster.items()}


def _by_name(cluster: Any, namespace: str, name: str) -> RunRecord | None:
    if not _OBJECT_NAME.fullmatch(name):
        return None
    job = cluster.get(RAY_API, "RayJob", name, namespace)
    return RunRecord(job) if job is not None else None


def _cluster(cluster: Any, namespace: str, name: str) -> ClusterRecord | None:
    if not _OBJECT_NAME.fullmatch(name):
        return None
    found = cluster.get(RAY_API, "RayCluster", name, namespace)
    return ClusterRecord(found) if found is not None else None


def _refuse_ambiguous(cluster: Any, namespace: str, name: str) -> None:
    try:
        other = cluster.get(RAY_API, "RayCluster", name, namespace)
    except ClusterError:
        return
    if other is not None:
        raise UsageError(f'"{name}" is both a RayJob and a RayCluster', f"write rayjob/{name} or raycluster/{name}")
