"""KAI: the queue on every object that KAI reads it from, worker groups as gangs, and placement by topology.

Ray has no segments under KAI (its segment annotations are read for PyTorchJob and LWS only), so groups are split, and
each carries its own placement. Names: KAI's pkg/common/constants,
pkg/podgrouper/podgrouper/plugins/{constants,ray,deployment}.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kubectl_nrl import hookimpl
from kubectl_nrl.api import (
    Capacity,
    Check,
    ClusterFacts,
    ClusterReader,
    Context,
    Group,
    Patch,
    Problem,
    Reason,
    Role,
    Scheduler,
    Target,
    Traits,
)
from kubectl_nrl.written import autoscaled, cause, deployments, dig, maps, origin, role_labels

from .kai_capacity import capacity
from .kai_objects import check_priority, check_queue, check_topology
from .kai_pod_group import pod_group_reasons

SCHEDULER = "kai-scheduler"
QUEUE = "kai.scheduler/queue"
PRIORITY = "priorityClassName"
PREEMPTIBILITY = "kai.scheduler/preemptibility"
TOPOLOGY = "kai.scheduler/topology"
REQUIRED = "kai.scheduler/topology-required-placement"
PREFERRED = "kai.scheduler/topology-preferred-placement"
STALENESS = "kai.scheduler/staleness-grace-period"


def _keeps_head(facts: ClusterFacts) -> bool:
    """From 0.17 a workload can switch off the eviction of a gang that lost members, which a head without workers is."""
    return facts.kai_version is not None and facts.kai_version >= (0, 17)


@dataclass(frozen=True)
class Placement:
    """What the files ask for: a Topology's name, and node labels that are its levels.

    `asked` is whether a person named a label; else it is the profile's.
    """

    topology: str | None
    required: str | None
    preferred: str | None
    asked: bool

    @classmethod
    def of(cls, ctx: Context) -> Placement:
        required, preferred = ctx.get("scheduler.requiredPlacement"), ctx.get("scheduler.preferredPlacement")
        topology = ctx.get("scheduler.topology", ctx.profile.get("topology.name"))
        asked = bool(required or preferred)
        if topology and not asked:
            required = ctx.profile.get("topology.label")
        return cls(topology, required, preferred, asked)

    def annotations(self, group: Group, ctx: Context) -> dict[str, str]:
        """The group's own; KAI ignores a topology without a placement and refuses a placement without a topology.

        The profile's default is for GPU groups only (CPU nodes lack the label, and KAI then leaves them out), and is a
        preference for a group that no domain can hold.
        """
        required, preferred = self.required, self.preferred
        if not self.asked:
            required = required if group.gpus else None
            if required and not _fits(group, ctx):
                required, preferred = None, required
        if not self.topology or not (required or preferred):
            return {}
        found = {TOPOLOGY: self.topology, REQUIRED: required, PREFERRED: preferred}
        return {key: value for key, value in found.items() if value}


def _pods_together(group: Group) -> int:
    hosts = group.spec.get("numOfHosts") or 1
    return (group.segment_size or group.replicas) * (hosts if isinstance(hosts, int) else 1)


def _fits(group: Group, ctx: Context) -> bool:
    rack = ctx.profile.get("topology.rackSize")
    return not isinstance(rack, int) or _pods_together(group) <= rack


def _placement_cause(ctx: Context) -> str:
    keys = ("requiredPlacement", "preferredPlacement", "topology")
    return cause(ctx, *(f"scheduler.{key}" for key in keys), "profile")


def _queue(ctx: Context, role: Role) -> str | None:
    """`scheduler.queue`, else the label a person wrote for that role."""
    queue = ctx.get("scheduler.queue")
    if queue is None:
        queue = next((value for _, value in role_labels(ctx, role, QUEUE)), None)
    return None if queue is None else str(queue)


class KaiScheduler(Scheduler):
    name = "kai"
    summary = "KAI scheduler: queues, gangs, topology"
    #: A hand-written spec whose pods name one of these chooses this provider; the queue is then read from the label.
    scheduler_names = (SCHEDULER,)
    traits = Traits(
        segments="split",
        # The operator's KAI support errors on a RayJob in K8sJobMode, silently: it stays Initializing.
        submission_modes=("HTTPMode", "SidecarMode", "InteractiveMode"),
        keeps_head=_keeps_head,
        gang=True,
    )

    def schema(self) -> dict[str, Any]:
        from nrl_schemas import load

        fragment: dict[str, Any] = load("fragments/scheduler_kai")
        return fragment

    def patches(self, ctx: Context) -> Iterable[Patch]:
        for role in ctx.roles.values():
            yield from self._role_patches(ctx, role)
        yield from self._deployment_patches(ctx)

    def _role_patches(self, ctx: Context, role: Role) -> Iterator[Patch]:
        pods, workload = Target.pods(role.name), Target.object("Workload", role.name)
        kind = cause(ctx, "scheduler.kind", f"kuberay.{role.name}.spec")
        yield Patch(pods, {"spec": {"schedulerName": SCHEDULER}}, path=kind)
        queue = _queue(ctx, role)
        if queue is not None:
            label = {"metadata": {"labels": {QUEUE: queue}}}
            why = cause(ctx, "scheduler.queue", f"kuberay.{role.name}")
            yield Patch(workload, label, path=why)
            yield Patch(pods, label, path=why)
        priority = ctx.get("scheduler.priority")
        if priority:
            yield Patch(workload, {"metadata": {"labels": {PRIORITY: str(priority)}}}, path="scheduler.priority")
        if ctx.kind == "RayJob" and _keeps_head(ctx.facts):
            # A negative duration: never. The program ends the head itself, by the RayJob's deletion rules.
            never = {"metadata": {"annotations": {STALENESS: "-1s"}}}
            yield Patch(workload, never, path=kind)
            yield Patch(pods, never, path=kind)
        placement = Placement.of(ctx)
        for group in role.groups:
            if annotations := placement.annotations(group, ctx):
                target = Target.pods(role.name, "workers", group.name)
                yield Patch(target, {"metadata": {"annotations": annotations}}, path=_placement_cause(ctx))

    def _deployment_patches(self, ctx: Context) -> Iterator[Patch]:
        """Labels of the Deployments whose spec names KAI; others stay off it.

        Unlabelled, each pod would be a non-preemptible `inference` workload, which a queue without quota never runs,
        whether it uses GPUs or not.
        """
        for found in deployments(ctx) if ctx.kind != "local" else ():
            if found.pod.get("schedulerName") != SCHEDULER:
                continue
            labels: dict[str, str] = {}
            queue = found.label(QUEUE) or ctx.get("scheduler.queue")
            queue = queue or next((q for role in ctx.roles.values() if (q := _queue(ctx, role))), None)
            if queue:
                labels[QUEUE] = str(queue)
            told = (found.label(PRIORITY), found.label(PREEMPTIBILITY), found.pod.get("priorityClassName"))
            if not any(told):
                labels[PRIORITY] = "train"
            if labels:
                path = f"{found.role}.spec.template.spec.schedulerName"
                yield Patch(Target.object("Deployment", found.role), {"metadata": {"labels": labels}}, path=path)
                yield Patch(Target.pods(found.role), {"metadata": {"labels": labels}}, path=path)

    def problems(self, ctx: Context) -> Iterable[Problem]:
        for role in ctx.roles.values():
            yield from self._queue_problems(ctx, role)
            yield from self._gang_problems(ctx, role)
        yield from self._placement_problems(ctx)

    def _queue_problems(self, ctx: Context, role: Role) -> Iterator[Problem]:
        queue, spelt = _queue(ctx, role), "scheduler.queue"
        written = list(role_labels(ctx, role, QUEUE))
        if ctx.get("scheduler.queue") is None and written:
            spelt = ".".join(str(part) for part in written[0][0][:-1]) + f"[{QUEUE}]"
        for path, value in written:
            if value != queue:
                yield Problem(
                    f'label {QUEUE} is "{value}", but {spelt} is "{queue}"',
                    origin(ctx, *path),
                    hint="KAI would take the one on the RayJob or RayCluster; keep one of them",
                )
        if queue is None:
            kind = ctx.get("scheduler.kind")
            yield Problem(
                f'{role.name}: no queue is named, so KAI puts its pods into "default-queue"',
                origin(ctx, "scheduler") if kind else origin(ctx, "kuberay", role.name),
                hint="scheduler: {kind: kai, queue: NAME}",
                severity="warning",
            )

    def _gang_problems(self, ctx: Context, role: Role) -> Iterator[Problem]:
        if path := autoscaled(ctx, role):
            yield Problem(
                f"{role.name}: Ray's autoscaler does not work under KAI, which schedules a gang of fixed size",
                origin(ctx, *path),
                hint="remove enableInTreeAutoscaling",
            )
        for index, group in maps(dig(role.spec, "workerGroupSpecs")):
            path = ("kuberay", role.name, "spec", "workerGroupSpecs", index)
            if group.get("suspend") is True:
                yield Problem(
                    f'worker group "{group.get("groupName")}" is suspended, but KAI counts it: no pod would start',
                    origin(ctx, *path, "suspend"),
                    hint="set replicas, minReplicas and maxReplicas to 0 instead",
                )

    def _placement_problems(self, ctx: Context) -> Iterator[Problem]:
        placement = Placement.of(ctx)
        if placement.asked and not placement.topology:
            yield Problem(
                "scheduler: a placement needs the name of KAI's Topology object as well, else KAI refuses the pods",
                origin(ctx, "scheduler", "requiredPlacement" if placement.required else "preferredPlacement"),
                hint="scheduler: {topology: NAME, ...} (kubectl get topologies.kai.scheduler)",
            )
        if ctx.get("scheduler.topology") and not (placement.required or placement.preferred):
            yield Problem(
                "scheduler.topology alone does nothing: KAI needs a placement as well",
                origin(ctx, "scheduler", "topology"),
                hint="scheduler: {requiredPlacement: NODE_LABEL, ...}, a level of that topology",
            )
        label = ctx.profile.get("topology.label")
        for role in ctx.roles.values():
            for group in role.groups:
                yield from self._group_problems(ctx, role, group, placement, label)

    def _group_problems(
        self, ctx: Context, role: Role, group: Group, placement: Placement, label: str | None
    ) -> Iterator[Problem]:
        annotations = placement.annotations(group, ctx)
        if annotations and ctx.facts.kai_version and ctx.facts.kai_version < (0, 14):
            yield Problem(
                f'KAI {".".join(map(str, ctx.facts.kai_version))} ignores the placement of worker group "{group.name}" '
                "(0.14 or newer reads it)",
                origin(ctx, "scheduler"),
                severity="warning",
            )
        if not label or label != placement.required or _fits(group, ctx):
            return
        rack, pods = ctx.profile.get("topology.rackSize"), _pods_together(group)
        asked = annotations.get(REQUIRED) == label
        if asked or annotations:
            yield Problem(
                f'{role.name}: {pods} pods of worker group "{group.name}" cannot be in one {label} of {rack} nodes'
                + ("" if asked else "; the placement is only preferred"),
                origin(ctx, "scheduler", "requiredPlacement") if asked else origin(ctx, "profile"),
                hint=f"set kuberay.{role.name}.segmentSize to at most {rack}",
                severity="error" if asked else "warning",
            )

    def checks(self, ctx: Context, cluster: ClusterReader) -> Iterable[Check]:
        wanted = {queue for role in ctx.roles.values() if (queue := _queue(ctx, role))}
        needs_gpus = any(group.gpus and group.replicas for role in ctx.roles.values() for group in role.groups)
        for queue in sorted(wanted):
            yield check_queue(cluster, queue, needs_gpus=needs_gpus)
        if priority := ctx.get("scheduler.priority"):
            yield check_priority(cluster, str(priority))
        placement = Placement.of(ctx)
        groups = (group for role in ctx.roles.values() for group in role.groups)
        if placement.topology and any(placement.annotations(group, ctx) for group in groups):
            yield check_topology(cluster, placement.topology, (placement.required, placement.preferred))

    def reasons(self, run: Mapping[str, Any], cluster: ClusterReader) -> Iterable[Reason]:
        """What the PodGroup that KAI made of the run says, and the gang's progress; nothing where it cannot be read."""
        return pod_group_reasons(run, cluster)

    def capacity(self, ctx: Context, cluster: ClusterReader) -> Capacity:
        queues = sorted({queue for role in ctx.roles.values() if (queue := _queue(ctx, role))})
        return capacity(ctx, cluster, queues, Placement.of(ctx).required or "")


@hookimpl
def nrl_schedulers() -> Iterator[Scheduler]:
    yield KaiScheduler()
