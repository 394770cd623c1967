"""Ray clusters and runs on this machine, each owned by a supervisor process that outlives the command that started it.

What a run is doing stands in a file of its directory, and whether its supervisor lives is told by a lock that the kernel
releases with the process: no pid can be mistaken for another's.
"""

from __future__ import annotations

from .cleaning import Leftover, clear, leftovers
from .connection import LocalConnection, LocalJobs
from .finding import clusters, find, find_cluster, newest_of_recipe, runs
from .record import LocalRecord, Role, is_alive
from .requests import Daemon, Request, prepared

__all__ = [
    "Daemon",
    "Leftover",
    "LocalConnection",
    "LocalJobs",
    "LocalRecord",
    "Request",
    "Role",
    "clear",
    "clusters",
    "find",
    "find_cluster",
    "is_alive",
    "leftovers",
    "newest_of_recipe",
    "prepared",
    "runs",
]
