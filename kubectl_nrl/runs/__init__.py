"""The record of a run, kept on the cluster as its RayJob or beside its RayCluster, found again from any laptop."""

from __future__ import annotations

from .cluster_run import ClusterRun, cluster_runs, find_cluster_run, new_record, note, write_record
from .find import find_run, my_runs
from .record import RunRecord, held_gpus
from .seen import SeenRun, see

__all__ = [
    "ClusterRun",
    "RunRecord",
    "SeenRun",
    "cluster_runs",
    "find_cluster_run",
    "find_run",
    "held_gpus",
    "my_runs",
    "new_record",
    "note",
    "see",
    "write_record",
]
