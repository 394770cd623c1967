"""The documents of a Plan put together into the objects that are sent, each field with who set it."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Mapping
from typing import Any

from .. import labels
from ..api import Context, Resource
from ..manifests.merge import FieldPath, Layered
from .core_patches import object_labels
from .drafts import Drafts, RoleDraft
from .model import WORKLOAD_WAVE, Launch, Lifetime, PlannedObject
from .segments import split
from .written import author

#: Seconds after which a run that nobody submitted gives its pods back; queueing counts.
WAITING = 3600

#: Fields of a RayJob's spec that are written in the infra file's launch section, by another name or the same.
_LAUNCH_KEYS = {
    "activeDeadlineSeconds": "deadlineSeconds",
    "preRunningDeadlineSeconds": "preRunningDeadlineSeconds",
    "backoffLimit": "backoffLimit",
}

#: Longest text kept in Ray's job metadata; the whole entrypoint is in the launch script anyway.
METADATA_MAX = 4000


def workload(
    draft: RoleDraft, ctx: Context, launch: Launch, lifetime: Mapping[str, Any], *, splits: bool
) -> PlannedObject:
    """The role's RayJob or RayCluster. `lifetime` holds the RayJob spec fields of its end."""
    spec, sources = cluster_spec(draft, splits=splits)
    name = draft.role.object_name
    head: dict[str, Any] = {
        "apiVersion": "ray.io/v1",
        "kind": ctx.kind,
        "metadata": {"name": name, "namespace": ctx.namespace},
    }
    patched = draft.workload.value
    head["metadata"].update(patched.get("metadata") or {})
    if ctx.kind == "RayCluster":
        manifest = {**head, "spec": {**spec, **(patched.get("spec") or {})}}
        prefix: FieldPath = ("spec",)
    else:
        job = _rayjob_spec(ctx, launch, lifetime)
        manifest = {**head, "spec": {**job, **(patched.get("spec") or {}), "rayClusterSpec": spec}}
        prefix = ("spec", "rayClusterSpec")
    found: dict[FieldPath, str] = dict(_written(ctx)) if ctx.kind == "RayJob" else {}
    found |= {path: source.label for path, source in draft.workload.sources.items()}
    found |= {(*prefix, *path): label for path, label in sources.items()}
    manifest["metadata"].setdefault("annotations", {})[labels.LAST_APPLIED] = _fingerprint(manifest)
    if launch.submission_mode == "InteractiveMode":
        manifest["metadata"]["annotations"][labels.SUBMISSION] = _submission(launch)
    return PlannedObject(manifest, WORKLOAD_WAVE, draft.role.name, sources=found)


def _written(ctx: Context) -> Iterator[tuple[FieldPath, str]]:
    """Who wrote the fields of a RayJob that are keys of the launch section."""
    for field, key in _LAUNCH_KEYS.items():
        if ctx.wrote(f"launch.{key}"):
            yield ("spec", field), author(ctx.config, "launch", key)(())


def _submission(launch: Launch) -> str:
    """What another try needs to submit: `line`, `codeSource` and `uploadPaths` (null: the default set); the code is on the laptop."""
    paths = None if launch.upload_paths is None else list(launch.upload_paths)
    return json.dumps({"line": launch.line, "codeSource": launch.code_source, "uploadPaths": paths})


def cluster_spec(draft: RoleDraft, *, splits: bool) -> tuple[dict[str, Any], dict[FieldPath, str]]:
    """The RayCluster spec and who set each of its fields; segments share their group's."""
    sources = {path: source.label for path, source in draft.cluster.sources.items()}
    sources |= {("headGroupSpec", *path): source.label for path, source in draft.head.sources.items()}
    head = tidy({"rayStartParams": {}, **draft.head.value})
    groups: list[dict[str, Any]] = []
    for group in draft.role.groups:
        layered = draft.groups[group.name]
        whole = tidy({"groupName": group.name, "rayStartParams": {}, **layered.value})
        for part in split(whole, group.segment_size if splits else None):
            groups.append(part)
            at = ("workerGroupSpecs", f"[{part['groupName']}]")
            sources |= {(*at, *path): source.label for path, source in layered.sources.items()}
    spec = {**draft.cluster.value, "headGroupSpec": head}
    if groups:
        spec["workerGroupSpecs"] = groups
    return spec, sources


def tidy(group: Mapping[str, Any]) -> dict[str, Any]:
    """A group spec in the order people read: its own fields, then the pod's metadata and spec, a container's name and image first."""
    template = group.get("template") or {}
    spec = dict(template.get("spec") or {})
    for key in ("initContainers", "containers"):
        if key in spec:
            spec[key] = [_first(container, ("name", "image", "command", "args")) for container in spec[key]]
    spec = _first(spec, ("schedulerName", "serviceAccountName", "imagePullSecrets", "nodeSelector", "tolerations"))
    whole = _first(template, ("metadata",)) | {"spec": spec}
    return {**{k: v for k, v in group.items() if k != "template"}, "template": whole}


