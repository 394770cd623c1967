"""How runs on long-lived clusters stand: what their records say, and for those without an end what Ray says now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ..errors import ClusterError
from ..labels import RAY_API
from .cluster_jobs import ENDS
from .cluster_run import ClusterRun

#: Clusters that are asked at the same time.
AT_ONCE = 8


@dataclass(frozen=True)
class SeenRun:
    """A run as it is now: Ray's `state`, or UNKNOWN; `reason` is HeadRestarted for one that went with its head."""

    run: ClusterRun
    state: str
    reason: str = ""
    message: str = ""

    @property
    def final(self) -> bool:
        return self.state in ENDS


def see(
    runs: Sequence[ClusterRun],
    cluster: Any,
    connect: Callable[[Mapping[str, Any]], Any],
    history: Callable[[ClusterRun], tuple[str, str]],
) -> list[SeenRun]:
    """Each run as it stands; a cluster is asked once, and only when a run of it has no end on record.

    `connect` reaches Ray by a RayCluster object, `history` says why a head does not know a run: the reason in a word, and in words. Raises
    `ClusterError` when the API server is away.
    """
    open_runs = [run for run in runs if run.state not in ENDS]
    places = list({(run.namespace, run.ray_cluster, run.ray_cluster_uid) for run in open_runs})
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = dict(zip(places, pool.map(lambda place: _ask(cluster, connect, *place), places), strict=True))
    found = []
    for run in runs:
        if run.state in ENDS:
            found.append(SeenRun(run, run.state, run.reason, run.message))
        else:
            answer = answers[run.namespace, run.ray_cluster, run.ray_cluster_uid]
            found.append(_now(run, answer, history))
    return found


def _ask(
    cluster: Any, connect: Callable[[Mapping[str, Any]], Any], namespace: str, name: str, uid: str
) -> dict[str, Mapping[str, Any]] | str:
    """The cluster's jobs by id, or why they are not known."""
    live = cluster.get(RAY_API, "RayCluster", name, namespace)
    if live is None or live["metadata"]["uid"] != uid:
        return f"raycluster/{name} is gone"
    try:
        jobs = connect(live)
        try:
            return {str(job.get("submission_id")): job for job in jobs.list()}
        finally:
            jobs.close()
    except ClusterError as error:
        return error.message


def _now(
    run: ClusterRun,
    answer: dict[str, Mapping[str, Any]] | str,
    history: Callable[[ClusterRun], tuple[str, str]],
) -> SeenRun:
    if isinstance(answer, str):
        return SeenRun(run, "UNKNOWN", "", answer)
    job = answer.get(run.submission_id)
    if job is None:
        return SeenRun(run, "UNKNOWN", *history(run))
    message = str(job.get("message") or "").partition(", last available logs")[0].strip()
    return SeenRun(run, str(job.get("status") or "UNKNOWN"), "", message)
