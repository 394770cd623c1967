"""What a pod requests, in Kubernetes' quantities."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from ..schema.quantities import quantity

_BINARY = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20))


def requests_of(pod: Mapping[str, Any]) -> dict[str, str]:
    """What the pod's containers request together, as Kubernetes quantities (`cpu: 200m`)."""
    return {name: _text(name, value) for name, value in sorted(amounts_of(pod).items()) if value}


def amounts_of(pod: Mapping[str, Any], ending: str = "") -> dict[str, Fraction]:
    """The same as numbers, of resources whose name ends so.

    A limit counts as the request where none is written, as the API server defaults it.
    """
    sums: dict[str, Fraction] = {}
    for container in (pod.get("spec") or {}).get("containers") or ():
        resources = container.get("resources") or {}
        for name, value in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items():
            if name.endswith(ending):
                sums[name] = sums.get(name, Fraction(0)) + (quantity(value) or 0)
    return sums


def _text(name: str, value: Fraction) -> str:
    if name == "cpu":
        return f"{value}" if value.denominator == 1 else f"{round(value * 1000)}m"
    if name == "memory" or name.startswith(("hugepages-", "ephemeral-storage")):
        for suffix, size in _BINARY:
            if value >= size:
                return f"{float(value / size):.4g}{suffix}"
    return f"{float(value):g}"


def gpus_of(pod: Mapping[str, Any]) -> int:
    """GPUs that a pod asks for, as KubeRay counts them: each resource whose name ends in `gpu` (common/pod.go)."""
    return sum(map(int, amounts_of(pod, "gpu").values()))