def _first(value: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {**{k: value[k] for k in keys if k in value}, **{k: v for k, v in value.items() if k not in keys}}


def _rayjob_spec(ctx: Context, launch: Launch, lifetime: Mapping[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "submissionMode": launch.submission_mode,
        "backoffLimit": int(ctx.get("launch.backoffLimit", 0)),
        **lifetime,
    }
    if launch.submission_mode != "InteractiveMode":
        spec |= {"entrypoint": launch.line, "jobId": ctx.run.id}
        spec["metadata"] = {"user": ctx.run.user.name}
        if launch.submission_mode == "HTTPMode":
            # the other modes paste metadata into a submitter's shell, double-quoted: `$(...)` of an entrypoint would run there
            spec["metadata"]["entrypoint"] = launch.entrypoint[:METADATA_MAX]
    deadline = ctx.get("launch.deadlineSeconds")
    if deadline:
        spec["activeDeadlineSeconds"] = int(deadline)
    uploads = launch.submission_mode == "InteractiveMode" and ctx.facts.pre_running_deadline
    waiting = ctx.get("launch.preRunningDeadlineSeconds", WAITING if uploads else None)
    if waiting:
        spec["preRunningDeadlineSeconds"] = int(waiting)
    return spec


def resources(found: list[Resource], ctx: Context) -> Iterator[PlannedObject]:
    """Providers' objects, labelled as every object of the tool is; children (wave below the workload's) get an owner."""
    for resource in found:
        manifest = json.loads(json.dumps(resource.manifest))
        meta = manifest.setdefault("metadata", {})
        meta["namespace"] = ctx.namespace
        meta["labels"] = {**(meta.get("labels") or {}), **object_labels(ctx)}
        meta["annotations"] = {**(meta.get("annotations") or {}), labels.RAW_USER: ctx.run.user.raw}
        if manifest.get("kind") == "ResourceClaimTemplate":
            # What Kubernetes makes of it bears the pod's name and nothing of the run, and may outlive the pod.
            made = manifest.setdefault("spec", {}).setdefault("metadata", {})
            made["labels"] = {**(made.get("labels") or {}), **object_labels(ctx)}
        yield PlannedObject(
            manifest, resource.wave, resource.role, child=resource.wave < WORKLOAD_WAVE, await_refs=resource.await_refs
        )


def deployment(name: str, layered: Layered, ctx: Context) -> Iterator[PlannedObject]:
    """A Deployment, and the ClusterIP Service of the same name that its container ports make."""
    manifest = json.loads(json.dumps(layered.value))
    named = {"name": manifest["metadata"]["name"], "namespace": ctx.namespace}
    manifest["metadata"] = {**named, **manifest["metadata"]}
    manifest["metadata"].setdefault("annotations", {})[labels.LAST_APPLIED] = _fingerprint(manifest)
    sources = {path: source.label for path, source in layered.sources.items()}
    owned = ctx.kind == "RayJob"
    yield PlannedObject(manifest, WORKLOAD_WAVE, f"deployments.{name}", child=owned, sources=sources)
    pod = manifest["spec"].get("template", {}).get("spec", {})
    ports = [p for c in pod.get("containers") or [] for p in c.get("ports") or []]
    if ports:
        service: dict[str, Any] = {
            "apiVersion": "v1", "kind": "Service",
            "metadata": {k: v for k, v in manifest["metadata"].items() if k in ("name", "namespace", "labels")},
            "spec": {"type": "ClusterIP", "selector": manifest["spec"].get("selector", {}).get("matchLabels", {}),
                     "ports": [_service_port(p, index) for index, p in enumerate(ports)]},
        }  # fmt: skip
        service["metadata"]["annotations"] = {labels.RAW_USER: ctx.run.user.raw}
        yield PlannedObject(service, WORKLOAD_WAVE, f"deployments.{name}", child=owned)


def _service_port(port: Mapping[str, Any], index: int) -> dict[str, Any]:
    number, protocol = port["containerPort"], port.get("protocol", "TCP")
    return {"name": port.get("name") or f"port-{index}", "port": number, "targetPort": number, "protocol": protocol}


def _fingerprint(manifest: Mapping[str, Any]) -> str:
    """What was rendered, packed, without run id and time: sameness is judged against it (never against server defaults)."""
    text = json.dumps(_stable(manifest), sort_keys=True, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def _stable(value: Any) -> Any:
    if isinstance(value, Mapping):
        drop = {labels.RUN, labels.LAST_APPLIED, labels.SUBMISSION, "jobId"}
        return {k: _stable(v) for k, v in value.items() if k not in drop}
    return [_stable(v) for v in value] if isinstance(value, list) else value


def order(objects: list[PlannedObject]) -> tuple[PlannedObject, ...]:
    """By wave, kind and name: the order in which a Plan is printed and created."""
    return tuple(sorted(objects, key=lambda o: (o.wave, o.kind, o.name)))


def kept_requests(draft: RoleDraft, lifetime: Lifetime) -> dict[str, str]:
    """What a head that is kept after the end still requests, summed over its containers' words as written."""
    if not lifetime.head_kept:
        return {}
    containers = (((draft.head.value.get("template") or {}).get("spec")) or {}).get("containers") or []
    resources = (containers[0].get("resources") or {}) if containers else {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {str(k): str(v) for k, v in asked.items() if str(v) != "0"}


def all_objects(
    drafts: Drafts, ctx: Context, launch: Launch, lifetime: Mapping[str, Any], found: list[Resource], *, splits: bool
) -> tuple[PlannedObject, ...]:
    """Every object of the Plan, in order."""
    objects = [workload(draft, ctx, launch, lifetime, splits=splits) for draft in drafts.roles.values()]
    objects += resources(found, ctx)
    for name, layered in drafts.deployments.items():
        objects += deployment(name, layered, ctx)
    return order(objects)
