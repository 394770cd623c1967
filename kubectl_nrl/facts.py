"""What a cluster serves, as one frozen value: its offline default, and its discovery through a reader handed in.

Offline, the facts are the newest documented versions, and the output says so: a Plan must be possible without a
cluster, and the fields a live cluster lacks are found again by its strict validation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from .errors import ClusterError

#: Newest first: `resource.k8s.io` versions whose shapes are known (facts: Kubernetes API reference, resource.k8s.io).
DRA_VERSIONS = ("v1", "v1beta2", "v1beta1")


@dataclass(frozen=True)
class ClusterFacts:
    """What the cluster serves.

    * `source`: `offline` (documented newest) or `cluster` (discovered). * `kubernetes`: `major.minor` of the API
    server. * `kuberay`: whether ray.io/v1 is served; `rayjob_fields`: names of the served RayJob's spec fields (empty
    offline, and where the schema may not be read: then everything known is taken to be served). * `deletion_rules`:
    the served RayJob has deletionRules with `condition.jobDeploymentStatus` (KubeRay >= 1.6). * `dra_version`: the
    newest served version of resource.k8s.io, None when DRA is not served. * `compute_domain_version`: served version
    of resource.nvidia.com, None when absent. * `kai`, `kueue`: served at all; `kai_version` / `kueue_version`:
    (major, minor) where known. Kueue's is the least that serves what is served when its Deployment may not be read.
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

#: Where the charts install them by default, and whose image tag is the version: (namespace, part of the image's name).
_KAI = ("kai-scheduler", "scheduler")
_KUEUE = ("kueue-system", "kueue")


class FactsReader(Protocol):
    """What discovery needs of a cluster (`kubectl_nrl.cluster.Cluster`). All raise `ClusterError`."""

    def served(self) -> Mapping[str, tuple[str, ...]]: ...
    def server_version(self) -> str: ...
    def openapi_fields(self, group: str, version: str, kind: str, path: tuple[str, ...]) -> frozenset[str]: ...
    def list(self, api_version: str, kind: str, namespace: str | None = None) -> Sequence[Mapping[str, Any]]: ...


def discover(reader: FactsReader) -> ClusterFacts:
    """The facts of a live cluster, in three requests, and one each for KAI and Kueue where they are served.

    Raises `ClusterError` when the cluster cannot be reached or the user is not let in; what alone may not be read is
    left unknown.
    """
    served = reader.served()
    kuberay = "v1" in served.get("ray.io", ())
    rayjob, condition = _rayjob_fields(reader) if kuberay else (frozenset[str](), frozenset[str]())
    dra = served.get("resource.k8s.io", ())
    kueue = served.get("kueue.x-k8s.io", ())
    return ClusterFacts(
        source="cluster",
        kubernetes=_major_minor(reader.server_version()),
        kuberay=kuberay,
        deletion_rules="jobDeploymentStatus" in condition,
        pre_running_deadline="preRunningDeadlineSeconds" in rayjob,
        rayjob_fields=rayjob,
        dra_version=next((version for version in DRA_VERSIONS if version in dra), None),
        compute_domain_version=next(iter(served.get("resource.nvidia.com", ())), None),
        kai="scheduling.run.ai" in served,
        kai_version=_installed(reader, *_KAI) if "scheduling.run.ai" in served else None,
        kueue=bool(kueue),
        kueue_version=(_installed(reader, *_KUEUE) or _least_kueue(kueue)) if kueue else None,
    )


def _rayjob_fields(reader: FactsReader) -> tuple[frozenset[str], frozenset[str]]:
    """Fields of the RayJob's spec, and of the condition of a deletion rule; none when the schema may not be read."""
    rule = ("spec", "deletionStrategy", "deletionRules", "condition")
    try:
        return (
            reader.openapi_fields("ray.io", "v1", "RayJob", ("spec",)),
            reader.openapi_fields("ray.io", "v1", "RayJob", rule),
        )
    except ClusterError as error:
        if error.status not in (403, 404, 406):
            raise
        return frozenset(), frozenset()


def _installed(reader: FactsReader, namespace: str, part: str) -> tuple[int, int] | None:
    """(major, minor) of the image that an installation runs, when its Deployments may be read and its tag is a
    version.
    """
    try:
        deployments = reader.list("apps/v1", "Deployment", namespace)
    except ClusterError as error:
        if error.status in (401, 0):
            raise
        return None
    found = {version for image in _images(deployments) if (version := _tag(image, part))}
    return max(found) if found else None


def _images(deployments: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for deployment in deployments:
        template = (deployment.get("spec") or {}).get("template") or {}
        for container in (template.get("spec") or {}).get("containers") or []:
            yield str(container.get("image") or "")


def _tag(image: str, part: str) -> tuple[int, int] | None:
    """(major, minor) of an image like `registry/repo/name:v0.14.2@sha256:...` whose name has `part` in it."""
    match = re.fullmatch(r"(?P<name>.+):v?(?P<major>\d+)\.(?P<minor>\d+)(\.[\w.+-]+)?(@.*)?", image)
    if not match or part not in match["name"].rpartition("/")[2]:
        return None
    return int(match["major"]), int(match["minor"])


def _least_kueue(versions: Iterable[str]) -> tuple[int, int]:
    """The least Kueue that serves these (facts: v1beta2 is served from 0.15 on)."""
    return (0, 15) if "v1beta2" in versions else (0, 13)


def _major_minor(version: str) -> str:
    match = re.match(r"v?(\d+)\.(\d+)", version)
    return f"{match[1]}.{match[2]}" if match else version
