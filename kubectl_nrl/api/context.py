"""All that a provider may read while planning, and the traits by which it settles structure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ..facts import ClusterFacts
from .data import RunInfo

if TYPE_CHECKING:
    from ..config import Config
    from .providers import Profile

#: The life cycle a Plan is made for: an ephemeral RayJob, long-lived RayClusters, or this machine.
Kind = Literal["RayJob", "RayCluster", "local"]


@dataclass(frozen=True)
class Group:
    """A worker group as written, before it is split into segments."""

    name: str
    replicas: int
    gpus: int
    segment_size: int | None
    spec: Mapping[str, Any]


@dataclass(frozen=True)
class Role:
    """One Ray cluster of the Plan. `object_name` is the RayJob's or RayCluster's name, `cluster` the name as written.

    `spec` is what the user wrote as `kuberay.<role>.spec` (empty when the profile makes it), `written` says which.
    """

    name: str
    cluster: str
    object_name: str
    written: bool
    groups: tuple[Group, ...]
    spec: Mapping[str, Any]


@dataclass(frozen=True)
class Context:
    """All that a provider may read. Frozen: a provider answers with data.

    `base` is each role's rendered manifest before any provider patched it; `rendered` (policies, checks and capacity) all objects
    as they would be sent.
    """

    config: Config
    kind: Kind
    run: RunInfo
    facts: ClusterFacts
    namespace: str
    profile: Profile
    roles: Mapping[str, Role]
    base: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    rendered: tuple[Mapping[str, Any], ...] = ()

    @property
    def infra(self) -> Mapping[str, Any]:
        """The infra file: defaults of the user and the profile below what the file says, interpolations resolved."""
        return self.config.infra

    def get(self, path: str, default: Any = None) -> Any:
        """The infra value at a dotted path, or `default` where it is absent or null."""
        value: Any = self.config.infra
        for key in path.split("."):
            if not isinstance(value, Mapping) or key not in value:
                return default
            value = value[key]
        return default if value is None else value

    def wrote(self, path: str) -> bool:
        """Whether that infra key was written (by the user, their defaults, an override, or the profile's `defaults`)."""
        missing = object()
        return self.get(path, missing) is not missing


def _no_limit(facts: ClusterFacts, submission_mode: str) -> int | None:
    return None


def _always(facts: ClusterFacts) -> bool:
    return True


@dataclass(frozen=True)
class Traits:
    """What settles structure, which patches cannot; read before the Plan is built.

    * `segments`: `split` makes worker groups of segmentSize replicas; `slices` leaves the group whole (Kueue's podset slices).
    * `submission_modes`: KubeRay submission modes that work under it.
    * `lifetime`: `rules` (KubeRay's deletionRules) or `shutdown` (shutdownAfterJobFinishes only).
    * `keeps_head(facts)`: whether a head may outlive its workers (KAI evicts it before 0.17).
    * `max_worker_groups(facts, submission_mode)`: a limit on groups after splitting, or None.
    * `reserved_groups`: worker group names it cannot have.
    * `gang`: schedules all pods or none, counted by minReplicas; then min = max = replicas.
    * `uploads`: the code source sends files from this machine.
    """

    segments: Literal["split", "slices"] = "split"
    submission_modes: tuple[str, ...] = ("HTTPMode", "K8sJobMode", "SidecarMode", "InteractiveMode")
    lifetime: Literal["rules", "shutdown"] = "rules"
    keeps_head: Callable[[ClusterFacts], bool] = _always
    max_worker_groups: Callable[[ClusterFacts, str], int | None] = _no_limit
    reserved_groups: frozenset[str] = frozenset()
    gang: bool = False
    uploads: bool = False
