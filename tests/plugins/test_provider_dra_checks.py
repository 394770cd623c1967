"""The DRA drivers: what is wrong with what the files ask for, and what a live cluster lacks."""

from __future__ import annotations

import pytest
from context import (
    FakeCluster,
    context,
    origins,
    problems,
    ray_group,
    ray_pod,
    ray_spec,
    thing,
    with_training,
)
from nrl_plugins.dra_computedomain import ComputeDomain
from nrl_plugins.dra_roce import Roce

from kubectl_nrl.errors import ClusterError
from kubectl_nrl.facts import ClusterFacts

DOMAIN, ROCE = ComputeDomain(), Roce()
DRIVERS = [pytest.param(DOMAIN, id="computedomain"), pytest.param(ROCE, id="roce")]
NICS = "roce-channel"


def hand_written(*claims: dict, head: dict | None = None, **infra: object) -> dict:
    template = ray_pod(resourceClaims=list(claims)) if claims else ray_pod()
    return with_training(ray_spec(ray_group(template=template), head=head), **infra)


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_cluster_without_dra_is_an_error(driver) -> None:
    (message,) = problems(driver, context(facts=ClusterFacts(dra_version=None)))
    assert "resource.k8s.io" in message


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_cluster_without_dra_is_none_when_nobody_asks(driver) -> None:
    assert problems(driver, context(hand_written(), facts=ClusterFacts(dra_version=None))) == []


def test_a_cluster_without_compute_domains_is_an_error() -> None:
    (message,) = problems(DOMAIN, context(facts=ClusterFacts(compute_domain_version=None)))
    assert "resource.nvidia.com" in message
    assert problems(ROCE, context(facts=ClusterFacts(compute_domain_version=None))) == []


@pytest.mark.parametrize(("count", "wrong"), [(1, False), (32, False), (33, True)])
def test_a_claim_holds_32_devices(count: int, wrong: bool) -> None:
    ctx = context(profile={"nics": {"deviceClass": "x", "count": count}}, source="my.profile.yaml")
    assert bool(problems(ROCE, ctx)) is wrong
    if wrong:
        assert str(next(iter(ROCE.problems(ctx))).origin) == "my.profile.yaml"


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_named_driver_that_nobody_asks_for_draws_a_warning(driver) -> None:
    (message,) = problems(driver, context(hand_written(dra=[driver.name])), "warning")
    assert driver.name in message
    assert problems(driver, context(hand_written()), "warning") == []
    assert problems(driver, context({"dra": [driver.name]}), "warning") == []


def test_host_network_beside_claimed_nics_draws_a_note() -> None:
    ctx = context({"networking": {"hostNetwork": True}})
    assert len(problems(ROCE, ctx, "note")) == 1
    assert origins(ROCE, ctx) == ["infra:networking.hostNetwork"]
    assert problems(ROCE, context({"networking": {"hostNetwork": False}}), "note") == []
    assert problems(ROCE, context(), "note") == []
    assert problems(DOMAIN, ctx, "note") == []


@pytest.mark.parametrize(("value", "notes"), [(True, 1), (False, 0), (None, 0)])
def test_hand_written_host_network_too(value: bool | None, notes: int) -> None:
    template = ray_pod(hostNetwork=value, resourceClaims=[{"name": NICS}])
    ctx = context(with_training(ray_spec(ray_group(template=template))))
    assert len(problems(ROCE, ctx, "note")) == notes
    if notes:
        where = "infra:kuberay.training.spec.workerGroupSpecs.0.template.spec.hostNetwork"
        assert origins(ROCE, ctx) == [where]


CHANNEL_CLASS = thing("DeviceClass", "compute-domain-default-channel.nvidia.com")


def oks(driver, *objects: dict, ctx=None, **cluster: object) -> list[bool | None]:
    return [check.ok for check in driver.checks(ctx or context(), FakeCluster(list(objects), **cluster))]


def test_preflight_of_a_domain() -> None:
    assert oks(DOMAIN, CHANNEL_CLASS) == [True, True]
    assert oks(DOMAIN) == [False, True]
    assert oks(DOMAIN, CHANNEL_CLASS, absent=frozenset({"ComputeDomain"})) == [True, False]
    assert oks(DOMAIN, CHANNEL_CLASS, forbidden=frozenset({"ComputeDomain", "DeviceClass"})) == [None, None]
    assert oks(DOMAIN, absent=frozenset({"DeviceClass"})) == [False, True]


def test_a_domain_that_may_not_be_listed_says_so() -> None:
    for how, words in (("forbidden", "may not be listed"), ("absent", "resource.nvidia.com/v2 is not served")):
        ctx = context(facts=ClusterFacts(compute_domain_version="v2"))
        found = list(DOMAIN.checks(ctx, FakeCluster([CHANNEL_CLASS], **{how: frozenset({"ComputeDomain"})})))
        assert found[1].detail == words


def test_preflight_of_nics() -> None:
    assert oks(ROCE, thing("DeviceClass", "roce.networking.k8s.aws")) == [True]
    assert oks(
        ROCE,
        thing("DeviceClass", "mrdma.google.com"),
        ctx=context(profile={"nics": {"deviceClass": "mrdma.google.com"}}),
    ) == [True]
    assert oks(ROCE) == [False]
    assert oks(ROCE, forbidden=frozenset({"DeviceClass"})) == [None]


@pytest.mark.parametrize("driver", DRIVERS)
def test_nothing_is_looked_at_when_nobody_asks(driver) -> None:
    assert oks(driver, ctx=context(hand_written()), broken=frozenset({"DeviceClass"})) == []


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_failure_of_the_cluster_is_not_swallowed(driver) -> None:
    with pytest.raises(ClusterError):
        oks(driver, broken=frozenset({"DeviceClass"}))


def test_a_domain_that_is_being_deleted_is_a_reason() -> None:
    owned = {"ownerReferences": [{"uid": "u1"}], "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["f"]}
    run = {"metadata": {"name": "r", "namespace": "rl", "uid": "u1"}}
    (reason,) = DOMAIN.reasons(run, FakeCluster([thing("ComputeDomain", "d", metadata=owned)]))
    assert "finalizers: f" in reason.message
    others = {**owned, "ownerReferences": [{"uid": "u2"}]}
    standing = {"ownerReferences": owned["ownerReferences"]}
    for metadata in ({}, others, standing):
        assert list(DOMAIN.reasons(run, FakeCluster([thing("ComputeDomain", "d", metadata=metadata)]))) == []
    assert list(DOMAIN.reasons(run, FakeCluster(absent=frozenset({"ComputeDomain"})))) == []


def test_a_node_whose_imex_daemon_is_not_ready_is_a_reason() -> None:
    meta = {"ownerReferences": [{"uid": "u1"}]}
    nodes = [{"name": f"n{number}", "status": "Ready" if number else "NotReady"} for number in range(3)]
    run = {"metadata": {"name": "r", "namespace": "rl", "uid": "u1"}}
    domain = thing("ComputeDomain", "d", metadata=meta, status={"status": "NotReady", "nodes": nodes})
    (reason,) = DOMAIN.reasons(run, FakeCluster([domain]))
    assert reason.message == "the IMEX daemon is not ready on 1 of 3 nodes: n0"
    assert reason.heals
