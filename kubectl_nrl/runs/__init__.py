"""The record of a run, kept on the cluster as its RayJob, found again from any laptop."""

from __future__ import annotations

from .find import find_run, my_runs
from .holds import held_gpus
from .leftovers import Leftover, leftovers
from .record import RunRecord
from .survey import Survey, survey

__all__ = ["Leftover", "RunRecord", "Survey", "find_run", "held_gpus", "leftovers", "my_runs", "survey"]
