"""The pods of a run that died, and why: killed for memory, evicted, preempted, their node gone, a container that crashed.

How pods go when a run is over is no death: KubeRay deletes them, and their containers end by its signal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..raycluster_state import condition
from ..reasons.pods import being_deleted, container_statuses, name_of, role_of


@dataclass(frozen=True)
class DeadPod:
    """A pod that died. `exit_code` is the container's, None where the whole pod was taken away."""

    name: str
    role: str
    reason: str
    message: str
    container: str = ""
    exit_code: int | None = None

    @property
    def line(self) -> str:
        """`pod x-worker-1 (workers of gpu) died: OOMKilled, container ray, exit 137`."""
        how = [self.reason, self.message]
        how += [f"container {self.container}"] if self.container else []
        how += [f"exit {self.exit_code}"] if self.exit_code is not None else []
        return f"pod {self.name} ({self.role}) died: {', '.join(filter(None, how))}"

    def data(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "role": self.role,
            "reason": self.reason,
            "message": self.message,
            "container": self.container,
            "exitCode": self.exit_code,
        }


def death_of(pod: Mapping[str, Any]) -> DeadPod | None:
    """How this pod, or a container of it, died; None for one that lives, is done, or is deleted in the usual way."""
    name, role, status = name_of(pod), role_of(pod), pod.get("status") or {}
    disrupted = condition(pod, "DisruptionTarget")  # Kubernetes' word for pods that are taken away (pod-disruption)
    if disrupted.get("status") == "True":
        return DeadPod(name, role, str(disrupted.get("reason") or ""), _one_line(disrupted.get("message")))
    if status.get("phase") == "Failed" and status.get("reason"):
        return DeadPod(name, role, str(status["reason"]), _one_line(status.get("message")))
    if being_deleted(pod):
        return None
    for container in container_statuses(pod):
        for state in ("state", "lastState"):
            ended = (container.get(state) or {}).get("terminated") or {}
            if ended.get("exitCode"):
                reason, message = str(ended.get("reason") or "Error"), _one_line(ended.get("message"))
                return DeadPod(name, role, reason, message, str(container.get("name") or ""), int(ended["exitCode"]))
    return None


def _one_line(text: Any) -> str:
    return " ".join(str(text or "").split())[:200]
