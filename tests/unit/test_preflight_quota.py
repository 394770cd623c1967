"""Quotas and limit ranges: what never fits fails, what is used up heals, and a pod's size is what Kubernetes makes of it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import FakeCluster
from plan_case import WRITTEN, Case

from kubectl_nrl.api import Check
from kubectl_nrl.manifests.amounts import pod_amounts, show
from kubectl_nrl.preflight.quota import quota_checks

#: Two workers with 4 GPUs, 8 CPUs and 32Gi each, and a head.
INFRA = WRITTEN.replace(
    "resources: {limits: {nvidia.com/gpu: 4}}",
    "resources: {limits: {nvidia.com/gpu: 4, memory: 32Gi}, requests: {cpu: 8}}",
)


@pytest.fixture
def plan(tmp_path: Path) -> Any:
    return Case(tmp_path).plan(INFRA, "cluster: {num_nodes: 2, gpus_per_node: 4}\n")


def checks(plan: Any, hard: dict[str, Any] | None, used: dict[str, Any] | None = None, **more: Any) -> list[Check]:
    cluster = FakeCluster()
    if hard is not None:
        status = {"hard": hard, "used": used or {}}
        spec = {"hard": hard, **more.pop("spec", {})}
        cluster.put({"kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec, "status": status})
    for limit in more.pop("limits", ()):
        cluster.put({"kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": [limit]}})
    return list(quota_checks(cluster, plan))


@pytest.mark.parametrize(
    ("hard", "used", "ok", "words"),
    [
        ({"requests.nvidia.com/gpu": "8"}, {}, True, ""),
        ({"requests.nvidia.com/gpu": "7"}, {}, False, "the run needs 8 nvidia.com/gpu, the quota allows 7"),
        ({"requests.nvidia.com/gpu": "64"}, {"requests.nvidia.com/gpu": "60"}, None, "needs 8 nvidia.com/gpu, the quota has left 4"),
        ({"pods": "2"}, {}, False, "the run needs 3 pods"),
        ({"count/rayjobs.ray.io": "5"}, {"count/rayjobs.ray.io": "5"}, None, "the run needs 1 count/rayjobs.ray.io"),
        ({"count/rayclusters.ray.io": "0"}, {}, False, "the run needs 1 count/rayclusters.ray.io"),
        ({"count/rayservices.ray.io": "0"}, {}, True, ""),
        ({"requests.nvidia.com/gpu": "4"}, {"requests.nvidia.com/gpu": "9"}, False, "needs 8"),
    ],
)  # fmt: skip
def test_a_quota_that_is_too_small_fails_and_one_that_is_used_up_heals(
    plan: Any, hard: dict[str, str], used: dict[str, str], ok: bool | None, words: str
) -> None:
    (check,) = checks(plan, hard, used)
    assert check.ok is ok
    assert words in check.detail
    assert bool(check.fix) is (ok is not True)


def test_a_quota_makes_every_container_say_what_it_counts(plan: Any) -> None:
    (check,) = checks(plan, {"limits.cpu": "100"})
    assert check.ok is False
    assert 'container "head" of the head pod of rayjob/' in check.detail and "has no cpu limit" in check.detail
    default = {"type": "Container", "default": {"cpu": "10"}}
    (check,) = checks(plan, {"limits.cpu": "100"}, limits=[default])
    assert check.ok is True, "the namespace's default fills it in"
    (check,) = checks(plan, {"limits.cpu": "29"}, limits=[default])
    assert "needs 30 limits.cpu" in check.detail, "and is counted"


def test_init_containers_are_looked_at_as_kubernetes_does(tmp_path: Path) -> None:
    prepared = INFRA.replace(
        "            containers:\n", "            initContainers: [{name: prep, image: x}]\n            containers:\n"
    )
    prepared = prepared.replace("[{name: head}]", "[{name: head, resources: {requests: {memory: 1Gi, cpu: 1}}}]")
    plan = Case(tmp_path).plan(prepared, "cluster: {num_nodes: 2, gpus_per_node: 4}\n")
    (check,) = checks(plan, {"requests.memory": "1Ti"})
    assert check.ok is False and 'container "prep" of the pods of group gpu' in check.detail
    default = {"type": "Container", "defaultRequest": {"memory": "1Gi", "cpu": "64"}}
    (check,) = checks(plan, {"requests.cpu": "100"}, limits=[default])
    assert "needs 129 cpu" in check.detail, "a worker asks for as much as its init container does"


@pytest.mark.parametrize(
    ("scope", "counts"),
    [
        ({"scopes": ["NotTerminating"]}, True),
        ({"scopes": ["Terminating"]}, False),
        ({"scopes": ["BestEffort"]}, False),
        ({"scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}}, False),
        ({"scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": "NotIn", "values": ["high"]}]}}, True),
        ({"scopes": ["NewScopeOfAnotherYear"]}, False),
    ],
)  # fmt: skip
def test_a_quota_counts_only_pods_of_its_scopes(plan: Any, scope: dict[str, Any], counts: bool) -> None:
    (check,) = checks(plan, {"requests.nvidia.com/gpu": "1"}, spec=scope)
    assert check.ok is (not counts)


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ({"type": "Container", "max": {"memory": "16Gi"}}, "32Gi memory is more than the 16Gi that are allowed"),
        ({"type": "Pod", "max": {"nvidia.com/gpu": "2"}}, "4 nvidia.com/gpu is more than the 2 that are allowed"),
        ({"type": "Container", "min": {"cpu": "16"}}, "8 cpu is less than the 16 that are asked for"),
    ],
)
def test_a_limit_range_refuses_what_is_outside_it(plan: Any, limit: dict[str, Any], words: str) -> None:
    (check,) = checks(plan, None, limits=[limit])
    assert check.ok is False
    assert words in check.detail and "pods of group gpu" in check.detail


def test_a_namespace_without_any_says_nothing(plan: Any) -> None:
    assert checks(plan, None) == []


def container(asked: Any = None, **limits: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": asked} if asked else {}, "limits": limits}}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [container(1), container("500m")]}, Fraction(3, 2)),
        ({"containers": [container(None, cpu=2)]}, 2),
        ({"containers": [container(1)], "initContainers": [container(4)]}, 4),
        ({"containers": [container(1)], "initContainers": [{**container(2), "restartPolicy": "Always"}]}, 3),
        (
            {
                "containers": [container(1)],
                "initContainers": [{**container(2), "restartPolicy": "Always"}, container(4)],
            },
            6,
        ),
        ({"containers": [container(1)], "overhead": {"cpu": "250m"}}, Fraction(5, 4)),
        ({"containers": [container("nonsense")]}, None),
    ],
)
def test_a_pod_asks_for_what_kubernetes_makes_of_its_containers(spec: dict[str, Any], cpu: Any) -> None:
    assert pod_amounts(spec).get("cpu") == cpu


@pytest.mark.parametrize(
    ("name", "amount", "words"),
    [
        ("memory", 2**35, "32Gi"),
        ("requests.memory", 2**29, "512Mi"),
        ("ephemeral-storage", 3 * 2**39, "1.5Ti"),
        ("cpu", Fraction(1, 2), "500m"),
        ("limits.cpu", 3, "3"),
        ("nvidia.com/gpu", 8, "8"),
    ],
)
def test_amounts_are_shown_as_people_write_them(name: str, amount: Any, words: str) -> None:
    assert show(name, Fraction(amount)) == words
