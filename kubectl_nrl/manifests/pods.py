"""The pods that a manifest makes: each template with how many of it there will be, and where it stands in the object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .merge import FieldPath


@dataclass(frozen=True)
class PodSet:
    """Pods of one template. `words` say which in a message; `at` is the template's path, as provenance is keyed.

    `group` is the worker group's name (empty for other pods), `kind` the object's.
    """

    words: str
    at: FieldPath
    template: Mapping[str, Any]
    count: int
    kind: str
    group: str = ""

    @property
    def spec(self) -> Mapping[str, Any]:
        return self.template.get("spec") or {}


def pod_sets(manifest: Mapping[str, Any]) -> Iterator[PodSet]:
    """The pods of a RayJob, RayCluster or Deployment, the head before the workers; nothing for other kinds."""
    kind, name = str(manifest.get("kind")), (manifest.get("metadata") or {}).get("name")
    spec, owner = manifest.get("spec") or {}, f"{kind.lower()}/{name}"
    if kind == "Deployment":
        count = spec.get("replicas")
        template = spec.get("template") or {}
        yield PodSet(f"pods of {owner}", ("spec", "template"), template, 1 if count is None else int(count), kind)
    elif kind == "RayJob":
        if spec.get("submitterPodTemplate"):
            at: FieldPath = ("spec", "submitterPodTemplate")
            yield PodSet(f"submitter pod of {owner}", at, spec["submitterPodTemplate"], 1, kind)
        yield from _ray_pods(spec.get("rayClusterSpec") or {}, ("spec", "rayClusterSpec"), owner, kind)
    elif kind == "RayCluster":
        yield from _ray_pods(spec, ("spec",), owner, kind)


def _ray_pods(spec: Mapping[str, Any], at: FieldPath, owner: str, kind: str) -> Iterator[PodSet]:
    head = (spec.get("headGroupSpec") or {}).get("template") or {}
    yield PodSet(f"head pod of {owner}", (*at, "headGroupSpec", "template"), head, 1, kind)
    for group in spec.get("workerGroupSpecs") or ():
        name = str(group.get("groupName"))
        replicas = group.get("replicas")
        count = (1 if replicas is None else int(replicas)) * int(group.get("numOfHosts") or 1)
        where = (*at, "workerGroupSpecs", f"[{name}]", "template")
        yield PodSet(f"pods of group {name} of {owner}", where, group.get("template") or {}, count, kind, name)
