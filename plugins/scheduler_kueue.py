"""Kueue: the queue and priority labels on the workload; kube-scheduler still places the pods.

Worker groups stay whole and segments become podset slices, because Kueue limits how many podsets a workload has.
Sources: Kueue's pkg/controller/jobs/{rayjob,raycluster}, pkg/controller/constants, apis/kueue/v1beta2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kubectl_nrl import hookimpl
from kubectl_nrl.api import (
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
from kubectl_nrl.errors import ClusterError
from kubectl_nrl.written import autoscaled, cause, dig, maps, origin

QUEUE = "kueue.x-k8s.io/queue-name"
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
    return "kueue.x-k8s.io/v1beta2" if newer else "kueue.x-k8s.io/v1beta1"


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
        queue = ctx.get("scheduler.queue")
        if queue:
            yield _check_queue(cluster, str(queue), ctx.namespace, _served(ctx.facts))

    def reasons(self, run: Mapping[str, Any], cluster: ClusterReader) -> Iterable[Reason]:
        """What the Workload that Kueue made of the run says; nothing where it cannot be read."""
        meta = run.get("metadata") or {}
        try:
            # Every version serves v1beta1.
            workloads = cluster.list("kueue.x-k8s.io/v1beta1", "Workload", meta.get("namespace"))
        except ClusterError:
            return
        for workload in workloads:
            owners = [owner.get("uid") for _, owner in maps(dig(workload, "metadata", "ownerReferences"))]
            if meta.get("uid") in owners:
                yield from _workload_reasons(workload)

    def drift_ignores(self) -> Iterable[str]:
        """What Kueue's webhook and its admission write into RayClusters and RayJobs."""
        yield from ("spec.suspend", "spec.managedBy", "spec.submitterPodTemplate")
        for cluster in ("spec", "spec.rayClusterSpec"):
            for template in ("headGroupSpec.template", "workerGroupSpecs.*.template"):
                yield from (f"{cluster}.{template}.{field}" for field in _MERGED)


def _workload_reasons(workload: Mapping[str, Any]) -> Iterator[Reason]:
    subject = f"Workload {dig(workload, 'metadata', 'name')}"
    for _, condition in maps(dig(workload, "status", "conditions")):
        kind, status = condition.get("type"), condition.get("status")
        if (kind, status) in (("QuotaReserved", "False"), ("Evicted", "True")):
            reason, message = str(condition.get("reason", "")), str(condition.get("message", ""))
            lasting = reason == "Inadmissible" and ("doesn't exist" in message or "is not mapped" in message)
            yield Reason(subject, reason, message, heals=not lasting)


def _check_queue(cluster: ClusterReader, name: str, namespace: str, api: str) -> Check:
    """Whether the LocalQueue exists in the namespace and is active (its ClusterQueue exists and can admit)."""
    title = f'Kueue LocalQueue "{name}"'
    try:
        found = cluster.get(api, "LocalQueue", name, namespace)
    except ClusterError as error:
        if error.status == 403:
            return Check(title, None, "may not be read with these permissions")
        if error.reason == "NotServed":
            return Check(title, False, f"this cluster has no Kueue ({api} is not served)",
                         "leave `scheduler` out, or install Kueue")  # fmt: skip
        raise
    if found is None:
        fix = f"kubectl get localqueues -n {namespace}, then set scheduler.queue"
        return Check(title, False, f'not found in namespace "{namespace}"', fix)
    for _, condition in maps(dig(found, "status", "conditions")):
        if condition.get("type") == "Active" and condition.get("status") == "False":
            return Check(title, False, f"is not active: {condition.get('message') or condition.get('reason')}",
                         f"kubectl describe localqueue {name} -n {namespace}")  # fmt: skip
    return Check(title, True)


@hookimpl
def nrl_schedulers() -> Iterator[Scheduler]:
    yield KueueScheduler()
