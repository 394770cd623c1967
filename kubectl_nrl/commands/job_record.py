"""A run on a long-lived cluster, found by its record: one RayCluster is asked, and a head that forgot the run is said as that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import ClusterError, ExitCode
from ..labels import RAY_API
from .cluster_drivers import drivers_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ..runs import ClusterJob, ClusterRun, SeenRun
    from .session import Session

#: Why a driver failed that a new head does not know: it went with the head before.
HEAD_RESTARTED = "HeadRestarted"


class Forgotten(ClusterError):
    """A run that is on record, and that no head knows any more. `ended`: how it ended, where its record has that."""

    def __init__(self, run: ClusterRun, why: str) -> None:
        from ..runs.cluster_jobs import ENDS

        known = f"; its record says {run.state}" if run.state else ""
        super().__init__(f"{why}{known}", "kubectl nrl runs", reason="JobLost")
        self.ended = ENDS.get(run.state)
        # An error never ends in 0: what was asked for cannot be had.
        self.exit_code = ExitCode.UNKNOWN if self.ended is None else self.ended or ExitCode.CLUSTER


def by_record(session: Session, cluster: Any, namespace: str, run_id: str) -> ClusterJob | None:
    """The job of the run of that id, as Ray knows it; None where there is no record of such a run.

    Raises `Forgotten` when its cluster is gone or its head does not know it, `ClusterError` for a cluster that cannot be asked.
    """
    from ..runs import ClusterJob, ClusterRecord, find_cluster_run

    run = find_cluster_run(cluster, namespace, run_id)
    if run is None:
        return None
    live = cluster.get(RAY_API, "RayCluster", run.ray_cluster, namespace)
    if live is None or live["metadata"]["uid"] != run.ray_cluster_uid:
        raise Forgotten(run, f"raycluster/{run.ray_cluster} of run {run.id} is gone")
    live = {"apiVersion": RAY_API, "kind": "RayCluster", **live}
    with drivers_of(session, cluster, live) as jobs:
        job = jobs.get(run.submission_id)
    if job is None:
        raise Forgotten(
            run, f"run {run.id} is unknown to {'its head' if run.place else 'Ray'}: {lost(cluster, run)[1]}"
        )
    return ClusterJob(ClusterRecord(live), job)


def lost(cluster: Any, run: ClusterRun) -> tuple[str, str]:
    """Why a head does not know that run, as a reason and in words.

    HeadRestarted: the driver went with it. Without a reason: it is the same head, and what a driver by exec left there is gone.
    """
    from .. import ray_jobs

    where = f"raycluster/{run.ray_cluster}"
    if run.place and ray_jobs.same_head(cluster, run.namespace, run.ray_cluster, run.pod):
        return "", f"{run.place} is not there any more, though the head of {where} was not started again"
    return HEAD_RESTARTED, ray_jobs.head_history(cluster, run.namespace, run.ray_cluster)


def seen(session: Session, cluster: Any, runs: Sequence[ClusterRun]) -> list[SeenRun]:
    """Runs as their records tell them, and those without an end there as Ray does now.

    An end of mine that is seen so is written down, before its head forgets it. Raises `ClusterError` when the API server is away.
    """
    from ..runs import see

    found = see(runs, cluster, lambda live: drivers_of(session, cluster, live), lambda run: lost(cluster, run))
    ended = [one for one in found if one.final and not one.run.state and one.run.owner == session.user.name]
    for one in ended:
        if not _note(cluster, one.run, one.state, one.message, one.ended or session.now()):
            break  # what is refused once is refused for all
    return found


def note_end(cluster: Any, job: ClusterJob, now: datetime, reason: str = "") -> None:
    """Write the end of a job on the record of its run, where it has one that lacks it; a refusal costs nothing but that."""
    from ..runs import find_cluster_run

    if not job.final:
        return
    try:
        run = find_cluster_run(cluster, job.cluster.namespace, job.id)
    except ClusterError:
        return
    if run is not None and not run.state and run.ray_cluster_uid == job.cluster.uid:
        _note(cluster, run, job.state, job.message, job.ended or now, reason)


def _note(cluster: Any, run: ClusterRun, state: str, message: str, ended: datetime, reason: str = "") -> bool:
    """Whether an end could be written on a record."""
    from ..runs import note

    why = {"reason": reason} if reason else {}
    try:
        note(cluster, run, state=state, message="" if state == "SUCCEEDED" else message, ended=ended, **why)
    except ClusterError:
        return False
    return True


def note_page(cluster: Any, job: ClusterJob, owner: str, url: str) -> None:
    """Keep a wandb page on the record of `owner`'s run, which other laptops read; a refusal costs nothing but that."""
    from ..runs import find_cluster_run, note

    try:
        run = find_cluster_run(cluster, job.cluster.namespace, job.id)
        if run is not None and run.owner == owner and run.wandb != url and run.ray_cluster_uid == job.cluster.uid:
            note(cluster, run, wandbUrl=url)
    except ClusterError:
        return
