"""A run as its RayJob tells it.

A RayJob that another tool made is a run too: its id is then Ray's submission id, and its owner what its labels say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..errors import ExitCode
from ..labels import RUN, WANDB, annotations_of, labels_of
from ..rayjob_state import describe, duration, outcome, parse_time, status_of
from .holds import Holds
from .lifetimes import lifetimes


@dataclass(frozen=True)
class RunRecord:
    """One run. Times are aware (UTC); `holds` is what its pods hold now, None when they may not be seen."""

    rayjob: Mapping[str, Any]
    holds: Holds | None = None

    @property
    def gpus(self) -> int | None:
        return self.holds.gpus if self.holds is not None else None

    @property
    def forgotten(self) -> str:
        """What a finished run holds although nothing will ever take it, and nobody asked for that (`--no-shutdown`)."""
        if not self.final or self.holds is None:
            return ""
        due = lifetimes(self.rayjob)
        return "" if due.kept or due.head or due.workers else self.holds.words

    @property
    def name(self) -> str:
        return str(self.rayjob["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.rayjob["metadata"]["namespace"])

    @property
    def uid(self) -> str:
        return str(self.rayjob["metadata"]["uid"])

    @property
    def status(self) -> Mapping[str, Any]:
        return status_of(self.rayjob)

    @property
    def submission_id(self) -> str:
        """Ray's id of the driver: KubeRay's status says it, else the spec asked for it."""
        return str(self.status.get("jobId") or (self.rayjob.get("spec") or {}).get("jobId") or "")

    @property
    def id(self) -> str:
        return str(labels_of(self.rayjob).get(RUN) or self.submission_id or self.name)

    @property
    def ray_cluster(self) -> str:
        return str(self.status.get("rayClusterName") or "")

    @property
    def borrows(self) -> bool:
        """Whether it runs on a Ray cluster that is there (`spec.clusterSelector`), whose pods are not its own."""
        return bool((self.rayjob.get("spec") or {}).get("clusterSelector"))

    @property
    def owner(self) -> str:
        from ..labels import OWNER, UPSTREAM_OWNER

        labels = labels_of(self.rayjob)
        return labels.get(OWNER) or labels.get(UPSTREAM_OWNER) or ""

    @property
    def created(self) -> datetime | None:
        return parse_time(self.rayjob["metadata"].get("creationTimestamp"))

    @property
    def final(self) -> bool:
        return outcome(self.status) is not None

    @property
    def state(self) -> str:
        """SUCCEEDED, FAILED, STOPPED, ... once it is over; KubeRay's state (`Running`, `Initializing`) before."""
        end = outcome(self.status)
        return end.state if end else str(self.status.get("jobDeploymentStatus") or "Created")

    @property
    def reason(self) -> str:
        """Why it ended so; before its end only what `Suspended` means: a queue such as Kueue's suspends what it has no quota for."""
        end = outcome(self.status)
        if end is None:
            return "queued, or by hand" if self.state == "Suspended" else ""
        return end.reason

    @property
    def description(self) -> str:
        return describe(self.status)

    @property
    def exit_code(self) -> ExitCode | None:
        end = outcome(self.status)
        return end.exit_code if end else None

    @property
    def wandb(self) -> str:
        return annotations_of(self.rayjob).get(WANDB, "")

    def seconds(self, now: datetime) -> float | None:
        """Seconds from its start to its end, or to now."""
        return duration(self.status, now)
