"""What a cluster serves, as one frozen value: its offline default, and its discovery through a reader handed in.

Offline, the facts are the newest documented versions, and the output says so: a Plan must be possible without a cluster, and
the fields a live cluster lacks are found again by its strict validation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

#: Newest first: `resource.k8s.io` versions whose shapes are known (facts: Kubernetes API reference, resource.k8s.io).
DRA_VERSIONS = ("v1", "v1beta2", "v1beta1")


@dataclass(frozen=True)
class ClusterFacts:
    """What the cluster serves.

    * `source`: `offline` (documented newest) or `cluster` (discovered).
    * `kuberay`: whether ray.io/v1 is served; `rayjob_fields` / `raycluster_fields` / `deletion_condition_fields`: names of the
      served spec fields (empty offline: everything known is served).
    * `deletion_rules`: the served RayJob has deletionRules with `condition.jobDeploymentStatus` (KubeRay >= 1.6).
    * `dra_version`: the newest served version of resource.k8s.io, None when DRA is not served.
    * `compute_domain_version`: served version of resource.nvidia.com, None when absent.
    * `kai`, `kueue`: served at all; `kai_version` / `kueue_version`: (major, minor) where known.
    """

    source: Literal["offline", "cluster"] = "offline"
    kubernetes: str = "1.34"
    kuberay: bool = True
    deletion_rules: bool = True
    pre_running_deadline: bool = True
    rayjob_fields: frozenset[str] = field(default_factory=frozenset)
    dra_version: str | None = "v1"
    compute_domain_version: str | None = "v1beta1"
    kai: bool = True
    kai_version: tuple[int, int] | None = (0, 17)
    kueue: bool = True
    kueue_version: tuple[int, int] | None = (0, 19)


OFFLINE = ClusterFacts()
