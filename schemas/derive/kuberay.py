"""RayCluster and RayJob, from the CRDs of KubeRay's Go module.

A CRD prunes what it does not name, silently; here the same lists of fields refuse. Pod templates in it are replaced by
the strict pod schema, and a field the server fills in itself (it has a default) is not required of a person.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

VERSION = "1.6.2"
MODULE = f"github.com/ray-project/kuberay/ray-operator@v{VERSION}"
SOURCE = f"{MODULE}, config/crd/bases"

_POD = "objects/pod-1.34.json#/$defs/"
_KUBERNETES = "objects/kubernetes-1.34.json#/$defs/"
#: Fields whose schema is Kubernetes' own, wherever they stand below a RayCluster's spec.
_CORE_FIELDS = {
    "autoscalerOptions.env": {"type": "array", "items": {"$ref": _POD + "EnvVar"}},
    "autoscalerOptions.envFrom": {"type": "array", "items": {"$ref": _POD + "EnvFromSource"}},
    "autoscalerOptions.resources": {"$ref": _POD + "ResourceRequirements"},
    "autoscalerOptions.securityContext": {"$ref": _POD + "SecurityContext"},
    "autoscalerOptions.volumeMounts": {"type": "array", "items": {"$ref": _POD + "VolumeMount"}},
    "headService.spec": {"$ref": _KUBERNETES + "ServiceSpec"},
    "template.spec": {"$ref": _POD + "PodSpec"},
    "submitterPodTemplate.spec": {"$ref": _POD + "PodSpec"},
    "redisUsername.valueFrom": {"$ref": _POD + "EnvVarSource"},
    "redisPassword.valueFrom": {"$ref": _POD + "EnvVarSource"},
}
#: What KubeRay 1.6 accepts where its CRD says only "text" (ray-operator/apis/ray/v1/rayjob_types.go).
_WORDS = {"submissionMode": ["K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"]}


def objects() -> dict[str, Any]:
    """The schema file's content: `RayCluster`, `RayJob` and their specs."""
    cluster = _spec("rayclusters")
    job = _strip(_spec("rayjobs"))
    job["properties"]["rayClusterSpec"] = {"$ref": "#/$defs/RayClusterSpec"}
    return {
        "title": f"KubeRay {VERSION} objects, strictly",
        "$defs": {
            "RayCluster": _object("RayCluster"),
            "RayClusterSpec": _strip(cluster),
            "RayJob": _object("RayJob"),
            "RayJobSpec": job,
        },
    }


def _object(kind: str) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {
            "apiVersion": {"enum": ["ray.io/v1"]},
            "kind": {"enum": [kind]},
            "metadata": {"$ref": _POD + "ObjectMeta"},
            "spec": {"$ref": f"#/$defs/{kind}Spec"},
        },
    }


def _spec(plural: str) -> dict[str, Any]:
    import yaml

    answer = subprocess.run(["go", "mod", "download", "-json", MODULE], check=True, capture_output=True, text=True)
    crd_file = Path(json.loads(answer.stdout)["Dir"]) / "config" / "crd" / "bases" / f"ray.io_{plural}.yaml"
    crd = yaml.load(crd_file.read_text(), Loader=yaml.CSafeLoader)
    served = next(v for v in crd["spec"]["versions"] if v["name"] == "v1")
    spec: dict[str, Any] = served["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return spec


def _strip(node: dict[str, Any], field: str = "") -> dict[str, Any]:
    if node.get("x-kubernetes-int-or-string"):
        return (
            {"type": ["string", "number"], "format": "quantity"}
            if "pattern" in node
            else {"type": ["integer", "string"]}
        )
    result: dict[str, Any] = {key: node[key] for key in ("type", "enum", "minimum", "minItems") if key in node}
    if field in _WORDS:
        result["enum"] = _WORDS[field]
    if "properties" in node:
        result["properties"] = {
            key: _CORE_FIELDS.get(f"{field}.{key}") or _strip(value, key)
            for key, value in node["properties"].items()
            if key != "status"
        }
        result["additionalProperties"] = False
        given = {key for key, value in node["properties"].items() if "default" in value}
        required = [key for key in node.get("required", []) if key not in given]
        if required:
            result["required"] = required
    elif isinstance(node.get("additionalProperties"), dict):
        result["additionalProperties"] = _strip(node["additionalProperties"])
    if "items" in node:
        result["items"] = _strip(node["items"], field)
    return result
