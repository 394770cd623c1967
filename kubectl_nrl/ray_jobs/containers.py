"""Which container of a Ray pod is Ray's.

KubeRay wants it first, but a webhook of a service mesh may put its own container before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Set by KubeRay in the Ray container alone (ray-operator common/pod.go).
_RAY_ENV = "KUBERAY_GEN_RAY_START_CMD"


def ray_container(pod: Mapping[str, Any]) -> str:
    """Name of the Ray container of a pod that KubeRay made: the one with KubeRay's environment, else the first."""
    containers = pod["spec"]["containers"]
    for container in containers:
        if any(variable.get("name") == _RAY_ENV for variable in container.get("env") or ()):
            return str(container["name"])
    return str(containers[0]["name"])
