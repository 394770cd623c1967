"""A role's manifests while patches are merged into them: the workload, the cluster spec, the head and each worker group.

They are kept apart until the end, so that a patch for `workers` needs no list arithmetic and a group is patched once, before it is
split into segments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..api import Kind, Patch, Role, Target
from ..manifests.merge import FieldPath, Layered

Label = str | Callable[[FieldPath], str]

#: Fields that core alone sets; a patch that holds one names its plugin in an error.
PROTECTED = {
    "Workload": ("apiVersion", "kind", "metadata.name", "metadata.namespace", "spec.entrypoint", "spec.jobId",
                 "spec.rayClusterSpec", "spec.headGroupSpec", "spec.workerGroupSpecs", "status"),
    "RayCluster": ("apiVersion", "kind", "metadata.name", "metadata.namespace", "spec.headGroupSpec",
                   "spec.workerGroupSpecs", "status"),
    "Deployment": ("apiVersion", "kind", "metadata.name", "metadata.namespace", "status"),
    "pods": ("group.groupName", "group.template"),
}  # fmt: skip


@dataclass
class RoleDraft:
    """One Ray cluster's documents. `head` is a headGroupSpec, `groups` worker group specs by their name as written."""

    role: Role
    kind: Kind
    workload: Layered = field(default_factory=Layered)
    cluster: Layered = field(default_factory=Layered)
    head: Layered = field(default_factory=Layered)
    groups: dict[str, Layered] = field(default_factory=dict)

    def documents(self) -> Iterator[tuple[str, Layered]]:
        """Every document with a name for messages."""
        yield self.role.name, self.workload
        yield f"{self.role.name} cluster", self.cluster
        yield f"{self.role.name} head", self.head
        for name, group in self.groups.items():
            yield f"{self.role.name} workers {name}", group

    def pods(self, which: str, group: str | None) -> Iterator[Layered]:
        """The group specs whose pod templates a target names."""
        if which in ("head", "all") and group is None:
            yield self.head
        if which in ("workers", "all"):
            for name, layered in self.groups.items():
                if group in (None, name):
                    yield layered


@dataclass
class Drafts:
    """All documents of a Plan under construction."""

    roles: dict[str, RoleDraft] = field(default_factory=dict)
    deployments: dict[str, Layered] = field(default_factory=dict)

    def apply(self, patch: Patch, rank: int, label: Label) -> str | None:
        """Merge one patch into what it targets; what it may not do is the answer (None: done)."""
        fault = self._forbidden(patch)
        if fault:
            return fault
        target = patch.target
        if target.role is not None and target.role not in self.roles and not self._deployment(target.role):
            return f'targets role "{target.role}", which this Plan does not have'
        if target.scope == "pods":
            self._apply_pods(patch, rank, label)
            return None
        return self._apply_object(patch, rank, label)

    def documents(self) -> Iterator[tuple[str, Layered]]:
        for role in self.roles.values():
            yield from role.documents()
        for name, layered in self.deployments.items():
            yield f"deployment {name}", layered

    def _deployment(self, role: str) -> Layered | None:
        return self.deployments.get(role.removeprefix("deployments."))

    def _targets(self, target: Target) -> Iterator[RoleDraft]:
        for name, draft in self.roles.items():
            if target.role in (None, name):
                yield draft

    def _apply_pods(self, patch: Patch, rank: int, label: Label) -> None:
        target = patch.target
        if target.role is not None and (deployment := self._deployment(target.role)) is not None:
            template = pod_layer(patch.merge, _ray_container(deployment.value.get("spec", {})))
            deployment.merge(
                {"spec": {"template": template["template"]}} if "template" in template else {}, rank, label
            )
            return
        for draft in self._targets(target):
            for group in draft.pods(target.which, target.group):
                group.merge(pod_layer(patch.merge, _ray_container(group.value)), rank, label)

    def _apply_object(self, patch: Patch, rank: int, label: Label) -> str | None:
        kind = patch.target.kind
        if kind == "Deployment":
            for name, layered in self.deployments.items():
                if patch.target.role in (None, f"deployments.{name}", name):
                    layered.merge(patch.merge, rank, label)
            return None
        if kind not in ("Workload", "RayJob", "RayCluster"):
            return f"targets a {kind}, which no patch may change"
        for draft in self._targets(patch.target):
            if kind == "RayCluster" or (kind == "Workload" and draft.kind == "RayCluster"):
                if kind == "RayCluster" and draft.kind == "RayJob" and "metadata" in patch.merge:
                    return "sets metadata of a RayCluster that KubeRay makes from a RayJob; target the Workload"
                draft.cluster.merge(dict(patch.merge.get("spec", {})), rank, label)
                draft.workload.merge({k: v for k, v in patch.merge.items() if k != "spec"}, rank, label)
            elif kind in ("Workload", draft.kind):
                draft.workload.merge(patch.merge, rank, label)
        return None

    def _forbidden(self, patch: Patch) -> str | None:
        kind = "Workload" if patch.target.kind == "RayJob" else patch.target.kind
        for path in PROTECTED.get("pods" if patch.target.scope == "pods" else kind, ()):
            if _has(patch.merge, path):
                return f"sets {path} of {patch.target}, which only kubectl nrl itself sets"
        labels = patch.merge.get("metadata")
        for key in (labels.get("labels") or {}) if isinstance(labels, Mapping) else {}:
            if str(key).startswith("kubectl-nrl/"):
                return f"sets the label {key} of {patch.target}, which only kubectl nrl itself sets"
        return None


def pod_layer(merge: Mapping[str, Any], ray_container: str) -> dict[str, Any]:
    """A pod patch as a layer of a group spec: `container.ray` becomes the named container, `group` the group's own fields."""
    layer: dict[str, Any] = dict(merge.get("group", {}))
    template = {k: v for k, v in merge.items() if k not in ("group", "container")}
    container = (merge.get("container") or {}).get("ray")
    if container:
        spec = dict(template.get("spec", {}))
        named = {"name": ray_container, **container}
        spec["containers"] = [named, *(c for c in spec.get("containers", []) if c.get("name") != ray_container)]
        template["spec"] = spec
    if template:
        layer["template"] = template
    return layer


def _ray_container(group: Mapping[str, Any]) -> str:
    containers = ((group.get("template") or {}).get("spec") or {}).get("containers") or [{}]
    return str(containers[0].get("name", "ray"))


def _has(value: Any, path: str) -> bool:
    for key in path.split("."):
        if not isinstance(value, Mapping) or key not in value:
            return False
        value = value[key]
    return True
