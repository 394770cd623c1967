"""When KubeRay takes what from a finished RayJob, read from the RayJob itself: its deletion rules, or the classic shutdown.

The RayJob is asked and not a Plan, since another laptop, or another tool, may have made it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ..rayjob_state import parse_time, status_of

#: Which parts a rule's policy takes (ray-operator apis/ray/v1/rayjob_types.go, DeletionPolicyType).
_TAKES = {
    "DeleteWorkers": ("workers",),
    "DeleteCluster": ("workers", "head"),
    "DeleteSelf": ("workers", "head", "record"),
}


@dataclass(frozen=True)
class Lifetimes:
    """The time at which each part of a finished run is due to go; None when nothing ever takes it.

    `kept` says that the run asks for that: no rule and no shutdown is written in it.
    """

    workers: datetime | None
    head: datetime | None
    record: datetime | None
    kept: bool


def lifetimes(rayjob: Mapping[str, Any]) -> Lifetimes:
    """What the spec says of this run's end. The run is over (see `rayjob_state.outcome`)."""
    spec, status = rayjob.get("spec") or {}, status_of(rayjob)
    ended = parse_time(status.get("endTime")) or parse_time(rayjob["metadata"].get("creationTimestamp"))
    if ended is None:
        return Lifetimes(None, None, None, False)
    due: dict[str, datetime] = {}
    for policy, seconds in _acting(spec, status):
        for part in _TAKES.get(policy, ()):
            when = ended + timedelta(seconds=seconds)
            due[part] = min(when, due.get(part, when))
    kept = not spec.get("shutdownAfterJobFinishes") and not _rules(spec)
    return Lifetimes(due.get("workers"), due.get("head"), due.get("record"), kept)


def _acting(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """(policy, seconds after the end) of each rule that this end matches; the classic shutdown is one for any end."""
    if spec.get("shutdownAfterJobFinishes") and status.get("jobDeploymentStatus") != "ValidationFailed":
        yield "DeleteCluster", int(spec.get("ttlSecondsAfterFinished") or 0)
    for rule in _rules(spec):
        condition = rule.get("condition") or {}
        for key in ("jobStatus", "jobDeploymentStatus"):
            if condition.get(key) and condition[key] == status.get(key):
                yield str(rule.get("policy") or ""), int(condition.get("ttlSeconds") or 0)


def _rules(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list((spec.get("deletionStrategy") or {}).get("deletionRules") or ())
