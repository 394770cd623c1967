"""The record of a run, kept on the cluster as its RayJob, found again from any laptop."""

from __future__ import annotations

from .cluster_jobs import Asked, ClusterJob, jobs_of
from .clusters import ClusterRecord, ordered
from .find import find, find_run, my_runs, newest_first, runs_of_clusters
from .launched import script_of
from .record import RunRecord, held_gpus

__all__ = [
    "Asked",
    "ClusterJob",
    "ClusterRecord",
    "RunRecord",
    "find",
    "find_run",
    "held_gpus",
    "jobs_of",
    "my_runs",
    "newest_first",
    "ordered",
    "runs_of_clusters",
    "script_of",
]
