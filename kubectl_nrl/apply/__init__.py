"""A Plan onto the cluster, and what was made away again.

Nothing here decides what should exist: the Plan says that. What is decided here is order, and what is taken back when a
step fails: exactly what this call made.
"""

from __future__ import annotations

from .children import take_children, wait_for_claims
from .create import Created, up
from .dry_run import DryRun, Refusal, dry_run, pod_templates
from .existing import make_way, name_holder
from .release import Released, delete_run, release
from .teardown import Holder, holders

__all__ = [
    "Created",
    "DryRun",
    "Holder",
    "Refusal",
    "Released",
    "delete_run",
    "dry_run",
    "holders",
    "make_way",
    "name_holder",
    "pod_templates",
    "release",
    "take_children",
    "up",
    "wait_for_claims",
]
