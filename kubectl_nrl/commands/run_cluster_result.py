"""What `run --raycluster` ends with; the clusters stay, and that is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..rayjob_state import span
from .run_result import LogFacts

if TYPE_CHECKING:
    from ..triage import Failure


@dataclass(frozen=True)
class ClusterRunResult:
    """`state` is Ray's word for the end, or for where it is. `failure` is data only: as text it comes after the log's last line."""

    id: str
    namespace: str
    ray_cluster: str
    ray_cluster_uid: str
    submitter: str
    state: str
    reason: str
    message: str
    exit_code: int
    started: datetime | None
    ended: datetime | None
    commands: Mapping[str, str]
    log: LogFacts | None = None
    wandb: str = ""
    failure: Failure | None = None

    schema = "run_cluster"

    @property
    def seconds(self) -> float | None:
        return (self.ended - self.started).total_seconds() if self.ended and self.started else None

    def text(self) -> str:
        after = f" after {span(self.seconds)}" if self.seconds is not None else ""
        reason = f" ({self.reason})" if self.reason else ""
        lines = [f"run {self.id} on raycluster/{self.ray_cluster}: {self.state}{reason}{after}"]
        if self.message and self.exit_code:
            lines += [f"  {line}" for line in self.message.strip().splitlines()[:20]]
        if self.log is not None:
            lines.append(f"log: {self.log.path}")
        if self.wandb:
            lines.append(f"wandb: {self.wandb}")
        if "down" in self.commands:
            lines.append(f"the cluster stays up; take it down: {self.commands['down']}")
        return "\n".join(lines)

    def data(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "namespace": self.namespace,
            "rayCluster": self.ray_cluster,
            "rayClusterUid": self.ray_cluster_uid,
            "submitter": self.submitter,
            "state": self.state,
            "reason": self.reason,
            "message": self.message,
            "exitCode": self.exit_code,
            "startTime": self.started.isoformat() if self.started else None,
            "endTime": self.ended.isoformat() if self.ended else None,
            "durationSeconds": self.seconds,
            "log": self.log.data() if self.log else None,
            "wandb": self.wandb,
            "failure": self.failure.data() if self.failure else None,
            "commands": dict(self.commands),
        }
