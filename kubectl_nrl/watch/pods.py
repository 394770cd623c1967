"""Why a run's pods are not ready, in grouped lines: pure functions over pod objects.

Pods that are being deleted are left out: what a pod says while it dies (failed probes, missing owners) is the noise
of a normal end, not a cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..labels import RAY_GROUP, RAY_NODE_TYPE, labels_of
from ..rayjob_state import parse_time

Pod = Mapping[str, Any]

#: Waiting reasons of a container that is simply on its way.
_ON_ITS_WAY = frozenset({"ContainerCreating", "PodInitializing"})
#: Seconds that a container may run without being ready before that is a cause: Ray's dashboard needs some of them.
NOT_READY = 90.0
#: kubelet alternates between these two for one and the same image that it cannot get.
_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff"})


@dataclass(frozen=True)
class Cause:
    """Why one pod is not ready. `key` is what counts as the same cause again, so that a line is printed once."""

    reason: str
    message: str
    key: tuple[str, str]


def being_deleted(pod: Pod) -> bool:
    return bool(pod.get("metadata", {}).get("deletionTimestamp"))


def is_worker(pod: Pod) -> bool:
    return labels_of(pod).get(RAY_NODE_TYPE) == "worker"


def is_ready(pod: Pod) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def role_of(pod: Pod) -> str:
    """`head`, or `worker group NAME`; a pod that is neither (a submitter) by its name."""
    labels = labels_of(pod)
    kind = labels.get(RAY_NODE_TYPE)
    if kind == "head":
        return "head"
    if kind == "worker":
        return f"workers of {labels[RAY_GROUP]}" if labels.get(RAY_GROUP) else "workers"
    return str(pod["metadata"]["name"])


def _container_statuses(pod: Pod) -> Iterator[Mapping[str, Any]]:
    status = pod.get("status") or {}
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _waiting(container: Mapping[str, Any]) -> Cause | None:
    waiting = (container.get("state") or {}).get("waiting") or {}
    reason, message = str(waiting.get("reason") or ""), _one_line(waiting.get("message"))
    if not reason or reason in _ON_ITS_WAY:
        return None
    if reason in _IMAGE:
        image = str(container.get("image") or "")
        return Cause("ImagePullBackOff", f'image "{image}"{_image_trouble(message)}', ("ImagePullBackOff", image))
    if reason == "CrashLoopBackOff":
        last = ((container.get("lastState") or {}).get("terminated")) or {}
        code = f", last exit {last['exitCode']}" if "exitCode" in last else ""
        return Cause(reason, f"container {container.get('name')}{code}", (reason, str(container.get("name"))))
    return Cause(reason, message, (reason, message))


def _image_trouble(message: str) -> str:
    """The end of kubelet's chain of wrapped errors: its last part says what the registry said."""
    if "not found" in message:
        return " not found"
    if re.search(r"unauthorized|denied|authentication required|401|403", message):
        return " may not be pulled (imagePullSecrets?)"
    last = message.rsplit(": ", 1)[-1]
    return f": {last}" if last and not last.startswith("Back-off") else " cannot be pulled"


def _terminated(container: Mapping[str, Any]) -> Cause | None:
    ended = (container.get("state") or {}).get("terminated") or {}
    if not ended or ended.get("exitCode") == 0:
        return None
    reason = str(ended.get("reason") or "Error")
    text = f"container {container.get('name')} ended with {ended.get('exitCode')}"
    return Cause(reason, text, (reason, text))


def _not_ready(container: Mapping[str, Any], now: datetime | None) -> Cause | None:
    """A container that runs and stays unready: its probe says so in events only."""
    running = (container.get("state") or {}).get("running") or {}
    started = parse_time(running.get("startedAt"))
    if now is None or started is None or container.get("ready") or (now - started).total_seconds() < NOT_READY:
        return None
    text = f"container {container.get('name')} has run for over {NOT_READY:.0f} s and fails its readiness probe"
    return Cause("NotReady", text, ("NotReady", str(container.get("name"))))


