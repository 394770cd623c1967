"""The record of a run, kept on the cluster as its RayJob, found again from any laptop."""

from __future__ import annotations

from .cluster_jobs import Asked, ClusterJob, jobs_of
from .clusters import ClusterRecord, ordered
from .find import find, find_run, my_runs, newest_first, runs_of_clusters
from .holds import held_gpus
from .launched import script_of
from .leftovers import Leftover, leftovers
from .record import RunRecord
from .survey import Survey, survey

__all__ = [
    "Asked",
    "ClusterJob",
    "ClusterRecord",
    "Leftover",
    "RunRecord",
    "Survey",
    "find",
    "find_run",
    "held_gpus",
    "jobs_of",
    "leftovers",
    "my_runs",
    "newest_first",
    "ordered",
    "runs_of_clusters",
    "script_of",
    "survey",
]
