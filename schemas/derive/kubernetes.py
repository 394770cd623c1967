"""Kubernetes' own objects, from the strict schemas in the package kubernetes-validate.

Nulls are left out of the types, since the validator takes a null for an absent key everywhere; the few closed sets of
words that the published schemas leave open are added here, from the API reference of that version.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

VERSION = "1.34"
SOURCE = f"kubernetes-validate (PyPI), kubernetes-json-schema v{VERSION}.0-local-strict"

#: Words the API server accepts (Kubernetes API reference, v1.34), by definition and field.
WORDS: dict[tuple[str, str], list[str]] = {
    ("Container", "imagePullPolicy"): ["Always", "IfNotPresent", "Never"],
    ("Container", "terminationMessagePolicy"): ["File", "FallbackToLogsOnError"],
    ("ContainerPort", "protocol"): ["TCP", "UDP", "SCTP"],
    ("DeploymentStrategy", "type"): ["Recreate", "RollingUpdate"],
    ("HTTPGetAction", "scheme"): ["HTTP", "HTTPS"],
    ("LabelSelectorRequirement", "operator"): ["In", "NotIn", "Exists", "DoesNotExist"],
    ("NodeSelectorRequirement", "operator"): ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"],
    ("PodSecurityContext", "fsGroupChangePolicy"): ["Always", "OnRootMismatch"],
    ("PodSpec", "dnsPolicy"): ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
    ("PodSpec", "preemptionPolicy"): ["Never", "PreemptLowerPriority"],
    ("PodSpec", "restartPolicy"): ["Always", "OnFailure", "Never"],
    ("SeccompProfile", "type"): ["Localhost", "RuntimeDefault", "Unconfined"],
    ("ServicePort", "protocol"): ["TCP", "UDP", "SCTP"],
    ("ServiceSpec", "sessionAffinity"): ["ClientIP", "None"],
    ("ServiceSpec", "type"): ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
    ("Toleration", "effect"): ["NoSchedule", "PreferNoSchedule", "NoExecute"],
    ("Toleration", "operator"): ["Exists", "Equal"],
    ("TopologySpreadConstraint", "whenUnsatisfiable"): ["DoNotSchedule", "ScheduleAnyway"],
    ("VolumeMount", "mountPropagation"): ["Bidirectional", "HostToContainer", "None"],
}

_CORE = "io.k8s.api.core.v1."
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_LEAVES: dict[str, dict[str, Any]] = {
    _QUANTITY: {"type": ["string", "number"], "format": "quantity"},
    _INT_OR_STRING: {"type": ["integer", "string"]},
}
_OBJECTS = {
    "Deployment": "io.k8s.api.apps.v1.Deployment",
    "Service": _CORE + "Service",
    "ConfigMap": _CORE + "ConfigMap",
    "ResourceClaimTemplate.v1": "io.k8s.api.resource.v1.ResourceClaimTemplate",
    "ResourceClaimTemplate.v1beta1": "io.k8s.api.resource.v1beta1.ResourceClaimTemplate",
    "ResourceClaimTemplate.v1beta2": "io.k8s.api.resource.v1beta2.ResourceClaimTemplate",
}


def definitions() -> dict[str, Any]:
    """Every definition of the package, by its full name. Raises ModuleNotFoundError when it is not installed."""
    found = importlib.util.find_spec("kubernetes_validate")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("kubernetes-validate is not installed: pip install kubernetes-validate (108 MB)")
    folder = Path(found.origin).parent / "kubernetes-json-schema" / f"v{VERSION}.0-local-strict"
    all_of_them: dict[str, Any] = json.loads((folder / "_definitions.json").read_text())["$defs"]
    return all_of_them


def pod(definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a pod template and of everything in it."""
    names = {name: _short(name) for name in _reachable(definitions, [_CORE + "PodTemplateSpec"])}
    return {
        "title": f"A Kubernetes {VERSION} pod template, strictly",
        "$ref": "#/$defs/PodTemplateSpec",
        "$defs": {short: _strip(definitions[name], short, "", names, {}) for name, short in names.items()},
    }


def objects(definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of the other Kubernetes objects that are rendered; what a pod has too stands in the pod's file."""
    in_pod = {name: _short(name) for name in _reachable(definitions, [_CORE + "PodTemplateSpec"])}
    found = _reachable(definitions, list(_OBJECTS.values()), stop=set(in_pod))
    titles = {full: title for title, full in _OBJECTS.items()}
    names = {name: titles.get(name) or _versioned(name) for name in found}
    return {
        "title": f"Kubernetes {VERSION} objects, strictly",
        "$defs": {short: _strip(definitions[name], short, "", names, in_pod) for name, short in names.items()},
    }


def _short(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def _versioned(name: str) -> str:
    """DRA's definitions exist once a version; all others are unique by their last word."""
    *_, group, version, short = name.split(".")
    return f"{short}.{version}" if group == "resource" else short


def _reachable(definitions: dict[str, Any], roots: list[str], stop: set[str] | None = None) -> list[str]:
    seen: list[str] = []
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in seen or name in _LEAVES or name in (stop or ()) or name.endswith("Status"):
            continue
        seen.append(name)
        waiting.extend(_refs(definitions[name]))
    return sorted(seen)


def _refs(node: Any) -> list[str]:
    if isinstance(node, dict):
        here = [node["$ref"].rsplit("/", 1)[-1]] if isinstance(node.get("$ref"), str) else []
        return here + [ref for value in node.values() for ref in _refs(value)]
    return [ref for value in node for ref in _refs(value)] if isinstance(node, list) else []


def _strip(
    node: dict[str, Any], owner: str, field: str, names: dict[str, str], elsewhere: dict[str, str]
) -> dict[str, Any]:
    """One schema without prose and nulls, its references made short."""
    if "$ref" in node:
        name = node["$ref"].rsplit("/", 1)[-1]
        if name in _LEAVES:
            return _LEAVES[name]
        if name in elsewhere:
            return {"$ref": f"objects/pod-{VERSION}.json#/$defs/{elsewhere[name]}"}
        return {"$ref": f"#/$defs/{names[name]}"} if name in names else {}
    result: dict[str, Any] = {}
    types = node.get("type")
    if types:
        result["type"] = [t for t in types if t != "null"] if isinstance(types, list) else types
        if len(result["type"]) == 1:
            result["type"] = result["type"][0]
    if "properties" in node:
        kept = {key: value for key, value in node["properties"].items() if key != "status"}
        result["properties"] = {key: _strip(value, owner, key, names, elsewhere) for key, value in kept.items()}
    if "items" in node:
        result["items"] = _strip(node["items"], owner, field, names, elsewhere)
    extra = node.get("additionalProperties")
    if extra is not None:
        result["additionalProperties"] = (
            extra if isinstance(extra, bool) else _strip(extra, owner, field, names, elsewhere)
        )
    result.update({key: node[key] for key in ("required", "enum") if key in node})
    if (owner, field) in WORDS:
        result["enum"] = WORDS[owner, field]
    return result
