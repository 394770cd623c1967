"""Kueue: the queue and priority labels on the workload; kube-scheduler still places the pods.

Worker groups stay whole and segments become podset slices, because Kueue limits how many podsets a workload has.
Sources: Kueue's pkg/controller/jobs/{rayjob,raycluster}, pkg/controller/constants, apis/kueue/v1beta2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
from kubectl_nrl.written import autoscaled, cause, dig, origin

from .kueue_queue import capacity, check_priority, check_queue
from .kueue_requests import claimed_classes, requested
from .kueue_workload import QUEUE, VERSIONS, workload_reasons

PRIORITY = "kueue.x-k8s.io/priority-class"
REQUIRED = "kueue.x-k8s.io/podset-required-topology"
PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"
SLICE = "kueue.x-k8s.io/podset-slice-required-topology"
SLICE_SIZE = "kueue.x-k8s.io/podset-slice-size"

#: Of a pod template: what Kueue merges in on admission and takes back on eviction.
_MERGED = ("spec.nodeSelector", "spec.tolerations", "spec.schedulingGates", "metadata.labels", "metadata.annotations")


def _max_worker_groups(facts: ClusterFacts, submission_mode: str) -> int | None:
    """Podsets (8 through 0.17, 10 in 0.18, 18 from 0.19) without the head's and, in K8sJobMode, the submitter's."""
    if facts.kueue_version is None:
        return None
    podsets = 8 if facts.kueue_version < (0, 18) else 10 if facts.kueue_version < (0, 19) else 18
    return podsets - (2 if submission_mode == "K8sJobMode" else 1)


def _never(facts: ClusterFacts) -> bool:
    return False


def _served(facts: ClusterFacts) -> str:
    """The newest API version: v1beta2 is served from 0.15; where the version is not known, v1beta1, which all serve."""
    newer = facts.kueue_version is not None and facts.kueue_version >= (0, 15)
    return VERSIONS[0] if newer else VERSIONS[1]


class KueueScheduler(Scheduler):
    name = "kueue"
    summary = "Kueue: queues with quota, pods placed by kube-scheduler"
    traits = Traits(
        segments="slices",
        # "a kueue managed job should delete the cluster after finishing": its webhook refuses deletion rules.
        lifetime="shutdown",
        keeps_head=_never,
        max_worker_groups=_max_worker_groups,
        # The head's own podset has that name.
        reserved_groups=frozenset({"head"}),
    )

    def schema(self) -> dict[str, Any]:
        from nrl_schemas import load

        fragment: dict[str, Any] = load("fragments/scheduler_kueue")
        return fragment

    def patches(self, ctx: Context) -> Iterable[Patch]:
        for role in ctx.roles.values():
            workload = Target.object("Workload", role.name)
            for key, label in (("queue", QUEUE), ("priority", PRIORITY)):
                if value := ctx.get(f"scheduler.{key}"):
                    yield Patch(workload, {"metadata": {"labels": {label: str(value)}}}, path=f"scheduler.{key}")
            for group in role.groups:
                if annotations := self._annotations(ctx, group):
                    target = Target.pods(role.name, "workers", group.name)
                    segments = f"kuberay.{role.name}.segmentSize"
                    why = cause(ctx, "scheduler.requiredPlacement", segments, "scheduler.preferredPlacement", "profile")
                    yield Patch(target, {"metadata": {"annotations": annotations}}, path=why)

    def _annotations(self, ctx: Context, group: Group) -> dict[str, str]:
        """Placement only where asked for: a flavor without a topology makes such a workload inadmissible."""
        required, preferred = ctx.get("scheduler.requiredPlacement"), ctx.get("scheduler.preferredPlacement")
        found: dict[str, str] = {}
        level = required or ctx.profile.get("topology.label")
        if group.segment_size and level:
            found = {SLICE: str(level), SLICE_SIZE: str(group.segment_size)}
        elif required:
            found = {REQUIRED: str(required)}
        if preferred and REQUIRED not in found:
            found[PREFERRED] = str(preferred)
        return found

    def problems(self, ctx: Context) -> Iterable[Problem]:
        for role in ctx.roles.values():
            yield from self._role_problems(ctx, role)
        segmented = any(group.segment_size for role in ctx.roles.values() for group in role.groups)
        both = ctx.wrote("scheduler.requiredPlacement") and ctx.wrote("scheduler.preferredPlacement")
        if both and not segmented:
            yield Problem(
                "scheduler: Kueue takes a required or a preferred placement of a worker group, not both",
                origin(ctx, "scheduler", "preferredPlacement"),
                hint="keep one of them, or set segmentSize (required then means each segment)",
            )

    def _role_problems(self, ctx: Context, role: Role) -> Iterator[Problem]:
        if path := autoscaled(ctx, role):
            yield Problem(
                f"{role.name}: Kueue refuses Ray's autoscaler",
                origin(ctx, *path),
                hint="remove enableInTreeAutoscaling",
            )
        queue = ctx.get("scheduler.queue")
        for path in (("labels", QUEUE), ("kuberay", role.name, "labels", QUEUE)):
            written = dig(ctx.infra, *path)
            if written is not None and queue is not None and written != queue:
                yield Problem(
                    f'label {QUEUE} is "{written}", but scheduler.queue is "{queue}"',
                    origin(ctx, *path),
                    hint="keep one of them",
                )
        level = ctx.get("scheduler.requiredPlacement") or ctx.profile.get("topology.label")
        if any(group.segment_size for group in role.groups) and not level:
            yield Problem(
                f"{role.name}: segmentSize has no effect under Kueue without the node label of a segment's domain",
                origin(ctx, "kuberay", role.name, "segmentSize"),
                hint="scheduler: {requiredPlacement: NODE_LABEL, ...}",
                severity="warning",
            )

    def checks(self, ctx: Context, cluster: ClusterReader) -> Iterable[Check]:
        queue, priority = ctx.get("scheduler.queue"), ctx.get("scheduler.priority")
        served = _served(ctx.facts)
        if queue:
            yield from check_queue(cluster, str(queue), ctx.namespace, served, requested(ctx.rendered))
        if priority:
            yield check_priority(cluster, str(priority), served)
        classes = sorted(claimed_classes(ctx.rendered))
        if queue and classes:
            detail = (
                "counted only if Kueue's configuration maps them, which cannot be seen from here; else never admitted"
            )
            yield Check(f"Kueue and DeviceClass {', '.join(classes)}", None, detail,
                        "ask Kueue's admin for resources.deviceClassMappings")  # fmt: skip

    def reasons(self, run: Mapping[str, Any], cluster: ClusterReader) -> Iterable[Reason]:
        """What the Workload that Kueue made of the run says; nothing where it cannot be read."""
        return workload_reasons(run, cluster)

    def capacity(self, ctx: Context, cluster: ClusterReader) -> Capacity | None:
        queue = ctx.get("scheduler.queue")
        resource = str(ctx.profile.get("gpus.resource", "nvidia.com/gpu"))
        return capacity(cluster, str(queue), ctx.namespace, _served(ctx.facts), resource) if queue else None

    def drift_ignores(self) -> Iterable[str]:
        """What Kueue's webhook and its admission write into RayClusters and RayJobs."""
        yield from ("spec.suspend", "spec.managedBy", "spec.submitterPodTemplate")
        for cluster in ("spec", "spec.rayClusterSpec"):
            for template in ("headGroupSpec.template", "workerGroupSpecs.*.template"):
                yield from (f"{cluster}.{template}.{field}" for field in _MERGED)


@hookimpl
def nrl_schedulers() -> Iterator[Scheduler]:
    yield KueueScheduler()
