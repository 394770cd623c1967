"""What a run, or a part of one, keeps from others: its pods, and their GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..labels import RAY_CLUSTER, labels_of
from ..manifests.amounts import gpus_held, occupies


@dataclass(frozen=True)
class Holds:
    """Pods by name, the GPUs that those hold which are on a node and have not ended, and Ray clusters as (name, uid)."""

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
    """GPUs that pods hold, by their RayCluster's name; a pod without a node, or one that has ended, holds none."""
    held: dict[str, int] = {}
    for pod in pods:
        cluster = labels_of(pod).get(RAY_CLUSTER)
        if cluster and occupies(pod):
            held[cluster] = held.get(cluster, 0) + gpus_held(pod)
    return held
