"""Checks of the two other things that are written as data: hardware profiles, and the patches that providers return.

A patch is part of a manifest, so nothing is required of it; but what it names must exist where it is merged, or the
server would prune it in silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import nrl_schemas

from ..errors import Problem
from .engine import Fault, faults
from .infra import Fragments, builtin_fragments, infra_schema
from .pods import mapping, mappings
from .problems import OriginOf, to_problems
from .words import Path

_POD = "objects/pod-1.34.json#/$defs/"
_KUBERAY = "objects/kuberay-1.6.2.json#/$defs/"
_MERGED = {
    "RayJob": [_KUBERAY + "RayJob"],
    "RayCluster": [_KUBERAY + "RayCluster"],
    "Workload": [_KUBERAY + "RayJob", _KUBERAY + "RayCluster"],
    "Deployment": ["objects/kubernetes-1.34.json#/$defs/Deployment"],
    "Service": ["objects/kubernetes-1.34.json#/$defs/Service"],
    "ConfigMap": ["objects/kubernetes-1.34.json#/$defs/ConfigMap"],
}


def check_profile(data: Any, origin_of: OriginOf, fragments: Fragments | None = None) -> list[Problem]:
    """Every problem of a hardware profile, its `defaults` (infra keys) and `patches` included.

    `fragments` are those of the infra schema; the built-in ones when left out.
    """
    found = faults(nrl_schemas.load("profile.schema"), data)
    defaults = mapping(data).get("defaults")
    if isinstance(defaults, Mapping):
        known = infra_schema(builtin_fragments() if fragments is None else fragments)
        inside = faults(known, defaults, prefix="defaults", partial=True)
        found += [replace(fault, path=("defaults", *fault.path)) for fault in inside]
    for path, patch in mappings(mapping(data).get("patches"), ("patches",)):
        found += _profile_patch(patch, path)
    return to_problems(found, origin_of)


def check_patch(patch: Mapping[str, Any]) -> list[Problem]:
    """Every problem of a patch as a dict (`dataclasses.asdict(patch)`): its target, and fields no such manifest has."""
    found = faults(nrl_schemas.load("patch.schema"), patch)
    target = mapping(patch, "target")
    if target.get("scope") == "object" and not target.get("kind"):
        found.append(Fault(("target", "kind"), "is required when scope is object", missing=True))
    pods = target.get("scope") == "pods"
    found += _merge(patch.get("merge"), ("merge",), pods=pods, kind=target.get("kind"), which=target.get("which"))
    return to_problems(found, lambda path: None)


def _profile_patch(patch: Mapping[Any, Any], path: Path) -> Iterator[Fault]:
    target = mapping(patch, "target")
    if len([key for key in ("pods", "kind") if target.get(key) is not None]) != 1:
        yield Fault((*path, "target"), "must have one of pods and kind")
        return
    pods = target.get("pods") is not None
    yield from _merge(
        patch.get("merge"), (*path, "merge"), pods=pods, kind=target.get("kind"), which=target.get("pods")
    )


def _merge(merge: Any, path: Path, *, pods: bool, kind: Any, which: Any) -> Iterator[Fault]:
    if not isinstance(merge, Mapping):
        return
    forms = [_pod_form(which)] if pods else [{"$ref": ref} for ref in _MERGED.get(str(kind), ())]
    judged = [faults(form, merge, prefix="merge", partial=True) for form in forms]
    if judged:
        yield from (replace(fault, path=(*path, *fault.path)) for fault in min(judged, key=len))


def _pod_form(which: Any) -> dict[str, Any]:
    """A partial pod template with the two keys of its own: the Ray container, and the group around the template."""
    cluster = nrl_schemas.load("objects/kuberay-1.6.2")["$defs"]["RayClusterSpec"]["properties"]
    head, worker = cluster["headGroupSpec"]["properties"], cluster["workerGroupSpecs"]["items"]["properties"]
    both = {key: form for key, form in head.items() if key in worker}
    group = head if which == "head" else worker if which == "workers" else both
    container = {
        "type": "object",
        "additionalProperties": False,
        "properties": {"ray": {"$ref": _POD + "Container"}},
    }
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "metadata": {"$ref": _POD + "ObjectMeta"},
            "spec": {"$ref": _POD + "PodSpec"},
            "container": container,
            "group": {
                "type": "object",
                "additionalProperties": False,
                "properties": {key: form for key, form in group.items() if key not in ("template", "groupName")},
            },
        },
    }
