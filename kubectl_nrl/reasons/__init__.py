"""Why a run waits: `gather` reads, `troubles` and `snapshot` judge.

Reading and judging are apart so that what is judged can be written down in a test, and so that a watch may feed the
same judges as a single look.
"""

from __future__ import annotations

from .deployments import replicas
from .gather import gather
from .judge import ready_snapshot, snapshot, troubles
from .model import GroupView, Heals, Situation, Snapshot, Trouble
from .pods import being_deleted, is_ready, is_worker, name_of

__all__ = [
    "GroupView",
    "Heals",
    "Situation",
    "Snapshot",
    "Trouble",
    "being_deleted",
    "gather",
    "is_ready",
    "is_worker",
    "name_of",
    "ready_snapshot",
    "replicas",
    "snapshot",
    "troubles",
]
