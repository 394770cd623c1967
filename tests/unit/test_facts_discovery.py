"""What a cluster serves, found out in few requests, from clusters that lack this or that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from kubectl_nrl.errors import ClusterError
from kubectl_nrl.facts import discover

SPEC = frozenset({"entrypoint", "preRunningDeadlineSeconds", "deletionStrategy"})


@dataclass
class Reader:
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    version: str = "v1.34.4"
    condition: frozenset[str] = frozenset({"jobStatus", "jobDeploymentStatus"})
    images: Mapping[str, list[str]] = field(default_factory=dict)
    refuse: int | None = None
    asked: int = 0

    def served(self) -> Mapping[str, tuple[str, ...]]:
        return {"": ("v1",), **self.groups}

    def server_version(self) -> str:
        return self.version

    def openapi_fields(self, group: str, version: str, kind: str, path: tuple[str, ...]) -> frozenset[str]:
        if self.refuse:
            raise ClusterError("no", status=self.refuse)
        return SPEC if path == ("spec",) else self.condition

    def list(self, api_version: str, kind: str, namespace: str | None = None) -> list[dict[str, Any]]:
        self.asked += 1
        if self.refuse:
            raise ClusterError("no", status=self.refuse)
        images = self.images.get(namespace or "", [])
        return [{"spec": {"template": {"spec": {"containers": [{"image": image}]}}}} for image in images]


def test_a_bare_cluster() -> None:
    reader = Reader()
    facts = discover(reader)
    assert (facts.source, facts.kubernetes) == ("cluster", "1.34")
    assert not (facts.kuberay or facts.kai or facts.kueue or facts.deletion_rules or facts.pre_running_deadline)
    assert facts.dra_version is None and facts.compute_domain_version is None
    assert reader.asked == 0


def test_a_full_cluster() -> None:
    groups = {
        "ray.io": ("v1", "v1alpha1"),
        "resource.k8s.io": ("v1beta1", "v1", "v1beta2"),
        "resource.nvidia.com": ("v1beta1",),
        "scheduling.run.ai": ("v2", "v2alpha2"),
        "kueue.x-k8s.io": ("v1beta2", "v1beta1"),
    }
    images = {
        "kai-scheduler": ["ghcr.io/kai/binder:latest", "ghcr.io:443/kai/kai-scheduler/scheduler:v0.14.2@sha256:ab"],
        "kueue-system": ["registry.k8s.io/kueue/kueue:v0.18.0"],
    }
    facts = discover(Reader(groups, images=images))
    assert facts.kuberay and facts.deletion_rules and facts.pre_running_deadline and facts.rayjob_fields == SPEC
    assert (facts.dra_version, facts.compute_domain_version) == ("v1", "v1beta1")
    assert (facts.kai_version, facts.kueue_version) == ((0, 14), (0, 18))


@pytest.mark.parametrize(
    ("versions", "newest"), [(("v1beta1",), "v1beta1"), (("v1beta1", "v1beta2"), "v1beta2"), (("v1alpha3",), None)]
)
def test_the_newest_known_version_of_dra(versions: tuple[str, ...], newest: str | None) -> None:
    assert discover(Reader({"resource.k8s.io": versions})).dra_version == newest


def test_an_old_kuberay() -> None:
    assert not discover(Reader({"ray.io": ("v1alpha1",)})).kuberay
    facts = discover(Reader({"ray.io": ("v1",)}, condition=frozenset({"jobStatus"})))
    assert facts.kuberay and not facts.deletion_rules


@pytest.mark.parametrize(("versions", "least"), [(("v1beta1",), (0, 13)), (("v1beta1", "v1beta2"), (0, 15))])
def test_what_may_not_be_read_stays_unknown(versions: tuple[str, ...], least: tuple[int, int]) -> None:
    groups = {"ray.io": ("v1",), "scheduling.run.ai": ("v2",), "kueue.x-k8s.io": versions}
    facts = discover(Reader(groups, refuse=403))
    assert facts.kuberay and not facts.deletion_rules and facts.rayjob_fields == frozenset()
    assert facts.kai and facts.kai_version is None and facts.kueue_version == least


@pytest.mark.parametrize(
    "image", ["scheduler", "scheduler:latest", "scheduler:main-v0.1", "other:v0.14.0", "scheduler@sha256:ab"]
)
def test_an_image_without_a_version(image: str) -> None:
    facts = discover(Reader({"scheduling.run.ai": ("v2",)}, images={"kai-scheduler": [image]}))
    assert facts.kai_version is None


def test_an_outage_is_not_taken_for_an_absence() -> None:
    with pytest.raises(ClusterError):
        discover(Reader({"scheduling.run.ai": ("v2",)}, refuse=401))
