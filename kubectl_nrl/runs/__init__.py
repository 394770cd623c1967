"""The record of a run, kept on the cluster as its RayJob, found again from any laptop."""

from __future__ import annotations

from .clusters import ClusterRecord, ordered
from .find import find_run, my_runs
from .record import RunRecord, held_gpus

__all__ = ["ClusterRecord", "RunRecord", "find_run", "held_gpus", "my_runs", "ordered"]
