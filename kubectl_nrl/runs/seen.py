"""How runs on long-lived clusters stand: what their records say, and for those without an end what Ray says now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from ..errors import ClusterError
from ..labels import RAY_API
from ..rayjob_state import message_of
from .cluster_jobs import ENDS, job_time
from .cluster_run import ClusterRun


@dataclass(frozen=True)
class SeenRun:
    """A run as it is now: Ray's `state`, or UNKNOWN; `reason` is HeadRestarted for one that went with its head. `ended` where known."""

    run: ClusterRun
    state: str
    reason: str = ""
    message: str = ""
    ended: datetime | None = None

    @property
    def final(self) -> bool:
        return self.state in ENDS

    @property
    def words(self) -> str:
        """`UNKNOWN (HeadRestarted)`"""
        return f"{self.state} ({self.reason})" if self.reason else self.state

    def seconds(self, now: datetime) -> float | None:
        """Seconds from its submission to its end, or to now."""
        started = self.run.started
        return max(0.0, ((self.ended or now) - started).total_seconds()) if started else None


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
    from ..cluster.side_by_side import side_by_side

    open_runs = [run for run in runs if run.state not in ENDS]
    places = list({(run.namespace, run.ray_cluster, run.ray_cluster_uid) for run in open_runs})
    told = side_by_side([partial(_ask, cluster, connect, *place) for place in places])
    answers = dict(zip(places, told, strict=True))
    found = []
    for run in runs:
        if run.state in ENDS:
            found.append(SeenRun(run, run.state, run.reason, run.message, run.ended))
        else:
            answer = answers[run.namespace, run.ray_cluster, run.ray_cluster_uid]
            found.append(_now(run, answer, history))
    return found


def _ask(
    cluster: Any, connect: Callable[[Mapping[str, Any]], Any], namespace: str, name: str, uid: str
) -> dict[str, Mapping[str, Any]] | str:
    """The cluster's jobs by id, or why they are not known."""
    try:
        live = cluster.get(RAY_API, "RayCluster", name, namespace)
    except ClusterError as error:
        if error.status != 403:
            raise
        return error.message
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
    return SeenRun(run, str(job.get("status") or "UNKNOWN"), "", message_of(job), job_time(job.get("end_time")))
