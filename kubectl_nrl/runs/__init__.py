"""The record of a run, kept on the cluster as its RayJob or beside its RayCluster, found again from any laptop."""

from __future__ import annotations

from .cluster_jobs import Asked, ClusterJob, jobs_of
from .cluster_run import ClusterRun, cluster_runs, find_cluster_run, new_record, note, runs_on, write_record
from .clusters import ClusterRecord, ordered
from .find import find, find_run, my_runs, newest_first, runs_of_clusters
from .holds import held_gpus
from .launched import script_of, submission_of
from .leftovers import Leftover, leftovers
from .record import RunRecord
from .remembered import remember, remembered
from .seen import SeenRun, see
from .survey import Survey, survey

__all__ = [
    "Asked",
    "ClusterJob",
    "ClusterRecord",
    "ClusterRun",
    "Leftover",
    "RunRecord",
    "SeenRun",
    "Survey",
    "cluster_runs",
    "find",
    "find_cluster_run",
    "find_run",
    "held_gpus",
    "jobs_of",
    "leftovers",
    "my_runs",
    "new_record",
    "newest_first",
    "note",
    "ordered",
    "remember",
    "remembered",
    "runs_of_clusters",
    "runs_on",
    "script_of",
    "see",
    "submission_of",
    "survey",
    "write_record",
]
