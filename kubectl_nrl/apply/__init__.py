"""A Plan onto the cluster, and what was made away again.

Nothing here decides what should exist: the Plan says that. What is decided here is order, and what is taken back when a
step fails: exactly what this call made.
"""

from __future__ import annotations

from .create import Created, up
from .dry_run import DryRun, Refusal, dry_run, pod_templates
from .existing import make_way, name_holder
from .release import Released, delete_run, release

__all__ = [
    "Created",
    "DryRun",
    "Refusal",
    "Released",
    "delete_run",
    "dry_run",
    "make_way",
    "name_holder",
    "pod_templates",
    "release",
    "up",
]
