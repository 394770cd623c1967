"""What a run needs to be allowed to do: exactly the verbs that its Plan and its flags use.

Asked before anything is created, since a refusal in the middle leaves things half made. The same table is the least
role that an admin must grant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ..api import Check
from ..cluster.side_by_side import side_by_side

if TYPE_CHECKING:
    from ..plan.model import Plan

RAY = "ray.io"


@dataclass(frozen=True)
class Need:
    """A verb on a resource (`pods/portforward`) of an API group, what for, and whether a run is refused without it."""

    verb: str
    group: str
    resource: str
    why: str
    required: bool = True

    @property
    def what(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


@dataclass(frozen=True)
class Wanted:
    """What the flags of a run ask for beside the Plan: to wait for its end, to upload code, to replace a run of that name."""

    wait: bool = True
    uploads: bool = False
    replace: bool = False


def rayjob_needs(wanted: Wanted) -> Iterator[Need]:
    """What every run in RayJob mode needs beside creating the Plan's own objects.

    `job logs`, `job stop` and `runs` use the same verbs; what only they need is not required of a run.
    """
    look, release = "to see the run's state", "to release what a stopped run holds"
    yield Need("get", RAY, "rayjobs", look)
    yield Need("list", RAY, "rayjobs", "to find the run again by its id, and to wait for its end", wanted.wait)
    yield Need("watch", RAY, "rayjobs", "to wait for the run's end", wanted.wait)
    yield Need("delete", RAY, "rayjobs", "to take back a launch that fails, and for --replace", wanted.replace)
    yield Need("patch", RAY, "rayjobs", "to tell KubeRay of a submission, and to keep the wandb page", wanted.uploads)
    yield Need("get", RAY, "rayclusters", "to find the head pod", wanted.uploads)
    yield Need("delete", RAY, "rayclusters", release, False)
    yield Need("list", "", "pods", "to find the head pod", wanted.uploads)
    yield Need("watch", "", "pods", "to say why pods wait", False)
    why = "to upload the code" if wanted.uploads else "to show the driver's log"
    yield Need("create", "", "pods/portforward", why, wanted.uploads)
    # Which of the two verbs is asked for depends on the API server's version.
    yield Need("get", "", "pods/portforward", why, False)
    yield Need("list", "", "events", "to say why pods wait", False)


def raycluster_needs(plan: Plan) -> Iterator[Need]:
    """The same for long-lived clusters: what is there is used again, and drivers are reached through their heads."""
    for verb in ("get", "list", "watch"):
        yield Need(verb, RAY, "rayclusters", "to see when the cluster is ready")
    yield Need("delete", RAY, "rayclusters", "for `cluster down` and --recreate", False)
    for verb in ("list", "watch"):
        yield Need(verb, "", "pods", "to find the head, and to say why pods wait")
    if plan.launch.submitter == "exec":
        why = "to start the driver and read its log; --submitter portForward does without"
        yield Need("create", "", "pods/exec", why)
        yield Need("create", "", "pods/portforward", "to ask Ray whether it is up, and what runs there")
    else:
        yield Need("create", "", "pods/portforward", "to submit the driver and read its log")
    for verb in ("get", "list", "create", "patch", "delete"):
        yield Need(verb, "", "configmaps", "to keep and find the run's record", False)
    yield Need("list", "", "events", "to say why pods wait", False)


def planned_needs(plan: Plan, plural: Callable[[str, str], str]) -> Iterator[Need]:
    """What the Plan's own objects need: to be made, given their owner, and taken back when a later one is refused."""
    for obj in plan.objects:
        group, resource = obj.api_version.rpartition("/")[0], plural(obj.api_version, obj.kind)
        yield Need("create", group, resource, f"to make {obj.kind} {obj.name}")
        if obj.child:
            yield Need("patch", group, resource, f"to have {obj.kind} {obj.name} removed with the run", False)
        if obj.kind not in ("RayJob", "RayCluster"):
            yield Need("delete", group, resource, f"to take back {obj.kind} {obj.name} when a launch fails", False)
        for ref in obj.await_refs:
            awaited = ref.api_version.rpartition("/")[0]
            yield Need("get", awaited, plural(ref.api_version, ref.kind), f"to wait for {ref.kind} {ref.name}")


