"""What a pod asks of a node and of a quota: the sum that Kubernetes itself makes of its containers.

Sources: Kubernetes' k8s.io/component-helpers/resource (PodRequests, PodLimits) and the page on sidecar containers.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal

from ..schema.quantities import quantity

#: Resource name -> amount, in the resource's own unit (cores, bytes, devices).
Amounts = dict[str, Fraction]

_BINARY = (("Ti", 1024**4), ("Gi", 1024**3), ("Mi", 1024**2))


def amounts(listed: Any) -> Amounts:
    """A ResourceList as numbers; what is no quantity is left out."""
    items = listed.items() if isinstance(listed, Mapping) else ()
    return {str(name): number for name, value in items if (number := quantity(value)) is not None}


def container_amounts(container: Mapping[str, Any], which: Literal["requests", "limits"]) -> Amounts:
    """What one container asks; a request that is not written is its limit."""
    resources = container.get("resources") or {}
    written = amounts(resources.get(which))
    return {**amounts(resources.get("limits")), **written} if which == "requests" else written


def pod_amounts(spec: Mapping[str, Any], which: Literal["requests", "limits"] = "requests") -> Amounts:
    """What a pod asks: its containers and sidecars together, or its largest init container where that is more."""
    running: Amounts = {}
    for container in spec.get("containers") or ():
        _add(running, container_amounts(container, which))
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.get("initContainers") or ():
        asked = container_amounts(container, which)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, asked)
            asked = {}
        _raise(starting, plus(sidecars, asked))
    _add(running, sidecars)
    _raise(running, starting)
    _add(running, amounts(spec.get("overhead")))
    return running


def plus(left: Mapping[str, Fraction], right: Mapping[str, Fraction], times: int = 1) -> Amounts:
    """`left` and `right` so many times."""
    total = dict(left)
    _add(total, right, times)
    return total


#: Pods that have ended hold nothing.
ENDED = ("Succeeded", "Failed")


def occupies(pod: Mapping[str, Any]) -> bool:
    """Whether a pod keeps its share of a node: it has one, and has not ended."""
    return bool((pod.get("spec") or {}).get("nodeName")) and (pod.get("status") or {}).get("phase") not in ENDED


def gpus_held(pod: Mapping[str, Any]) -> int:
    """GPUs that a pod keeps from others, as KubeRay knows them: each resource whose name ends in `gpu` (common/pod.go)."""
    return gpus_asked(pod.get("spec") or {}) if occupies(pod) else 0


def gpus_asked(spec: Mapping[str, Any]) -> int:
    """GPUs that a pod of that spec asks for."""
    return sum(int(amount) for name, amount in pod_amounts(spec).items() if name.endswith("gpu"))


def requests_of(pod: Mapping[str, Any]) -> dict[str, str]:
    """What a pod requests, as people write it (`cpu: 200m`)."""
    return {name: show(name, amount) for name, amount in sorted(pod_amounts(pod["spec"]).items()) if amount}


def show(name: str, amount: Fraction) -> str:
    """An amount as people write it: bytes in Ti, Gi or Mi with at most three places, parts of a core as `500m`."""
    if name.endswith(("memory", "storage")) or "hugepages-" in name:
        unit, size = next((u for u in _BINARY if abs(amount) >= u[1]), _BINARY[-1])
        return f"{_short(amount / size)}{unit}"
    if name.endswith("cpu") and amount.denominator != 1:
        return f"{_short(amount * 1000)}m"
    return _short(amount)


def _short(amount: Fraction) -> str:
    return str(amount.numerator) if amount.denominator == 1 else f"{float(amount):.3f}".rstrip("0").rstrip(".")


def _add(into: Amounts, more: Mapping[str, Fraction], times: int = 1) -> None:
    for name, amount in more.items():
        into[name] = into.get(name, Fraction(0)) + amount * times


def _raise(into: Amounts, least: Mapping[str, Fraction]) -> None:
    for name, amount in least.items():
        into[name] = max(into.get(name, Fraction(0)), amount)
