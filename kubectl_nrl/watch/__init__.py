"""One event stream per run, to a final state: the RayJob, its pods and their troubles, its driver's log.

What a state means is not decided here but in `kubectl_nrl.rayjob_state`, which `runs` and `apply` read as well.
"""

from __future__ import annotations

from ..reasons import being_deleted, is_worker
from ..run_directory import directory
from .connection import Connection
from .daemon_jobs import DaemonStanding, is_daemon, metadata_for, of_daemon, role_of, standing_of
from .daemon_watch import DaemonWatch
from .driver_log import DriverLog, JobsApi, LogEnd, Source
from .follow import End, Follow, RunTarget
from .health import ask_health, parts_of
from .health_job import HealthJob, UrlHealth
from .job_follow import JobEnd, JobFollow, JobTarget
from .log_copy import LogCopy, pieces, read_record
from .log_view import LastLines, WandbPage, shown
from .pod_log import PodLog
from .pod_logs import PodLogs, pods_of
from .readiness import Readiness, readiness_of, workers_of
from .until_ready import Onlooker, Unstartable, UntilReady

__all__ = [
    "Connection",
    "DaemonStanding",
    "DaemonWatch",
    "DriverLog",
    "End",
    "Follow",
    "HealthJob",
    "JobEnd",
    "JobFollow",
    "JobTarget",
    "JobsApi",
    "LastLines",
    "LogCopy",
    "LogEnd",
    "Onlooker",
    "PodLog",
    "PodLogs",
    "Readiness",
    "RunTarget",
    "Source",
    "Unstartable",
    "UntilReady",
    "UrlHealth",
    "WandbPage",
    "ask_health",
    "being_deleted",
    "directory",
    "is_daemon",
    "is_worker",
    "metadata_for",
    "of_daemon",
    "parts_of",
    "pieces",
    "pods_of",
    "read_record",
    "readiness_of",
    "role_of",
    "shown",
    "standing_of",
    "workers_of",
]
