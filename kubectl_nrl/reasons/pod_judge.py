"""Why one pod is not ready, by its present state first; an event counts only where the state has no word for it.

Pods that are being deleted are left out: what a pod says while it dies (failed probes, missing owners) is the noise
of a normal end, not a cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from ..raycluster_state import condition
from . import containers
from .causes import Cause, cause, missing, one_line, unschedulable
from .pods import Pod, being_deleted, container_statuses, is_ready

#: Seconds after which a scheduler that said nothing of a pod, or a kubelet that did nothing with it, is suspected.
UNSEEN, UNSTARTED = 30.0, 60.0
#: Seconds beyond its grace after which a pod that is being deleted is stuck.
STUCK = 60.0

#: Events of the time before a container's image is looked at: kubelet's, the attach/detach controller's, the CNI's, DRA's.
_BEFORE_START = frozenset(
    {
        "FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox", "NetworkNotReady",
        "FailedPrepareDynamicResources", "FailedPodSandBoxStatus",
    }
)  # fmt: skip
#: Events of the time before a node is found.
_BEFORE_NODE = frozenset({"FailedResourceClaimCreation", "FailedScheduling", "PodGrouperWarning"})


def cause_of(
    pod: Pod,
    now: datetime | None = None,
    *,
    events: Iterable[Mapping[str, Any]] = (),
    head_ready: bool = False,
) -> Cause | None:
    """Why this pod is not ready; None when it is ready, ends, or is simply on its way.

    `events` are this pod's warnings. What is a matter of time is judged at `now`, where given.
    """
    status = pod.get("status") or {}
    if being_deleted(pod):
        return _disrupted(pod) or _stuck(pod, now)
    if status.get("phase") == "Succeeded":
        return None
    if is_ready(pod):
        return containers.restarted(pod, now)
    if status.get("reason"):  # Evicted, NodeLost, Preempting, ...: the kubelet's word for the whole pod
        return cause(str(status["reason"]), status.get("message"))
    by_event = _latest(events)
    return (
        _with_pull_secret(containers.broken(pod), by_event)
        or _node_gone(pod)
        or _placing(pod, by_event)
        or _starting(pod, by_event)
        or _unseen(pod, now)
        or containers.slow(pod, now, head_ready)
    )


def _latest(events: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The newest message of each reason."""
    return {str(e.get("reason")): one_line(e.get("message"), 2000) for e in sorted(events, key=event_time)}


def event_time(event: Mapping[str, Any]) -> str:
    """When an event happened last, as text that sorts (both forms of events, see Kubernetes' events.k8s.io)."""
    series = (event.get("series") or {}).get("lastObservedTime")
    return str(series or event.get("lastTimestamp") or event.get("eventTime") or "")


def _with_pull_secret(found: Cause | None, by_event: Mapping[str, str]) -> Cause | None:
    """kubelet tries a pull without the secret that it did not find, and says that in an event only."""
    lost = by_event.get("FailedToRetrieveImagePullSecret", "")
    names = re.search(r"\(([^)]*)\)", lost)
    if found is None or found.reason != "ImagePullBackOff" or not names:
        return found
    text = f"{found.message}; pull secret {names[1]} does not exist"
    return Cause(found.reason, text, "by hand", found.key)


def _node_gone(pod: Pod) -> Cause | None:
    """The node controller takes a pod's readiness away when its node falls silent, and leaves the containers' as it was."""
    of_all = condition(pod, "ContainersReady")
    gone = of_all.get("status") == "True" and condition(pod, "Ready").get("status") == "False"
    gates = (pod.get("spec") or {}).get("readinessGates")
    if not gone or gates or (pod.get("status") or {}).get("phase") != "Running":
        return None
    node = str((pod.get("spec") or {}).get("nodeName") or "its node")
    return Cause("NodeLost", f"node {node} does not answer", "alone", ("NodeLost", node))


def _placing(pod: Pod, by_event: Mapping[str, str]) -> Cause | None:
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "True" or (pod.get("spec") or {}).get("nodeName"):
        return None
    lost = by_event.get("FailedResourceClaimCreation")
    if lost:
        return _claim(lost)
    if scheduled.get("status") == "False":
        return unschedulable(str(scheduled.get("reason") or "Unschedulable"), str(scheduled.get("message") or ""))
    for reason in sorted(_BEFORE_NODE & by_event.keys()):
        return unschedulable(reason, by_event[reason])
    return None


def _claim(message: str) -> Cause:
    """A claim that its controller cannot make: `PodResourceClaim c: resource claim template "x": ... "x" not found`."""
    template = re.search(r'resource claim template "([^"]+)": .*not found', message)
    if not template:
        return cause("FailedResourceClaimCreation", message)
    text = f'resource claim template "{template[1]}" does not exist'
    return Cause("ClaimTemplateNotFound", text, "by hand", ("ClaimTemplateNotFound", template[1]))


def _starting(pod: Pod, by_event: Mapping[str, str]) -> Cause | None:
    """Volumes, claims and the sandbox: past them as soon as kubelet says that containers may start."""
    node = (pod.get("spec") or {}).get("nodeName")
    if not node or condition(pod, "PodReadyToStartContainers").get("status") == "True" or _running(pod):
        return None
    for reason in sorted(_BEFORE_START & by_event.keys()):
        return missing(by_event[reason]) or cause(reason, by_event[reason])
    return None


def _running(pod: Pod) -> bool:
    return any((c.get("state") or {}).get("running") for c in container_statuses(pod))


def _unseen(pod: Pod, now: datetime | None) -> Cause | None:
    """Nobody has looked at it: its scheduler is not there, or the node's kubelet is not."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    if status.get("phase") == "Running" or next(container_statuses(pod), None):
        return None
    scheduled = condition(pod, "PodScheduled")
    node = spec.get("nodeName")
    if not node and not scheduled and containers.older(pod["metadata"].get("creationTimestamp"), now, UNSEEN):
        name = str(spec.get("schedulerName") or "default-scheduler")
        text = f'scheduler "{name}" has not looked at it: is it installed and running?'
        return Cause("NotScheduled", text, "by hand", ("NotScheduled", name))
    if node and not status.get("startTime") and containers.older(scheduled.get("lastTransitionTime"), now, UNSTARTED):
        return Cause("NotStarted", f"node {node} has not started it", "alone", ("NotStarted", str(node)))
    return None


def _disrupted(pod: Pod) -> Cause | None:
    """Preemption, eviction, a drained or lost node: deleted by the cluster, not by the run's end."""
    found = condition(pod, "DisruptionTarget")
    if found.get("status") != "True":
        return None
    return cause(str(found.get("reason") or "DisruptionTarget"), found.get("message"))


def _stuck(pod: Pod, now: datetime | None) -> Cause | None:
    """A pod whose grace is over and that is still there. `deletionTimestamp` is when the grace ends."""
    if not containers.older(pod["metadata"].get("deletionTimestamp"), now, STUCK):
        return None
    finalizers = ", ".join(pod["metadata"].get("finalizers") or ())
    node = str((pod.get("spec") or {}).get("nodeName") or "")
    why = f"held by finalizers {finalizers}" if finalizers else f"node {node} does not say that it ended"
    return Cause("Terminating", f"deleted and not gone: {why}", "alone", ("Terminating", finalizers or node))
