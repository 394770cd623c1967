"""A run on a long-lived cluster, found by its record: one RayCluster is asked, and a head that forgot the run is said as that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import ClusterError, ExitCode
from ..labels import RAY_API
from .cluster_drivers import drivers_of

if TYPE_CHECKING:
    from datetime import datetime

    from ..runs import ClusterJob, ClusterRun
    from .session import Session

#: The reason of the error for a run that its head does not know any more.
FORGOTTEN = "JobLost"


def by_record(session: Session, cluster: Any, namespace: str, run_id: str) -> ClusterJob | None:
    """The job of the run of that id, as Ray knows it; None where there is no record of such a run.

    Raises `ClusterError`: with reason `JobLost` when a new head does not know it, and with its exit code where the record has its
    end; otherwise for a cluster that cannot be asked.
    """
    from .. import ray_jobs
    from ..runs import ClusterJob, ClusterRecord, find_cluster_run

    run = find_cluster_run(cluster, namespace, run_id)
    if run is None:
        return None
    live = cluster.get(RAY_API, "RayCluster", run.ray_cluster, namespace)
    if live is None or live["metadata"]["uid"] != run.ray_cluster_uid:
        raise _lost(run, f"raycluster/{run.ray_cluster} of run {run.id} is gone")
    live = {"apiVersion": RAY_API, "kind": "RayCluster", **live}
    with drivers_of(session, cluster, live) as jobs:
        job = jobs.get(run.submission_id)
    if job is None:
        history = ray_jobs.head_history(cluster, namespace, run.ray_cluster)
        raise _lost(run, f"run {run.id} is unknown to Ray: {history}")
    return ClusterJob(ClusterRecord(live), job)


def note_end(cluster: Any, job: ClusterJob, now: datetime) -> None:
    """Write the end of a job on the record of its run, where it has one that lacks it; a refusal costs nothing but that."""
    from ..runs import find_cluster_run, note

    if not job.final:
        return
    try:
        run = find_cluster_run(cluster, job.cluster.namespace, job.id)
        if run is not None and not run.state and run.ray_cluster_uid == job.cluster.uid:
            note(cluster, run, state=job.state, message=job.message, ended=job.ended or now)
    except ClusterError:
        return


def _lost(run: ClusterRun, message: str) -> ClusterError:
    from ..runs.cluster_jobs import ENDS

    known = f"; its record says {run.state}" if run.state else ""
    error = ClusterError(f"{message}{known}", "kubectl nrl runs", reason=FORGOTTEN)
    error.exit_code = ENDS.get(run.state, ExitCode.UNKNOWN)
    if error.exit_code == ExitCode.OK:
        error.exit_code = ExitCode.CLUSTER  # an error never ends in 0: what was asked for cannot be had
    return error
