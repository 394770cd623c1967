"""What `run` ends with: one object, of which the text form is said on stderr and the JSON form is stdout's last word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..rayjob_state import duration, span, status_of

if TYPE_CHECKING:
    from ..triage import Failure


@dataclass(frozen=True)
class LogFacts:
    """The copy of the driver's log on this machine: its path, whether it holds the last byte, its size."""

    path: str
    complete: bool
    bytes: int

    def data(self) -> dict[str, Any]:
        return {"path": self.path, "complete": self.complete, "bytes": self.bytes}


@dataclass(frozen=True)
class Held:
    """What a finished run still holds: pods with what they request, until when (None: for good), and why."""

    pods: Mapping[str, Mapping[str, str]]
    gpus: int
    until: str | None
    why: str

    def data(self) -> dict[str, Any]:
        pods = [{"name": name, "requests": dict(asked)} for name, asked in self.pods.items()]
        return {"pods": pods, "gpus": self.gpus, "until": self.until, "why": self.why}


@dataclass(frozen=True)
class RunResult:
    """The result of `run`. `state` is Ray's word for the end, else KubeRay's for where it is.

    `failure` is data only: as text it comes after the log's last line, which the result does not wait for.
    """

    id: str
    rayjob: Mapping[str, Any]
    state: str
    reason: str
    message: str
    exit_code: int
    commands: Mapping[str, str]
    log: LogFacts | None = None
    wandb: str = ""
    held: Held | None = None
    not_gone: Sequence[str] = ()
    failure: Failure | None = None

    schema = "run"

    @property
    def name(self) -> str:
        return str(self.rayjob["metadata"]["name"])

    @property
    def headline(self) -> str:
        """`rayjob/x SUCCEEDED after 1m02s (run ...)`, with KubeRay's reason and message below where it gives any."""
        status = status_of(self.rayjob)
        seconds = duration(status) if status.get("endTime") else None
        after = f" after {span(seconds)}" if seconds is not None else ""
        reason = f" ({self.reason})" if self.reason else ""
        lines = [f"rayjob/{self.name}: {self.state}{reason}{after}, run {self.id}"]
        if self.message and self.exit_code:
            lines += [f"  {line}" for line in self.message.strip().splitlines()[:20]]
        return "\n".join(lines)

    def text(self) -> str:
        lines = [self.headline]
        if self.log is not None:
            lines.append(f"log: {self.log.path}")
        if self.wandb:
            lines.append(f"wandb: {self.wandb}")
        if self.held is not None:
            lines.append(_held_line(self.held))
            lines.append(f"release it: {self.commands['stop']}")
        return "\n".join(lines)

    def data(self) -> dict[str, Any]:
        status = status_of(self.rayjob)
        return {
            "id": self.id,
            "rayjob": self.name,
            "namespace": self.rayjob["metadata"]["namespace"],
            "uid": self.rayjob["metadata"]["uid"],
            "rayCluster": status.get("rayClusterName") or "",
            "state": self.state,
            "deploymentStatus": status.get("jobDeploymentStatus") or "",
            "jobStatus": status.get("jobStatus") or "",
            "reason": self.reason,
            "message": self.message,
            "exitCode": self.exit_code,
            "startTime": status.get("startTime"),
            "endTime": status.get("endTime"),
            "durationSeconds": duration(status) if status.get("endTime") else None,
            "log": self.log.data() if self.log else None,
            "wandb": self.wandb,
            "held": self.held.data() if self.held else None,
            "notGone": list(self.not_gone),
            "failure": self.failure.data() if self.failure else None,
            "commands": dict(self.commands),
        }


def _held_line(held: Held) -> str:
    asked = "; ".join(f"{name} ({', '.join(f'{k} {v}' for k, v in what.items())})" for name, what in held.pods.items())
    gpus = f", {held.gpus} GPUs" if held.gpus else ""
    until = f"until {held.until}" if held.until else "for good"
    return f"held {until}{gpus} ({held.why}): {asked or 'its Ray cluster'}"


@dataclass(frozen=True)
class DryRunResult:
    """What the API server said of a Plan it did not keep (`--dry-run=server`)."""

    namespace: str
    run: str
    checked: Sequence[str]
    refusals: Sequence[tuple[str, str]]
    notes: Sequence[str]
    checks: Sequence[Mapping[str, Any]]
    exit_code: int

    schema = "dry_run"

    @property
    def refused(self) -> dict[str, str]:
        """What was refused, with all that was said of it."""
        said: dict[str, list[str]] = {}
        for subject, message in self.refusals:
            said.setdefault(subject, []).append(message)
        return {subject: "; ".join(messages) for subject, messages in said.items()}

    def text(self) -> str:
        refused = self.refused
        lines = [f"{'refused' if s in refused else 'ok':<8} {s}" for s in self.checked]
        return "\n".join([*lines, f'dry run: nothing was created in namespace "{self.namespace}"'])

    def data(self) -> dict[str, Any]:
        refused = self.refused
        return {
            "namespace": self.namespace,
            "run": self.run,
            "objects": [{"object": s, "ok": s not in refused, "message": refused.get(s, "")} for s in self.checked],
            "checks": [dict(check) for check in self.checks],
            "notes": list(self.notes),
            "exitCode": self.exit_code,
        }
