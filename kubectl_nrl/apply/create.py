"""Creates a Plan's objects: children, then the workload, then who owns whom; and takes them back when a step fails.

The workload comes after its children since KubeRay makes pods of it at once, and the children's owner comes last
since it needs the workload's uid. A kill in between leaves at worst children that hold nothing.
"""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..api import Ref
from ..errors import ClusterError, ExitCode, NrlError
from ..labels import RUN, labels_of
from .outages import Outages

if TYPE_CHECKING:
    from ..plan.model import Plan, PlannedObject

Say = Callable[[str], None]
Tell = Callable[[Mapping[str, Any]], None]

#: Seconds that a controller gets to make the objects that the workload's pods refer to.
CONTROLLER = 60.0
#: Seconds for which an object whose creation got no answer is asked about, and between two questions.
UNANSWERED, ASK = 60.0, 1.0


@dataclass
class Created:
    """What a call made so far, in order; `workload` is the RayJob as the API server returned it.

    `uncertain`: whether the workload exists is not known, so that nothing of it may be taken back.
    """

    objects: list[dict[str, Any]] = field(default_factory=list)
    workload: dict[str, Any] | None = None
    uncertain: bool = False


class Uncertain(NrlError):
    """Nobody says whether the workload was created: it may run."""

    exit_code = ExitCode.UNKNOWN


def up(
    plan: Plan,
    cluster: Any,
    created: Created,
    *,
    say: Say,
    warn: Say,
    event: Tell = lambda event: None,
    controller_within: float = CONTROLLER,
) -> None:
    """Create everything, filling `created` on the way.

    A step that fails takes back what is in `created`, and nothing else, then raises. Ctrl-C before the workload
    exists does so too; after it, the run is left alone. Raises `Uncertain`, taking nothing back, when the workload's creation
    got no answer and the API server stays away.
    """
    from ..plan.model import WORKLOAD_WAVE

    try:
        for obj in (o for o in plan.objects if o.wave < WORKLOAD_WAVE):
            _create(obj, plan, cluster, created, say, event)
            for ref in obj.await_refs:
                await_made(ref, obj, plan.namespace, cluster, say=say, within=controller_within)
        owner = owner_reference(_create(plan.workload(), plan, cluster, created, say, event))
        for obj in (o for o in plan.objects if o.wave >= WORKLOAD_WAVE and o is not plan.workload()):
            _create(obj, plan, cluster, created, say, event, owner=owner)
    except BaseException as error:
        if created.uncertain:
            raise
        if created.workload is None or isinstance(error, Exception):
            roll_back(cluster, created, say, warn)
        else:
            _own_children(cluster, created, warn)
        raise
    _own_children(cluster, created, warn)


