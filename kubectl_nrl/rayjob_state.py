"""What a RayJob's status means: whether it is over, how it ended, and the exit code of that end.

KubeRay's `Complete` is not success: it only says that Ray's job is over, so both status fields are read. A state this
table does not know counts as running, so that a newer KubeRay can cost patience but never a wrong result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from .errors import ExitCode

SUCCEEDED = "SUCCEEDED"
FAILED = "FAILED"
STOPPED = "STOPPED"

#: Ray's states of a job that has not ended (ray/job_submission: JobStatus).
LIVE = frozenset({"PENDING", "RUNNING"})

#: What a state that is not self-explanatory means, for the lines that `run` prints.
MEANING = {
    "": "accepted, KubeRay has not looked at it yet",
    "Initializing": "its Ray cluster is starting",
    "Waiting": "its Ray cluster is ready, a job is expected",
    "Retrying": "the last attempt failed, a new Ray cluster follows (backoffLimit)",
    "Suspending": "being suspended",
    "Suspended": "held back by its queue, or suspended by hand",
}


@dataclass(frozen=True)
class Outcome:
    """How a run ended: `state` in Ray's words (or KubeRay's, when Ray never had a job), and the exit code of that.

    `reason` and `message` are KubeRay's own (`DeadlineExceeded`, `AppFailed`, ...), empty where it gives none.
    """

    state: str
    exit_code: ExitCode
    reason: str = ""
    message: str = ""

    @property
    def words(self) -> str:
        """The state with its reason, as one phrase."""
        return f"{self.state} ({self.reason})" if self.reason else self.state


def status_of(rayjob: Mapping[str, Any]) -> Mapping[str, Any]:
    return rayjob.get("status") or {}


def message_of(status: Mapping[str, Any]) -> str:
    """The message of a RayJob's status or of a Ray job, without the log lines that Ray appends: they begin with the encoded entrypoint."""
    return split_message(status)[0]


def split_message(status: Mapping[str, Any]) -> tuple[str, str]:
    """A message as `message_of` gives it, and the log lines that follow it, empty where there are none."""
    message, _, appended = str(status.get("message") or "").partition(", last available logs")
    return message.strip(), appended.partition("\n")[2]


def outcome(status: Mapping[str, Any]) -> Outcome | None:
    """The end that a RayJob's `status` describes, or None while it is not over.

    * Complete: SUCCEEDED exits 0, STOPPED exits 5, anything else exits 1.
    * Failed: exits 1 whatever Ray says: after a deadline `jobStatus` may still read RUNNING, or be empty.
    * ValidationFailed: exits 3. KubeRay refused the spec and nothing ran, as if the API server had refused it.
    """
    deployment = str(status.get("jobDeploymentStatus") or "")
    job = str(status.get("jobStatus") or "")
    reason, message = str(status.get("reason") or ""), message_of(status)
    if deployment == "Complete":
        code = {SUCCEEDED: ExitCode.OK, STOPPED: ExitCode.STOPPED}.get(job, ExitCode.FAILED)
        # A word of Ray's that is no end would make what is over look alive.
        state = "UNKNOWN" if job in LIVE else job or "UNKNOWN"
        return Outcome(state, code, "" if job == SUCCEEDED else reason, message)
    if deployment == "Failed":
        return Outcome(FAILED, ExitCode.FAILED, reason, message)
    if deployment == "ValidationFailed":
        return Outcome("ValidationFailed", ExitCode.CLUSTER, "" if reason == "ValidationFailed" else reason, message)
    return None


def describe(status: Mapping[str, Any]) -> str:
    """The state as one phrase: `Running, driver PENDING`, `Initializing: its Ray cluster is starting`."""
    deployment = str(status.get("jobDeploymentStatus") or "")
    job = str(status.get("jobStatus") or "")
    end = outcome(status)
    if end is not None:
        return f"{deployment}, driver {job}" + (f" ({end.reason})" if end.reason else "") if job else end.words
    if deployment == "Running":
        return f"Running, driver {job}" if job else "Running, driver not reported yet"
    meaning = MEANING.get(deployment, "" if deployment else MEANING[""])
    return f"{deployment or 'Created'}: {meaning}" if meaning else deployment


def parse_time(text: Any) -> datetime | None:
    """A Kubernetes timestamp (RFC 3339), aware; None for what is none. One without a zone is UTC, as all that is written here."""
    if not isinstance(text, str) or not text:
        return None
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def duration(status: Mapping[str, Any], now: datetime | None = None) -> float | None:
    """Seconds from `startTime` to `endTime`, or to `now` (the API server's) while it runs; None before it started."""
    start = parse_time(status.get("startTime"))
    if start is None:
        return None
    end = parse_time(status.get("endTime")) or now
    return max(0.0, (end - start).total_seconds()) if end is not None else None


def span(seconds: float | None) -> str:
    """A duration as kubectl writes ages: `42s`, `3m07s`, `2h05m`, `3d4h`; `0s` where this machine's clock is behind."""
    if seconds is None:
        return "-"
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600}h"
