"""What a run, or a part of one, keeps from others: its pods, and the GPUs they ask for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..labels import RAY_CLUSTER, labels_of


@dataclass(frozen=True)
class Holds:
    """Pods by name, the GPUs that those which have not ended ask for, and Ray clusters as (name, uid)."""

    pods: tuple[str, ...] = ()
    gpus: int = 0
    rayclusters: tuple[tuple[str, str], ...] = ()

    @property
    def words(self) -> str:
        """`8 GPUs, 3 pods`; empty when it holds nothing."""
        parts = [f"{self.gpus} GPUs"] if self.gpus else []
        parts += [f"{len(self.pods)} pod{'' if len(self.pods) == 1 else 's'}"] if self.pods else []
        return ", ".join(parts)


NOTHING = Holds()


def held(pods: Iterable[Mapping[str, Any]], rayclusters: Iterable[Mapping[str, Any]] = ()) -> Holds:
    """What these objects hold together."""
    found = list(pods)
    names = tuple(sorted(str(pod["metadata"]["name"]) for pod in found))
    clusters = tuple((str(c["metadata"]["name"]), str(c["metadata"]["uid"])) for c in rayclusters)
    return Holds(names, sum(held_gpus(found).values()), clusters)


def held_gpus(pods: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """GPUs that pods hold, by their RayCluster's name; a pod that has ended holds none."""
    held: dict[str, int] = {}
    for pod in pods:
        cluster = labels_of(pod).get(RAY_CLUSTER)
        if cluster and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            held[cluster] = held.get(cluster, 0) + _gpus(pod)
    return held


def _gpus(pod: Mapping[str, Any]) -> int:
    """As KubeRay counts them: each resource whose name ends in `gpu`, by limit (ray-operator common/pod.go)."""
    total = 0
    for container in (pod.get("spec") or {}).get("containers") or ():
        for name, value in ((container.get("resources") or {}).get("limits") or {}).items():
            if name.endswith("gpu") and str(value).isdecimal():
                total += int(value)
    return total
