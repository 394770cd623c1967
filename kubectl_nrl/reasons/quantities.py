"""Kubernetes quantities, and what a pod requests in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


def requests_of(pod: Mapping[str, Any]) -> dict[str, str]:
    """What the pod's containers request together, as Kubernetes quantities (`cpu: 200m`).

    A limit counts as the request where none is written, as the API server defaults it.
    """
    sums: dict[str, float] = {}
    for container in (pod.get("spec") or {}).get("containers") or ():
        resources = container.get("resources") or {}
        for name, value in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items():
            sums[name] = sums.get(name, 0.0) + quantity(str(value))
    return {name: _quantity_text(name, value) for name, value in sorted(sums.items()) if value}


_SUFFIX = {
    "": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip


def quantity(text: str) -> float:
    """A Kubernetes quantity as a number; 0 for what is none."""
    match = re.fullmatch(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([A-Za-z]{0,2})", text.strip())
    if not match or match[2] not in _SUFFIX:
        return 0.0
    return float(match[1]) * _SUFFIX[match[2]]


def _quantity_text(name: str, value: float) -> str:
    if name == "cpu":
        return f"{value:g}" if value == int(value) else f"{round(value * 1000)}m"
    if name == "memory" or name.startswith(("hugepages-", "ephemeral-storage")):
        for suffix in ("Ti", "Gi", "Mi"):
            if value >= _SUFFIX[suffix]:
                return f"{value / _SUFFIX[suffix]:.4g}{suffix}"
    return f"{value:g}"


def gpus_of(pod: Mapping[str, Any]) -> int:
    """GPUs that a pod holds, as KubeRay counts them: each resource whose name ends in `gpu` (common/pod.go)."""
    return sum(int(quantity(v)) for name, v in requests_of(pod).items() if name.endswith("gpu"))
