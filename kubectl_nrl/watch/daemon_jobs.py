"""Which of a Ray cluster's jobs is a role's daemon, and whether it is the one that is wanted.

A daemon is found by what its job's metadata says, not by its id: after a replacement the id has a suffix. The RayCluster's uid is part
of it, so that what a head kept of an earlier cluster (GCS fault tolerance) is never taken for a daemon of this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..labels import CLUSTER_UID, CODE, DAEMON, HEALTH, ROLE
from ..rayjob_state import LIVE

if TYPE_CHECKING:
    from ..plan import Daemon

Job = Mapping[str, Any]


@dataclass(frozen=True)
class DaemonStanding:
    """`absent`, `same` (runs, unchanged), `changed` (runs, and `differs` says in what), or `over`; `job` is the newest of it."""

    verdict: Literal["absent", "same", "changed", "over"]
    job: Job | None = None
    differs: str = ""

    @property
    def submission_id(self) -> str:
        return str((self.job or {}).get("submission_id") or "")

    @property
    def running(self) -> bool:
        return self.verdict in ("same", "changed")


def metadata_of(job: Job) -> Mapping[str, str]:
    return job.get("metadata") or {}


def is_daemon(job: Job) -> bool:
    """Whether this program submitted it as a daemon."""
    return DAEMON in metadata_of(job)


def role_of(job: Job) -> str:
    """The role of a daemon, empty for any other job."""
    return metadata_of(job).get(ROLE, "") if is_daemon(job) else ""


def of_daemon(jobs: Iterable[Job], daemon: Daemon, uid: str) -> list[Job]:
    """The jobs that are, or were, that daemon on the RayCluster of that uid; the newest first, those that run before all others.

    One with the daemon's id counts even when another tool submitted it.
    """

    def matches(job: Job) -> bool:
        data = metadata_of(job)
        if data.get(CLUSTER_UID, uid) != uid:
            return False
        return role_of(job) == daemon.role or job.get("submission_id") == daemon.submission_id

    found = [job for job in jobs if job.get("submission_id") and matches(job)]
    return sorted(found, key=lambda job: (job.get("status") in LIVE, _started(job)), reverse=True)


def _started(job: Job) -> int:
    time = job.get("start_time")
    return time if isinstance(time, int) else 0


def standing_of(jobs: Iterable[Job], daemon: Daemon, uid: str, code: str) -> DaemonStanding:
    """How the daemon stands; `code` is the package that it would be submitted with, empty for none."""
    found = of_daemon(jobs, daemon, uid)
    if not found:
        return DaemonStanding("absent")
    newest = found[0]
    if newest.get("status") not in LIVE:
        return DaemonStanding("over", newest)
    data = metadata_of(newest)
    if DAEMON not in data:
        return DaemonStanding("changed", newest, "was started by another tool")
    said = []
    if data[DAEMON] != daemon.mark:
        said.append("was started with another entrypoint, environment or directory")
    if data.get(CODE, "") != code:
        said.append("runs other code than is here now")
    return DaemonStanding("changed" if said else "same", newest, " and ".join(said))


def metadata_for(daemon: Daemon, uid: str, code: str, user: str, longest: int) -> dict[str, str]:
    """What a daemon's job is found by again; its entrypoint as a person wrote it, cut to `longest` characters."""
    found = {"user": user, "entrypoint": daemon.entrypoint[:longest], ROLE: daemon.role, DAEMON: daemon.mark}
    found |= {CLUSTER_UID: uid, CODE: code, HEALTH: daemon.health.url if daemon.health else ""}
    return {key: value for key, value in found.items() if value}
