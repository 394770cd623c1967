"""Checks of Kubernetes objects: the specs that people write into the infra file, and the objects rendered from them.

What people write is checked before worker groups are split, while each value still knows its line. It may leave out
what is added later (an image, a claim's template name), and env values may be numbers, which become text as written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from ..errors import Problem
from .engine import Fault, faults
from .names import label_faults
from .pods import mapping, pod_faults
from .problems import OriginOf, to_problems
from .ray import cluster_faults, job_faults
from .words import Path, show

UserKind = Literal["RayCluster", "RayJob", "Deployment", "PodTemplate"]

_KUBERAY = "objects/kuberay-1.6.2.json#/$defs/"
_KUBERNETES = "objects/kubernetes-1.34.json#/$defs/"
_USER_SCHEMAS = {
    "RayCluster": _KUBERAY + "RayClusterSpec",
    "RayJob": _KUBERAY + "RayJobSpec",
    "Deployment": _KUBERNETES + "DeploymentSpec",
    "PodTemplate": "objects/pod-1.34.json#/$defs/PodTemplateSpec",
}
#: What a spec may leave out because planning fills it in: a Deployment's selector, with the labels it selects.
_ADDED_LATER: dict[str, Path] = {"Deployment": ("selector",)}
_OBJECT_SCHEMAS = {
    ("ray.io/v1", "RayJob"): _KUBERAY + "RayJob",
    ("ray.io/v1", "RayCluster"): _KUBERAY + "RayCluster",
    ("apps/v1", "Deployment"): _KUBERNETES + "Deployment",
    ("v1", "Service"): _KUBERNETES + "Service",
    ("v1", "ConfigMap"): _KUBERNETES + "ConfigMap",
    ("resource.k8s.io/v1", "ResourceClaimTemplate"): _KUBERNETES + "ResourceClaimTemplate.v1",
    ("resource.k8s.io/v1beta1", "ResourceClaimTemplate"): _KUBERNETES + "ResourceClaimTemplate.v1beta1",
    ("resource.k8s.io/v1beta2", "ResourceClaimTemplate"): _KUBERNETES + "ResourceClaimTemplate.v1beta2",
    ("resource.nvidia.com/v1beta1", "ComputeDomain"): "objects/computedomain.json#/$defs/ComputeDomain",
}


def check_user_spec(
    kind: UserKind, value: Any, origin_of: OriginOf, prefix: str, *, volumes: Collection[str] = ()
) -> list[Problem]:
    """Every problem of a spec as a person wrote it: unknown fields, wrong types, what the operator would refuse.

    `origin_of` is asked for paths within the spec; `prefix` stands before them in messages (`kuberay.training.spec`).
    `volumes` are names of volumes that are added to the pods later.
    """
    found = faults({"$ref": _USER_SCHEMAS[kind]}, value, prefix=prefix, lenient=_env_scalars)
    written = [fault for fault in found if not (fault.missing and fault.path == _ADDED_LATER.get(kind))]
    return to_problems([*written, *_user_rules(kind, value, volumes)], origin_of, prefix)


def check_object(manifest: Any, origin_of: OriginOf = lambda path: None) -> list[Problem]:
    """Every problem of an object as it would be sent; messages begin with its kind and name.

    `origin_of` answers who set a field, for messages.
    Kinds: RayJob, RayCluster, Deployment, Service, ConfigMap, ResourceClaimTemplate (v1, v1beta2, v1beta1),
    ComputeDomain. Of another kind only apiVersion, kind and metadata are looked at.
    """
    if not isinstance(manifest, Mapping):
        return [Problem(f"an object must be a mapping, not {type(manifest).__name__}")]
    title = f"{manifest.get('kind', 'object')} {mapping(manifest, 'metadata').get('name', 'without a name')}"
    found = [*_object_faults(manifest)]
    return [replace(p, message=f"{title}: {p.message}") for p in to_problems(found, origin_of)]


def _user_rules(kind: str, value: Any, volumes: Collection[str]) -> Iterator[Fault]:
    if kind == "RayCluster":
        yield from cluster_faults(value, rendered=False, volumes=volumes)
    elif kind == "RayJob":
        yield from job_faults(value, rendered=False, volumes=volumes)
    elif kind == "Deployment":
        yield from _deployment(value, (), rendered=False, volumes=volumes)
    else:
        yield from pod_faults(value, ray=False, rendered=False, volumes=volumes)


def _object_faults(manifest: Mapping[Any, Any]) -> Iterator[Fault]:
    version, kind = manifest.get("apiVersion"), manifest.get("kind")
    for key in ("apiVersion", "kind"):
        if not isinstance(manifest.get(key), str):
            yield Fault((key,), "is required", missing=True)
    if not isinstance(mapping(manifest, "metadata").get("name"), str):
        yield Fault(("metadata", "name"), "is required", missing=True)
    yield from label_faults(mapping(manifest, "metadata"), ("metadata",))
    ref = _OBJECT_SCHEMAS.get((version, kind)) if isinstance(version, str) and isinstance(kind, str) else None
    if ref is None:
        known = {known_kind for _, known_kind in _OBJECT_SCHEMAS}
        if isinstance(kind, str) and kind in known:
            yield Fault(("apiVersion",), f"is {show(version)}, which is not known of {kind}")
        return
    yield from faults({"$ref": ref}, manifest)
    rules: dict[str, Callable[..., Iterator[Fault]]] = {
        "RayJob": job_faults, "RayCluster": cluster_faults, "Deployment": _deployment,
    }  # fmt: skip
    if kind in rules:
        yield from rules[str(kind)](manifest.get("spec"), ("spec",), rendered=True)


def _deployment(spec: Any, path: Path, *, rendered: bool, volumes: Collection[str] = ()) -> Iterator[Fault]:
    template = mapping(spec, "template")
    yield from pod_faults(template, (*path, "template"), ray=False, rendered=rendered, volumes=volumes)
    labels = mapping(template, "metadata", "labels")
    for key, value in mapping(spec, "selector", "matchLabels").items():
        if labels.get(key) != value:
            yield Fault((*path, "selector", "matchLabels", key), "is not among the labels of the template")


def _env_scalars(path: Path, value: Any, types: tuple[str, ...]) -> bool:
    """Numbers and booleans as values of variables: they become text as written."""
    return len(path) >= 3 and path[-1] == "value" and path[-3] == "env" and isinstance(value, (bool, int, float))
