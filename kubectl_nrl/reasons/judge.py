"""From what was read of a run to the troubles it has, one line for all pods that share one, and to its picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from .. import raycluster_state
from ..api import Reason
from ..manifests.amounts import gpus_held
from ..rayjob_state import describe, outcome, parse_time, status_of
from .causes import Cause, countless, one_line
from .deployments import deployment_troubles, replicas_wanted
from .model import GroupView, Situation, Snapshot, Trouble
from .pod_judge import cause_of
from .pods import being_deleted, is_ready, name_of, role_of, who
from .ray_objects import Wanted, ray_cluster_troubles, rayjob_troubles, wanted

_ORDER = {"never": 0, "by hand": 1, "alone": 2}


def troubles(situation: Situation, now: datetime | None) -> list[Trouble]:
    """What keeps the run waiting at `now` (aware), the certain first; nothing for a run that is over, but its refusal.

    The end of a run is no trouble, and how its pods go is the noise of that.
    """
    found = list(_troubles(situation, now))
    return sorted(found, key=lambda t: (_ORDER[t.heals], t.who, t.key))


def _troubles(situation: Situation, now: datetime | None) -> Iterator[Trouble]:
    rayjob, cluster, said = situation.rayjob, situation.ray_cluster, situation.said
    by_uid = _by_subject(situation.events)
    if rayjob is not None:
        yield from rayjob_troubles(rayjob, cluster, by_uid.get(_uid(rayjob), ()), now, explained=bool(said))
        if outcome(status_of(rayjob)) is not None:
            return
    present = Counter(role_of(p) for p in situation.pods if not being_deleted(p))
    if cluster is not None and not cluster["metadata"].get("deletionTimestamp"):
        alone = rayjob is None and not said
        yield from ray_cluster_troubles(cluster, by_uid.get(_uid(cluster), ()), present, now, alone=alone)
    if situation.deployment is not None:
        yield from deployment_troubles(situation.deployment, present)
    of_pods = list(_pod_troubles(situation, by_uid, now))
    yield from of_pods
    if not _all_ready(situation):
        for reason in dict.fromkeys(said):
            # A scheduler writes the same on its own object and on each pod.
            said_so = one_line(reason.message).rstrip(".")
            if not said_so or not any(said_so in trouble.message for trouble in of_pods):
                yield _of_provider(reason)


def _uid(obj: Mapping[str, Any]) -> str:
    return str(obj["metadata"].get("uid"))


def _by_subject(events: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Events by the uid of what they are about (`regarding` in events.k8s.io)."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for event in events:
        about = event.get("involvedObject") or event.get("regarding") or {}
        found.setdefault(str(about.get("uid")), []).append(event)
    return found


def _wanted(situation: Situation) -> list[Wanted]:
    return [*wanted(situation.ray_cluster), *replicas_wanted(situation.deployment)]


def _all_ready(situation: Situation) -> bool:
    """Whether every wanted pod is there and ready: then whatever held them back is over."""
    ready = Counter(role_of(p) for p in situation.pods if is_ready(p) and not being_deleted(p))
    groups = _wanted(situation)
    return bool(groups) and all(ready[group.role] >= group.total for group in groups)


def _of_provider(reason: Reason) -> Trouble:
    message = one_line(reason.message)
    key = (countless(reason.subject), reason.reason, countless(message))
    return Trouble(reason.subject, reason.reason, message, "alone" if reason.heals else "by hand", key)


def _pod_troubles(
    situation: Situation, by_uid: Mapping[str, list[Mapping[str, Any]]], now: datetime | None
) -> Iterator[Trouble]:
    totals = Counter(role_of(p) for p in situation.pods if not being_deleted(p))
    for group in _wanted(situation):
        totals[group.role] = max(totals[group.role], group.total)
    head_ready = any(role_of(p) == "head" and is_ready(p) and not being_deleted(p) for p in situation.pods)
    found: dict[tuple[str, ...], list[tuple[Mapping[str, Any], Cause]]] = {}
    for pod in situation.pods:
        cause = cause_of(pod, now, events=by_uid.get(_uid(pod), ()), head_ready=head_ready)
        if cause is not None:
            found.setdefault(cause.key, []).append((pod, cause))
    head_explains = any(role_of(pod) == "head" for members in found.values() for pod, _ in members)
    for key, members in found.items():
        cause = members[0][1]
        if cause.reason != "WaitsForHead" or not head_explains:
            subject = who(Counter(role_of(pod) for pod, _ in members), totals)
            names = tuple(sorted(name_of(pod) for pod, _ in members))
            yield Trouble(subject, cause.reason, cause.message, cause.heals, key, names)


def snapshot(situation: Situation, now: datetime | None) -> Snapshot:
    """The run's picture at `now`: where it stands, its pods by group, what is wrong, the GPUs it holds."""
    state, description = _state(situation)
    groups = tuple(_groups(situation))
    return Snapshot(
        state,
        description,
        _started(situation),
        groups,
        tuple(troubles(situation, now)),
        sum(group.gpus for group in groups),
        situation.notes,
    )


def ready_snapshot(situation: Situation, description: str) -> Snapshot:
    """The picture of something that is up, by its object alone: its pods are those that its spec asks for."""
    groups = tuple(
        GroupView(
            _kind(group.role), group.name, group.total, group.total, group.total * group.gpus, {"Ready": group.total}
        )
        for group in _wanted(situation)
    )
    return Snapshot(
        raycluster_state.READY, description, _started(situation), groups, (), sum(group.gpus for group in groups)
    )


def _started(situation: Situation) -> datetime | None:
    top = next(
        (obj for obj in (situation.rayjob, situation.ray_cluster, situation.deployment) if obj is not None), None
    )
    return (
        None if top is None else parse_time(status_of(top).get("startTime") or top["metadata"].get("creationTimestamp"))
    )


def _state(situation: Situation) -> tuple[str, str]:
    rayjob, cluster = situation.rayjob, situation.ray_cluster
    if situation.deployment is not None:
        return raycluster_state.STARTING, "its replicas are starting"
    if rayjob is not None:
        status = status_of(rayjob)
        end = outcome(status)
        return end.state if end else str(status.get("jobDeploymentStatus") or "Created"), describe(status)
    if cluster is None:
        return "Absent", "there is no such Ray cluster"
    found = raycluster_state.state_of(cluster)
    return found, raycluster_state.describe(found)


def _groups(situation: Situation) -> Iterator[GroupView]:
    by_role: dict[str, list[Mapping[str, Any]]] = {}
    for pod in situation.pods:
        by_role.setdefault(role_of(pod), []).append(pod)
    names = {group.role: (group.name, group.total) for group in _wanted(situation)}
    for role in [*names, *(role for role in sorted(by_role) if role not in names)]:
        pods = by_role.get(role, [])
        alive = [p for p in pods if not being_deleted(p)]
        name, total = names.get(role, (role.removeprefix("workers of "), 0))
        states = Counter(_pod_state(p) for p in pods)
        yield GroupView(
            _kind(role),
            name,
            sum(map(is_ready, alive)),
            max(total, len(alive)),
            sum(map(gpus_held, pods)),
            dict(states),
        )


def _kind(role: str) -> str:
    return "head" if role == "head" else "worker" if role.startswith("workers") else "other"


def _pod_state(pod: Mapping[str, Any]) -> str:
    if being_deleted(pod):
        return "Terminating"
    if is_ready(pod):
        return "Ready"
    cause = cause_of(pod)
    return cause.reason if cause else str((pod.get("status") or {}).get("phase") or "Pending")