def cause_of(pod: Pod, now: datetime | None = None) -> Cause | None:
    """Why this pod is not ready; None when it is ready, ends, or is simply on its way (judged at `now` where given)."""
    status = pod.get("status") or {}
    if being_deleted(pod) or is_ready(pod) or status.get("phase") == "Succeeded":
        return None
    if status.get("reason"):  # Evicted, NodeLost, Preempting, ...: the kubelet's word for the whole pod
        message = _one_line(status.get("message"))
        return Cause(str(status["reason"]), message, (str(status["reason"]), message))
    for container in _container_statuses(pod):
        cause = _waiting(container) or _terminated(container)
        if cause:
            return cause
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            message = _one_line(condition.get("message"))
            reason = str(condition.get("reason") or "Unschedulable")
            return Cause(reason, message, (reason, message))
    for container in status.get("containerStatuses") or ():
        cause = _not_ready(container, now)
        if cause:
            return cause
    return None


def _one_line(text: Any) -> str:
    words = " ".join(str(text or "").split())
    return words if len(words) <= 300 else words[:297] + "..."


def causes(pods: Iterable[Pod], now: datetime | None = None) -> dict[tuple[str, str, str], str]:
    """Lines such as `4/4 workers of gpu: ImagePullBackOff, image "x:typo" not found`, by what makes a line the same."""
    totals: dict[str, int] = {}
    groups: dict[tuple[str, str, str], list[Cause]] = {}
    for pod in pods:
        if being_deleted(pod):
            continue
        role = role_of(pod)
        totals[role] = totals.get(role, 0) + 1
        cause = cause_of(pod, now)
        if cause:
            groups.setdefault((role, *cause.key), []).append(cause)
    lines = {}
    for key, found in groups.items():
        role, total = key[0], totals[key[0]]
        who = role if total == 1 and not role.startswith("workers") else f"{len(found)}/{total} {role}"
        detail = f", {found[0].message}" if found[0].message else ""
        lines[key] = f"{who}: {found[0].reason}{detail}"
    return lines


def readiness(pods: Iterable[Pod]) -> str:
    """`2/3 pods ready`, of the pods that are not being deleted."""
    alive = [p for p in pods if not being_deleted(p)]
    return f"{sum(map(is_ready, alive))}/{len(alive)} pods ready"


def requests_of(pod: Pod) -> dict[str, str]:
    """What the pod's containers request together, as Kubernetes quantities (`cpu: 200m`).

    A limit counts as the request where none is written, as the API server defaults it.
    """
    sums: dict[str, float] = {}
    for container in (pod.get("spec") or {}).get("containers") or ():
        resources = container.get("resources") or {}
        for name, value in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items():
            sums[name] = sums.get(name, 0.0) + quantity(str(value))
    return {name: _quantity_text(name, value) for name, value in sorted(sums.items()) if value}


_SUFFIX = {
    "": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip


def quantity(text: str) -> float:
    """A Kubernetes quantity as a number; 0 for what is none."""
    match = re.fullmatch(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([A-Za-z]{0,2})", text.strip())
    if not match or match[2] not in _SUFFIX:
        return 0.0
    return float(match[1]) * _SUFFIX[match[2]]


def _quantity_text(name: str, value: float) -> str:
    if name == "cpu":
        return f"{value:g}" if value == int(value) else f"{round(value * 1000)}m"
    if name == "memory" or name.startswith(("hugepages-", "ephemeral-storage")):
        for suffix in ("Ti", "Gi", "Mi"):
            if value >= _SUFFIX[suffix]:
                return f"{value / _SUFFIX[suffix]:.4g}{suffix}"
    return f"{value:g}"


def gpus_of(pod: Pod) -> int:
    """GPUs that a pod holds, as KubeRay counts them: each resource whose name ends in `gpu` (common/pod.go)."""
    return sum(int(quantity(v)) for name, v in requests_of(pod).items() if name.endswith("gpu"))
