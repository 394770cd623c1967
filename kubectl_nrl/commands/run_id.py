"""An id that a person chose: free only when no run of either kind has it, since every later command goes by the id alone."""

from __future__ import annotations

from typing import Any

from ..errors import ClusterError
from ..labels import RAY_API, RUN
from ..rayjob_state import describe, status_of


def refuse_rayjobs_id(cluster: Any, namespace: str, run_id: str) -> None:
    """For a run on a long-lived cluster. Raises `ClusterError` where a RayJob has the id; who may not list RayJobs is let through."""
    try:
        jobs = cluster.list(RAY_API, "RayJob", namespace, label_selector=f"{RUN}={run_id}")
    except ClusterError as error:
        if error.status != 403:
            raise
        return
    for job in jobs:
        raise _taken(run_id, f"rayjob/{job['metadata']['name']} ({describe(status_of(job))})")


def refuse_recorded_id(cluster: Any, namespace: str, run_id: str) -> None:
    """For a RayJob. Raises `ClusterError` where a run on a long-lived cluster has the id."""
    from ..runs import find_cluster_run

    record = find_cluster_run(cluster, namespace, run_id)
    if record is not None:
        raise _taken(run_id, f"a run on raycluster/{record.ray_cluster} ({record.state or 'no end was seen'})")


def _taken(run_id: str, by: str) -> ClusterError:
    return ClusterError(
        f'run id "{run_id}" is taken by {by}',
        "choose another --run-id, or leave it out",
        status=409,
        reason="AlreadyExists",
    )
