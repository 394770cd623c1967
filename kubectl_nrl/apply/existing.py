"""What happens when a run's name is taken: nothing is ever reused, and only what may be replaced is replaced.

KubeRay starts nothing for a RayJob that is already in a final state, so a create that became an update would report an
old run's success (kuberay#3560): a RayJob is only ever created.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..api import User
from ..errors import ClusterError, NrlError
from ..labels import RUN, is_child, ownership
from ..rayjob_state import describe, outcome, parse_time, span, status_of
from .release import delete_run, wait_gone

if TYPE_CHECKING:
    from ..plan.model import Plan, PlannedObject

#: Seconds that something already being deleted is waited for (finalizers of a ComputeDomain take some).
TERMINATING = 120.0

Say = Callable[[str], None]


def name_holder(
    plan: Plan, cluster: Any, user: User, *, replace: bool, allow: Callable[[str], None]
) -> Mapping[str, Any] | None:
    """The RayJob that holds the Plan's name and may be replaced, or None when the name is free. Changes nothing.

    `allow(question)` asks a person and raises `NrlError` unless they agree. Raises `ClusterError` for a name that is
    taken, with its holder's result and age, or its owner.
    """
    workload = plan.workload()
    _refuse_used_id(plan, workload, cluster)
    live: Mapping[str, Any] | None = cluster.get(workload.api_version, workload.kind, workload.name, plan.namespace)
    if live is None or live["metadata"].get("deletionTimestamp"):
        return live
    owner = ownership(live, user)
    if not replace:
        raise _taken(live, cluster, "you" if owner.mine else owner.words, mine=owner.mine)
    if not owner.mine:
        raise NrlError(
            f'RayJob "{workload.name}" in namespace "{plan.namespace}" belongs to {owner.words} '
            f'(you are "{user.name}"): not replaced',
            "choose another --rayjob-name",
        )
    status = status_of(live)
    if outcome(status) is None:
        allow(f"rayjob/{workload.name} is a live run of yours ({describe(status)}); delete it and start again?")
    return live


def _refuse_used_id(plan: Plan, workload: PlannedObject, cluster: Any) -> None:
    """Two runs of one id would be told apart by nothing: their logs, and every later command, go by it."""
    selector = f"{RUN}={plan.run.id}"
    try:
        jobs = cluster.list(workload.api_version, workload.kind, plan.namespace, label_selector=selector)
    except ClusterError as error:
        if error.status == 403:
            return  # who may not list runs can still make one; generated ids do not meet
        raise
    for job in jobs:
        name = job["metadata"]["name"]
        if name != workload.name:
            raise ClusterError(
                f'run id "{plan.run.id}" is taken by rayjob/{name} ({describe(status_of(job))})',
                "choose another --run-id, or leave it out",
                status=409,
                reason="AlreadyExists",
            )


def make_way(holder: Mapping[str, Any] | None, plan: Plan, cluster: Any, say: Say) -> None:
    """Delete the holder (see `name_holder`) and wait until its names are free.

    Raises `ClusterError` when they do not get so.
    """
    if holder is not None:
        name, end = holder["metadata"]["name"], outcome(status_of(holder))
        if holder["metadata"].get("deletionTimestamp"):
            say(f"rayjob/{name} of an earlier run is being deleted; waiting for it to go")
            wait_gone(cluster, holder, within=TERMINATING, say=say)
        else:
            say(f"replacing rayjob/{name} ({end.words if end else describe(status_of(holder))})")
            delete_run(cluster, holder, say=say)
    for obj in plan.objects:
        if obj is not plan.workload():
            _free_child(obj, plan.namespace, cluster, holder, say)


def _taken(live: Mapping[str, Any], cluster: Any, owner: str, *, mine: bool) -> ClusterError:
    name, status = live["metadata"]["name"], status_of(live)
    end = outcome(status)
    other = "choose another --rayjob-name"
    if end is not None:
        ended = parse_time(status.get("endTime")) or parse_time(live["metadata"].get("creationTimestamp"))
        now = cluster.time()
        age = f", {span((now - ended).total_seconds())} ago" if ended and now else ""
        message = f'RayJob "{name}" already exists and finished ({end.words}{age}; owner: {owner})'
        hint = f"--replace deletes it and runs again; or {other}" if mine else other
    else:
        message = f'RayJob "{name}" already exists and is live ({describe(status)}; owner: {owner})'
        hint = f"{other}; or --replace --yes deletes it and starts again" if mine else other
    return ClusterError(message, hint, status=409, reason="AlreadyExists")


def _free_child(obj: PlannedObject, namespace: str, cluster: Any, holder: Mapping[str, Any] | None, say: Say) -> None:
    """A child of that name may only be on its way out: two runs never share one, and most specs are immutable."""
    try:
        live = cluster.get(obj.api_version, obj.kind, obj.name, namespace)
    except ClusterError as error:
        if error.status == 403 or error.reason == "NotServed":
            return  # creating it will say what is wrong
        raise
    if live is None:
        return
    words = f"{obj.kind.lower()}/{obj.name}"
    if holder is not None and not live["metadata"].get("deletionTimestamp") and is_child(live, holder):
        cluster.delete(obj.api_version, obj.kind, obj.name, namespace, uid=live["metadata"]["uid"])
    elif not live["metadata"].get("deletionTimestamp"):
        raise ClusterError(
            f'{words} already exists in namespace "{namespace}" and is not of this run; two runs never share one',
            f"choose another --rayjob-name, or: kubectl delete {obj.kind.lower()} {obj.name} -n {namespace}",
            status=409,
            reason="AlreadyExists",
        )
    finalizers = ", ".join(live["metadata"].get("finalizers") or ())
    say(f"{words} is still being deleted{f' (finalizers: {finalizers})' if finalizers else ''}; waiting for it to go")
    wait_gone(cluster, live, within=TERMINATING, say=say)