def _create(
    obj: PlannedObject,
    plan: Plan,
    cluster: Any,
    created: Created,
    say: Say,
    event: Tell,
    *,
    owner: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    manifest = copy.deepcopy(dict(obj.manifest))
    if owner is not None:
        manifest["metadata"]["ownerReferences"] = [dict(owner)]
    try:
        made: dict[str, Any] = cluster.create(manifest, namespace=plan.namespace)
    except BaseException as error:
        try:
            arrived = _arrived(obj, plan, cluster, error, say)
        except ClusterError as silence:
            if obj is not plan.workload():
                raise error from silence
            created.uncertain = True
            if not isinstance(error, ClusterError):
                raise error from silence
            words = f"{obj.kind.lower()}/{obj.name}"
            raise Uncertain(f"whether {words} was created is not known: {error.message}", error.hint) from silence
        if arrived is None:
            raise
        made = arrived
        if not isinstance(error, Exception):  # Ctrl-C while the answer was on its way
            _note(obj, made, created, plan)
            raise
    _note(obj, made, created, plan)
    event({"event": "created", "kind": obj.kind, "name": obj.name, "namespace": plan.namespace})
    return made


def _note(obj: PlannedObject, made: dict[str, Any], created: Created, plan: Plan) -> None:
    made.setdefault("apiVersion", obj.api_version)
    made.setdefault("kind", obj.kind)
    created.objects.append(made)
    if obj is plan.workload():
        created.workload = made


def _arrived(obj: PlannedObject, plan: Plan, cluster: Any, error: BaseException, say: Say) -> dict[str, Any] | None:
    """The object, when the request failed without an answer and yet was carried out: it carries this run's label.

    Raises `ClusterError` when that cannot be told.
    """
    if isinstance(error, ClusterError) and (0 < error.status < 500 or error.reason == "Unreachable"):
        return None  # refused, or never sent
    if not isinstance(error, (ClusterError, KeyboardInterrupt)):
        return None
    # A person who pressed Ctrl-C does not wait for the API server to come back.
    deadline, told = time.monotonic() + (UNANSWERED if isinstance(error, ClusterError) else 0.0), False
    while True:
        try:
            live: dict[str, Any] | None = cluster.get(obj.api_version, obj.kind, obj.name, plan.namespace)
            return live if live is not None and labels_of(live).get(RUN) == plan.run.id else None
        except ClusterError as silence:
            if 0 < silence.status < 500 or time.monotonic() >= deadline:
                raise
        if not told:
            told = True
            say(f"{obj.kind.lower()}/{obj.name} was sent and nothing came back; asking whether it is there")
        time.sleep(ASK)


def await_made(ref: Ref, obj: PlannedObject, namespace: str, cluster: Any, *, say: Say, within: float) -> None:
    """Wait for what a controller makes of a child. Raises `ClusterError` when it does not."""
    deadline = time.monotonic() + within
    outages, told = Outages(deadline, say), False
    while outages.ask(lambda: cluster.get(ref.api_version, ref.kind, ref.name, namespace)) is None:
        if time.monotonic() >= deadline:
            raise ClusterError(
                f"{ref.kind.lower()}/{ref.name} was not made of {obj.kind.lower()}/{obj.name} within {within:.0f} s: "
                "its controller does not run, or refuses it",
                f"kubectl describe {obj.kind.lower()} {obj.name} -n {namespace}",
            )
        if not told:
            told = True
            say(f"waiting for {ref.kind.lower()}/{ref.name}, which the controller of {obj.kind} makes")
        time.sleep(0.25)


def owner_reference(workload: Mapping[str, Any]) -> dict[str, Any]:
    """An ownerReference without blockOwnerDeletion: that would need a permission that users of shared clusters lack."""
    meta = workload["metadata"]
    return {"apiVersion": workload["apiVersion"], "kind": workload["kind"], "name": meta["name"], "uid": meta["uid"]}


def _own_children(cluster: Any, created: Created, warn: Say) -> None:
    """Tell the children whose they are, so that garbage collection removes them with the run.

    A Ctrl-C meanwhile is acted on when all of them know; a second one at once.
    """
    assert created.workload is not None
    owner = owner_reference(created.workload)
    interrupt: KeyboardInterrupt | None = None
    for made in created.objects:
        if made is created.workload or made["metadata"].get("ownerReferences"):
            continue
        try:
            _own(made, owner, cluster, warn)
        except KeyboardInterrupt as error:
            if interrupt is not None:
                raise
            interrupt = error
            _own(made, owner, cluster, warn)  # whether it arrived is not known
    if interrupt is not None:
        raise interrupt


def owned_by(owner: Mapping[str, Any], meta: Mapping[str, Any]) -> dict[str, Any]:
    """The patch that tells an object whose it is; refused for another that has its name by now, which would be deleted with the owner."""
    return {"metadata": {"uid": meta["uid"], "ownerReferences": [dict(owner)]}}


def _own(made: Mapping[str, Any], owner: Mapping[str, Any], cluster: Any, warn: Say) -> None:
    meta = made["metadata"]
    try:
        cluster.patch(made["apiVersion"], made["kind"], meta["name"], meta["namespace"], owned_by(owner, meta))
    except ClusterError as error:
        warn(f"{made['kind'].lower()}/{meta['name']} will not be removed with the run: {error.message}")


def roll_back(cluster: Any, created: Created, say: Say, warn: Say) -> None:
    """Delete what was made, last first, by uid. A Ctrl-C meanwhile ends it, with what is left named."""
    try:
        while created.objects:
            made = created.objects[-1]
            _take_back(cluster, made, say, warn)
            created.objects.pop()
            if made is created.workload:
                created.workload = None
    except KeyboardInterrupt:
        left = [f"{made['kind'].lower()}/{made['metadata']['name']}" for made in created.objects]
        namespace = created.objects[-1]["metadata"]["namespace"]
        warn(f"interrupted while taking back; may be left: kubectl delete -n {namespace} {' '.join(left)}")
        raise


def _take_back(cluster: Any, made: Mapping[str, Any], say: Say, warn: Say) -> None:
    meta = made["metadata"]
    words = f"{made['kind'].lower()}/{meta['name']}"
    try:
        cluster.delete(
            made["apiVersion"],
            made["kind"],
            meta["name"],
            meta["namespace"],
            uid=meta["uid"],
            propagation="Foreground",
        )
    except ClusterError as error:
        line = f"{words} could not be deleted again: {error.message}; kubectl delete {words} -n {meta['namespace']}"
        told = warn
    else:
        line, told = f"rolled back: {words} deleted", say
    with contextlib.suppress(BrokenPipeError):  # who read this is gone, and the next object is still there
        told(line)
