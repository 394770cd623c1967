"""What a RayJob and its RayCluster say themselves: refused, suspended, not looked at, pods that could not be created.

Sources: KubeRay's ray-operator/controllers/ray/{rayjob,raycluster}_controller.go, utils/{constant,validation}.go; the
conditions as KubeRay 1.6 writes them (its RayClusterProvisioned says nothing where pods could not be created).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..manifests.amounts import gpus_asked
from ..raycluster_state import condition
from ..rayjob_state import message_of, outcome, status_of
from .causes import cause, denied, one_line
from .containers import older
from .model import Trouble
from .pod_judge import event_time
from .pods import name_of, who, workers_of

#: Seconds after which an object that KubeRay has not looked at means that its operator is not there.
UNSEEN = 20.0
#: Seconds that a ready Ray cluster may go without a driver before the operator is suspected.
NO_DRIVER = 120.0

_REFUSALS = frozenset(
    {"InvalidRayJobSpec", "InvalidRayJobMetadata", "InvalidRayClusterSpec", "InvalidRayClusterMetadata"}
)
_CREATION = frozenset({"FailedToCreateHeadPod", "FailedToCreateWorkerPod"})
_NO_CLUSTER = frozenset({"FailedToCreateRayCluster", "RayClusterNotFound"})


@dataclass(frozen=True)
class Wanted:
    """Pods that a spec asks for: `name` is the group's, `role` as pods are grouped, `gpus` what each of them asks for."""

    role: str
    name: str
    total: int
    gpus: int = 0


def wanted(ray_cluster: Mapping[str, Any] | None) -> list[Wanted]:
    """Head first; a suspended group wants none. An autoscaler's changes stand in `replicas`."""
    spec = (ray_cluster or {}).get("spec") or {}
    if not spec.get("headGroupSpec") or spec.get("suspend"):
        return []
    found = [Wanted("head", "head", 1, template_gpus(spec["headGroupSpec"]))]
    for group in spec.get("workerGroupSpecs") or ():
        count = 0 if group.get("suspend") else int(group.get("replicas") or 0) * int(group.get("numOfHosts") or 1)
        name = str(group.get("groupName") or "")
        found.append(Wanted(workers_of(name), name, count, template_gpus(group)))
    return found


def template_gpus(holder: Mapping[str, Any]) -> int:
    """GPUs that each pod made from the holder's `template` asks for."""
    return gpus_asked((holder.get("template") or {}).get("spec") or {})


def rayjob_troubles(
    rayjob: Mapping[str, Any],
    ray_cluster: Mapping[str, Any] | None,
    events: Iterable[Mapping[str, Any]],
    now: datetime | None,
    *,
    explained: bool,
) -> Iterator[Trouble]:
    """`events` are the RayJob's own; `explained` is whether somebody else has said already why it is held back."""
    status, subject = status_of(rayjob), f"rayjob/{name_of(rayjob)}"
    state = str(status.get("jobDeploymentStatus") or "")
    newest = sorted(events, key=event_time)
    if state == "ValidationFailed":
        yield Trouble(subject, state, one_line(message_of(status)), "never", (state,))
    elif outcome(status) is not None:
        return
    elif state in ("Suspended", "Suspending") and not explained:
        words = "held back by its queue, or suspended by hand (spec.suspend)"
        yield Trouble(subject, "Suspended", words, "alone", ("Suspended",))
    elif not state and not (rayjob.get("spec") or {}).get("suspend"):
        yield from _unseen(subject, rayjob, newest, now)
    elif state in ("Initializing", "Running"):
        yield from _no_driver(subject, status, ray_cluster or {}, now)
        for event in newest[-1:]:
            submitter = event.get("reason") == "FailedToCreateRayJobSubmitter" and not status.get("jobStatus")
            # The name of the cluster stands in the status before KubeRay tries to create it.
            if submitter or (event.get("reason") in _NO_CLUSTER and ray_cluster is None):
                found = denied(str(event["reason"]), str(event.get("message") or ""))
                yield Trouble(subject, found.reason, found.message, found.heals, found.key)


