"""What a Plan's pods ask for together, as Kueue counts it (its pkg/util/limitrange and pkg/dra/claims.go).

Rendered manifests are frozen, so their lists are tuples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from kubectl_nrl.schema.quantities import quantity
from kubectl_nrl.written import dig, maps

#: Resource names to exact amounts.
Amounts = dict[str, Fraction]


def claimed_classes(manifests: Iterable[Mapping[str, Any]]) -> set[str]:
    """DeviceClasses of the claim templates among the manifests."""
    found = set()
    for manifest in manifests:
        if manifest.get("kind") == "ResourceClaimTemplate":
            for _, request in maps(_listed(dig(manifest, "spec", "spec", "devices", "requests"))):
                exactly = request.get("exactly") or request
                found.add(str(exactly.get("deviceClassName")))
    return found - {"None"}


def requested(manifests: Iterable[Mapping[str, Any]]) -> Amounts:
    """What the pods of RayJobs and RayClusters request together, as Kueue counts it: limits where there is no request."""
    total: Amounts = {}
    for manifest in manifests:
        spec = dig(manifest, "spec", "rayClusterSpec") if manifest.get("kind") == "RayJob" else manifest.get("spec")
        if manifest.get("kind") in ("RayJob", "RayCluster"):
            for count, pod in _pods(spec):
                for resource, amount in _of_pod(pod).items():
                    total[resource] = total.get(resource, Fraction(0)) + count * amount
    return {resource: amount for resource, amount in total.items() if amount}


def _pods(spec: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The pods of a Ray cluster's spec: how many, and their pod spec."""
    yield 1, dig(spec, "headGroupSpec", "template", "spec") or {}
    for _, group in maps(_listed(dig(spec, "workerGroupSpecs"))):
        replicas = group.get("replicas")
        hosts = int(group.get("numOfHosts") or 1)
        yield (1 if replicas is None else int(replicas)) * hosts, dig(group, "template", "spec") or {}


def _of_pod(pod: Mapping[str, Any]) -> Amounts:
    """One pod: its containers and sidecars together, or its largest init container where that is more."""
    together: Amounts = {}
    largest: Amounts = {}
    for _, container in maps(_listed(pod.get("initContainers"))):
        if container.get("restartPolicy") == "Always":
            _add(together, container)
        else:
            for resource, amount in _of_container(container).items():
                largest[resource] = max(largest.get(resource, Fraction(0)), amount)
    for _, container in maps(_listed(pod.get("containers"))):
        _add(together, container)
    return {name: max(together.get(name, Fraction(0)), largest.get(name, Fraction(0))) for name in together | largest}


def _add(total: Amounts, container: Mapping[str, Any]) -> None:
    for resource, amount in _of_container(container).items():
        total[resource] = total.get(resource, Fraction(0)) + amount


def _of_container(container: Mapping[str, Any]) -> Amounts:
    asked = {**(dig(container, "resources", "limits") or {}), **(dig(container, "resources", "requests") or {})}
    return {name: quantity(value) or Fraction(0) for name, value in asked.items()}


def _listed(value: Any) -> list[Any]:
    """Rendered manifests are frozen: their lists are tuples."""
    return list(value) if isinstance(value, (list, tuple)) else []
