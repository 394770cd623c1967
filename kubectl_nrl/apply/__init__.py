"""A Plan onto the cluster, and what was made away again.

Nothing here decides what should exist: the Plan says that. What is decided here is order, and what is taken back when a
step fails: exactly what this call made.
"""

from __future__ import annotations

from .bring_up import BringUp, belongs_to_another
from .children import take_children, wait_for_claims
from .create import Created, Uncertain, up
from .dry_run import DryRun, Refusal, dry_run, pod_templates
from .existing import make_way, name_holder
from .outages import Outages
from .release import Released, delete_run, release
from .remains import Remains, ray_cluster_of, until_gone
from .rendezvous import Rendezvous
from .take_down import Doomed, TakenDown, take_down, words_of
from .teardown import Holder, holders
from .together import Stopped, together
from .units import Standing, Unit, look, units_of

__all__ = [
    "BringUp",
    "Created",
    "Doomed",
    "DryRun",
    "Holder",
    "Outages",
    "Refusal",
    "Released",
    "Remains",
    "Rendezvous",
    "Standing",
    "Stopped",
    "TakenDown",
    "Uncertain",
    "Unit",
    "belongs_to_another",
    "delete_run",
    "dry_run",
    "holders",
    "look",
    "make_way",
    "name_holder",
    "pod_templates",
    "ray_cluster_of",
    "release",
    "take_children",
    "take_down",
    "together",
    "units_of",
    "until_gone",
    "up",
    "wait_for_claims",
    "words_of",
]