def _unseen(
    subject: str, obj: Mapping[str, Any], newest: list[Mapping[str, Any]], now: datetime | None
) -> Iterator[Trouble]:
    """No status: refused (before 1.5 KubeRay said so in an event only), or nobody there to look at it."""
    refused = next((e for e in reversed(newest) if e.get("reason") in _REFUSALS), None)
    if refused is not None:
        reason, message = str(refused["reason"]), one_line(refused.get("message"))
        yield Trouble(subject, reason, message, "never", (reason,))
    elif older(obj["metadata"].get("creationTimestamp"), now, UNSEEN):
        words = "KubeRay has not looked at it: is the operator running, and does it watch this namespace?"
        yield Trouble(subject, "NotReconciled", words, "by hand", ("NotReconciled", subject))


def _no_driver(
    subject: str, status: Mapping[str, Any], ray_cluster: Mapping[str, Any], now: datetime | None
) -> Iterator[Trouble]:
    """The RayCluster is asked and not the RayJob's copy of its status, which KubeRay renews when it pleases."""
    cluster = ray_cluster.get("status") or {}
    since = (cluster.get("stateTransitionTimes") or {}).get("ready")
    if cluster.get("state") != "ready" or status.get("jobStatus") or not older(since, now, NO_DRIVER):
        return
    words = (
        f"the Ray cluster has been ready for {NO_DRIVER:.0f} s and KubeRay has not submitted the driver: the operator may "
        "not reach the head's port 8265 (NetworkPolicy, Ray token), or its submitter pod does not start"
    )
    yield Trouble(subject, "NoDriver", words, "by hand", ("NoDriver",))


def ray_cluster_troubles(
    ray_cluster: Mapping[str, Any],
    events: Iterable[Mapping[str, Any]],
    present: Mapping[str, int],
    now: datetime | None,
    *,
    alone: bool,
) -> Iterator[Trouble]:
    """`present` counts the pods by role, `events` are the RayCluster's own; `alone`: no RayJob speaks for it."""
    status, subject = ray_cluster.get("status") or {}, f"raycluster/{name_of(ray_cluster)}"
    newest = sorted(events, key=event_time)
    if alone and (ray_cluster.get("spec") or {}).get("suspend"):
        words = "held back by its queue, or suspended by hand (spec.suspend)"
        yield Trouble(subject, "Suspended", words, "alone", ("Suspended",))
        return
    if not status and not present:
        yield from _unseen(subject, ray_cluster, newest, now)
    yield from _not_created(ray_cluster, newest, present)
    if status.get("state") == "failed":
        found = cause("Failed", status.get("reason"))
        yield Trouble(subject, found.reason, found.message, found.heals, found.key)


def _not_created(
    ray_cluster: Mapping[str, Any], newest: list[Mapping[str, Any]], present: Mapping[str, int]
) -> Iterator[Trouble]:
    """Pods that are wanted and that the API server refused: quotas, limits, webhooks. There is no pod to ask then."""
    failure = condition(ray_cluster, "ReplicaFailure")
    if failure.get("status") == "True":
        # The condition's reason stands before the message as well, on a line of its own.
        reason, message = str(failure.get("reason")), str(failure.get("message") or "")
        message = message.removeprefix(f"{reason}\n")
    elif not failure and newest and newest[-1].get("reason") in _CREATION:
        reason, message = str(newest[-1]["reason"]), str(newest[-1].get("message") or "")
    else:
        return
    found = denied(reason, message)
    groups = wanted(ray_cluster)
    lacking = {group.role: group.total - present.get(group.role, 0) for group in groups}
    # KubeRay makes the head first, and no worker before there is one.
    lacking = {role: n for role, n in lacking.items() if n > 0 and ("Head" in reason) == (role == "head")}
    if lacking:
        subject = who(lacking, {group.role: group.total for group in groups})
        yield Trouble(subject, found.reason, found.message, found.heals, found.key)
