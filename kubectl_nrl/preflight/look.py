"""All questions to the cluster at once, in the order in which a person reads the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ..api import Check
from ..cluster.side_by_side import side_by_side
from .endpoints import endpoint_checks
from .kuberay import kuberay_check, name_checks
from .permissions import Wanted, permission_checks, plan_needs
from .prerequisites import namespace_check, reference_checks
from .quota import quota_checks
from .references import Reference, references, twice_claimed
from .room import Room, room_of
from .topic import Topic, looked_at

if TYPE_CHECKING:
    from ..plan import Asking, Plan

#: Kinds of references by the topic they are shown under.
_TOPICS = {
    "Secret": "secrets",
    "ConfigMap": "config maps",
    "PersistentVolumeClaim": "volumes",
    "ServiceAccount": "service accounts",
    "PriorityClass": "classes",
    "RuntimeClass": "classes",
    "ResourceClaim": "claims",
    "ResourceClaimTemplate": "claims",
}


@dataclass(frozen=True)
class Answers:
    """What was found, by topic; `room` only where it was asked for."""

    topics: tuple[Topic, ...]
    room: Room | None = None


def look(plan: Plan, asking: Asking, cluster: Any, wanted: Wanted, *, install: str, room: bool = False) -> Answers:
    """Look at everything side by side. Raises `ClusterError` where the cluster does not answer, `PluginError` for a plugin.

    `install` is the command that installs KubeRay.
    """
    if not plan.facts.kuberay:
        # Without its kinds nothing else of a run can be asked for.
        check = kuberay_check(plan.facts, cluster.served().get("ray.io", ()), install)
        return Answers((Topic("kuberay", (check,)),))
    room_found: list[Room] = []

    def measure() -> None:
        needed = sum(role.gpus for role in plan.roles)
        room_found.append(room_of(needed, plan.scheduler, asking.capacity, cluster))

    asks: list[Callable[[], Topic | None]] = [measure] if room else []
    asks += [partial(looked_at, name, ask) for name, ask in _questions(plan, asking, cluster, wanted, install)]
    topics = [topic for topic in side_by_side(asks) if topic is not None]
    if any(topic.name == "namespace" and topic.failed for topic in topics):
        # Nothing can be in it, and to say so of each thing would hide the one cause.
        topics = [topic for topic in topics if topic.name in ("kuberay", "namespace")]
    return Answers(_merged(topics), room_found[0] if room_found else None)


def _questions(
    plan: Plan, asking: Asking, cluster: Any, wanted: Wanted, install: str
) -> Iterator[tuple[str, Callable[[], Iterable[Check]]]]:
    yield "kuberay", lambda: [kuberay_check(plan.facts, (), install)]
    yield "namespace", lambda: namespace_check(cluster, plan.namespace)
    yield "name", lambda: name_checks(cluster, plan)
    yield "permissions", lambda: permission_checks(cluster, plan.namespace, plan_needs(plan, wanted, cluster.plural))
    for kind, topic in _TOPICS.items():
        for refs in _by_object(r for r in references(plan) if r.kind == kind):
            yield topic, partial(reference_checks, cluster, plan.namespace, plan.facts, refs)
    yield "volumes", lambda: _twice(plan)
    yield "quota", lambda: quota_checks(cluster, plan)
    yield "endpoints", lambda: endpoint_checks(cluster, plan)
    for name, ask in asking.questions.items():
        yield name, partial(ask, cluster)


def _by_object(refs: Iterable[Reference]) -> Sequence[list[Reference]]:
    found: dict[str, list[Reference]] = {}
    for ref in refs:
        found.setdefault(ref.name, []).append(ref)
    return list(found.values())


def _twice(plan: Plan) -> Iterator[Check]:
    for words, claim, source in twice_claimed(plan):
        detail = f"the {words} have two volumes of this claim, and stay in ContainerCreating for good"
        fix = "keep one volume of it, and mount that as often as you like"
        yield Check(f'PersistentVolumeClaim "{claim}"' + (f" ({source})" if source else ""), False, detail, fix)


def _merged(topics: Iterable[Topic]) -> tuple[Topic, ...]:
    """Topics of one name as one, where they were first; those with nothing in them are left out."""
    found: dict[str, list[Check]] = {}
    for topic in topics:
        found.setdefault(topic.name, []).extend(topic.checks)
    return tuple(Topic(name, tuple(checks)) for name, checks in found.items() if checks)
