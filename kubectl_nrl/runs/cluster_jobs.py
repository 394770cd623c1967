"""Ray's own jobs on long-lived Ray clusters: what was submitted there, by this tool or another, and bare drivers.

A driver that somebody started on a node (`ray.init(address="auto")`) is a job without a submission id: Ray neither
keeps its output nor can stop it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from ..errors import ClusterError, ExitCode
from ..labels import CLUSTER_UID, DAEMON, HEALTH, ROLE
from ..rayjob_state import FAILED, STOPPED, SUCCEEDED
from .clusters import ClusterRecord

#: Seconds that all clusters together get to tell their jobs.
PATIENCE = 10.0

#: Exit codes of Ray's final job states; the only states in which a job is over.
ENDS = {SUCCEEDED: ExitCode.OK, FAILED: ExitCode.FAILED, STOPPED: ExitCode.STOPPED}


@dataclass(frozen=True)
class ClusterJob:
    """One Ray job, as the Jobs API of its cluster tells it. Times are aware (UTC)."""

    cluster: ClusterRecord
    job: Mapping[str, Any]

    @property
    def submission_id(self) -> str:
        """Empty for a driver that was not submitted."""
        return str(self.job.get("submission_id") or "")

    @property
    def id(self) -> str:
        return self.submission_id or str(self.job.get("job_id") or "")

    @property
    def names(self) -> tuple[str, ...]:
        """Every id it goes by: Ray's job id names the driver of a submission too."""
        return tuple(str(self.job[key]) for key in ("submission_id", "job_id") if self.job.get(key))

    @property
    def owner(self) -> str:
        """Who submitted it, as its metadata says; empty where it says nothing."""
        return str((self.job.get("metadata") or {}).get("user") or "")

    @property
    def daemon(self) -> str:
        """The role whose daemon it is on its cluster, empty for any other job."""
        data = self.job.get("metadata") or {}
        return str(data.get(ROLE) or "") if DAEMON in data and data.get(CLUSTER_UID) == self.cluster.uid else ""

    @property
    def health_url(self) -> str:
        """Where a daemon answers, empty for one of which nothing says so."""
        return str((self.job.get("metadata") or {}).get(HEALTH) or "") if self.daemon else ""

    @property
    def state(self) -> str:
        return str(self.job.get("status") or "UNKNOWN")

    @property
    def final(self) -> bool:
        return self.state in ENDS

    @property
    def left(self) -> int:
        """Processes of one that has ended which still run, where its submitter knows of any (`api.State`)."""
        return int(self.job.get("left") or 0)

    @property
    def message(self) -> str:
        """Ray's message without the log lines that it appends."""
        return str(self.job.get("message") or "").partition(", last available logs")[0].strip()

    @property
    def started(self) -> datetime | None:
        return job_time(self.job.get("start_time"))

    @property
    def ended(self) -> datetime | None:
        return job_time(self.job.get("end_time"))

    def seconds(self, now: datetime) -> float | None:
        """Seconds from its start to its end, or to now."""
        return max(0.0, ((self.ended or now) - self.started).total_seconds()) if self.started else None


def job_time(milliseconds: Any) -> datetime | None:
    """A time as Ray's Jobs API tells it (since 1970), None for none."""
    if not isinstance(milliseconds, int) or milliseconds <= 0:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc)


@dataclass(frozen=True)
class Asked:
    """What the clusters said: their jobs, the newest first, and why a cluster said nothing."""

    jobs: Sequence[ClusterJob]
    silent: Mapping[str, str]


def jobs_of(
    clusters: Sequence[ClusterRecord], connect: Callable[[ClusterRecord], Any], patience: float = PATIENCE
) -> Asked:
    """The jobs of Ray clusters, all asked at once. One that does not answer within `patience` seconds is only named."""
    found: dict[str, list[ClusterJob]] = {}
    silent: dict[str, str] = {}

    def ask(cluster: ClusterRecord) -> None:
        try:
            jobs = connect(cluster)
            try:
                found[cluster.uid] = [ClusterJob(cluster, job) for job in jobs.list()]
            finally:
                jobs.close()
        except ClusterError as error:
            silent[cluster.uid] = error.message

    # Daemons, so that a head that never answers does not hold the program's end.
    threads = [threading.Thread(target=ask, args=(cluster,), daemon=True) for cluster in clusters]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + patience
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    jobs = [job for cluster in clusters for job in found.get(cluster.uid, ())]
    why = {
        cluster.name: silent.get(cluster.uid, f"it did not answer within {patience:.0f} s")
        for cluster in clusters
        if cluster.uid not in found
    }
    return Asked(sorted(jobs, key=_newest_last, reverse=True), why)


def _newest_last(job: ClusterJob) -> tuple[float, str]:
    return job.started.timestamp() if job.started else 0.0, job.id