def standing_needs(plan: Plan, plural: Callable[[str, str], str]) -> Iterator[Need]:
    """What it takes to use again what is there: to see each planned object, and to give it its owner."""
    for obj in plan.objects:
        group, resource = obj.api_version.rpartition("/")[0], plural(obj.api_version, obj.kind)
        yield Need("get", group, resource, f"to see whether {obj.kind} {obj.name} is there")
        if obj.kind == "Deployment":
            yield Need("watch", group, resource, "to see when it is up")
        elif obj.kind != "RayCluster":
            yield Need(
                "patch", group, resource, f"to have {obj.kind} {obj.name} removed with what it belongs to", False
            )


def plan_needs(plan: Plan, wanted: Wanted, plural: Callable[[str, str], str]) -> list[Need]:
    """All that this Plan needs, each permission once."""
    own = [*rayjob_needs(wanted)] if plan.kind == "RayJob" else [*raycluster_needs(plan), *standing_needs(plan, plural)]
    return each_once((*planned_needs(plan, plural), *own))


def each_once(needs: Iterable[Need]) -> list[Need]:
    """Each permission once, required where any use of it is."""
    found: dict[tuple[str, str, str], Need] = {}
    for need in needs:
        key = (need.verb, need.group, need.resource)
        if key not in found or (need.required and not found[key].required):
            found[key] = need
    return list(found.values())


def granted(cluster: Any, namespace: str, needs: Sequence[Need]) -> list[bool | None]:
    """Whether the user has each permission, asked side by side; None where the cluster does not say."""
    return side_by_side([partial(_granted, cluster, namespace, need) for need in needs])


def _granted(cluster: Any, namespace: str, need: Need) -> bool | None:
    resource, _, sub = need.resource.partition("/")
    answer: bool | None = cluster.can_i(need.verb, need.group, resource, namespace, subresource=sub)
    return answer


def permission_checks(cluster: Any, namespace: str, needs: Sequence[Need]) -> Iterator[Check]:
    """A check for each permission; those that are missing and only cost comfort are one note together."""
    missing: list[Need] = []
    for need, answer in zip(needs, granted(cluster, namespace, needs), strict=True):
        title = f'permission to {need.verb} {need.what} in namespace "{namespace}"'
        if answer is not False:
            yield Check(title, answer, "" if answer else "the cluster does not say")
        elif need.required:
            fix = f'ask an admin for verb "{need.verb}" on {need.what} in namespace "{namespace}"\n{_role(namespace)}'
            yield Check(title, False, f'user "{cluster.user}" lacks it (needed {need.why})', fix)
        else:
            missing.append(need)
    if missing:
        uses = "; ".join(dict.fromkeys(need.why for need in missing))
        detail = f'user "{cluster.user}" may not {by_resource(missing)} in namespace "{namespace}": a run does without ({uses})'
        yield Check("permissions", None, detail, _role(namespace))


def by_resource(needs: Iterable[Need]) -> str:
    """`delete, patch rayjobs.ray.io; list pods`."""
    verbs: dict[str, list[str]] = {}
    for need in needs:
        verbs.setdefault(need.what, []).append(need.verb)
    return "; ".join(f"{', '.join(listed)} {what}" for what, listed in verbs.items())


def _role(namespace: str) -> str:
    return f"kubectl nrl doctor --rbac -n {namespace}   # the least Role, for an admin to apply"


def role_rules(needs: Iterable[Need]) -> list[dict[str, list[str]]]:
    """The rules of a Role that grants them, resources with equal verbs together; in the order of the needs."""
    verbs: dict[tuple[str, str], list[str]] = {}
    for need in needs:
        listed = verbs.setdefault((need.group, need.resource), [])
        if need.verb not in listed:
            listed.append(need.verb)
    rules: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, resource), allowed in verbs.items():
        rules.setdefault((group, tuple(allowed)), []).append(resource)
    return [
        {"apiGroups": [group], "resources": resources, "verbs": list(allowed)}
        for (group, allowed), resources in rules.items()
    ]
