"""The DRA drivers: whose pods get a claim, names that carry the run, shapes by API version."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from context import (
    RUN,
    context,
    ray_group,
    ray_pod,
    ray_spec,
    render,
    with_training,
)
from nrl_plugins.dra_computedomain import ComputeDomain
from nrl_plugins.dra_roce import Roce

from kubectl_nrl.facts import ClusterFacts

DOMAIN, ROCE = ComputeDomain(), Roce()
DRIVERS = [pytest.param(DOMAIN, id="computedomain"), pytest.param(ROCE, id="roce")]
CHANNEL, NICS = "compute-domain-channel", "roce-channel"


def hand_written(*claims: dict, head: dict | None = None, **infra: object) -> dict:
    template = ray_pod(resourceClaims=list(claims)) if claims else ray_pod()
    return with_training(ray_spec(ray_group(template=template), head=head), **infra)


def names(driver, ctx) -> list[str]:
    return [resource.manifest["metadata"]["name"] for resource in driver.resources(ctx)]


@pytest.mark.parametrize("driver", DRIVERS)
def test_all_workers_of_a_short_file_get_the_claim_and_the_head_none(driver) -> None:
    found = render(driver, context())
    (claim,) = found.pod()["resourceClaims"]
    assert claim["name"] == driver.claim_name
    assert claim["resourceClaimTemplateName"] == names(driver, context())[0]
    assert found.ray()["resources"]["claims"] == [{"name": driver.claim_name}]
    assert found.head() == {}


@pytest.mark.parametrize("driver", DRIVERS)
def test_workers_without_gpus_get_none(driver) -> None:
    ctx = context({"kuberay": {"training": {"gpus": 0}}})
    assert names(driver, ctx) == []
    assert list(driver.patches(ctx)) == []


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_hand_written_group_that_lists_the_claim_gets_it(driver) -> None:
    ctx = context(hand_written({"name": driver.claim_name}))
    found = render(driver, ctx, user_specs=True)
    (claim,) = found.pod("gpu")["resourceClaims"]
    assert claim == {"name": driver.claim_name, "resourceClaimTemplateName": names(driver, ctx)[0]}
    assert found.ray("gpu")["resources"]["claims"] == [{"name": driver.claim_name}]


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_hand_written_group_that_does_not_list_it_is_left_alone(driver) -> None:
    ctx = context(hand_written({"name": "gpus", "resourceClaimTemplateName": "mine"}))
    assert list(driver.patches(ctx)) == []
    assert names(driver, ctx) == []


@pytest.mark.parametrize("driver", DRIVERS)
def test_of_two_groups_only_the_one_that_asks_gets_it(driver) -> None:
    asks = ray_group("a", template=ray_pod(resourceClaims=[{"name": driver.claim_name}]))
    ctx = context(with_training(ray_spec(asks, ray_group("b"))))
    found = render(driver, ctx)
    assert "resourceClaims" in found.pod("a")
    assert found.group("b") == {}
    assert len(names(driver, ctx)) == 1


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_head_that_lists_it_gets_it(driver) -> None:
    head = ray_pod(resourceClaims=[{"name": driver.claim_name}])
    found = render(driver, context(hand_written(head=head)))
    assert found.head_pod()["resourceClaims"][0]["name"] == driver.claim_name
    assert found.group("gpu") == {}


@pytest.mark.parametrize("driver", DRIVERS)
def test_the_template_name_beats_what_the_spec_says(driver) -> None:
    """It carries the run: a name written by hand would be another run's."""
    ctx = context(hand_written({"name": driver.claim_name, "resourceClaimTemplateName": "stale"}))
    found = render(driver, ctx, user_specs=True)
    assert found.pod("gpu")["resourceClaims"][0]["resourceClaimTemplateName"] == names(driver, ctx)[0]


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_claim_that_exists_is_its_owners(driver) -> None:
    ctx = context(hand_written({"name": driver.claim_name, "resourceClaimName": "shared"}))
    assert list(driver.patches(ctx)) == []
    assert names(driver, ctx) == []


@pytest.mark.parametrize("driver", DRIVERS)
def test_on_this_machine_there_are_no_claims(driver) -> None:
    assert names(driver, context(kind="local")) == []


@pytest.mark.parametrize("driver", DRIVERS)
def test_one_object_for_each_role_that_asks(driver) -> None:
    ctx = context({"kuberay": {"training": {}, "generation": {}, "gym": {}}}, kind="RayCluster")
    found = list(driver.resources(ctx))
    assert [resource.role for resource in found] == ["training", "generation"]
    assert len(set(names(driver, ctx))) == 2


def test_long_lived_names_are_upstreams() -> None:
    ctx = context(hand_written({"name": CHANNEL}, {"name": NICS}), kind="RayCluster")
    assert names(DOMAIN, ctx) == ["compute-domain-big-training"]
    assert names(ROCE, ctx) == ["roce-big-training"]


def test_a_rayjobs_names_carry_the_run() -> None:
    ctx = context(hand_written({"name": CHANNEL}, {"name": NICS}))
    assert names(DOMAIN, ctx) == ["compute-domain-big-training-ab12"]
    assert names(ROCE, ctx) == ["roce-big-training-ab12"]


@pytest.mark.parametrize("driver", DRIVERS)
def test_two_runs_of_one_file_share_nothing(driver) -> None:
    runs = [replace(RUN, id="20260102-030405-ab12"), replace(RUN, id="20260102-030406-cd34"), replace(RUN, id="my-own")]
    found = {names(driver, context(run=run))[0] for run in runs}
    assert len(found) == 3


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("kind", ["RayJob", "RayCluster"])
@pytest.mark.parametrize("length", [20, 40, 47, 53])
def test_names_are_labels_however_long_the_cluster(driver, kind: str, length: int) -> None:
    ctx = context({"kuberay": {"training": {"name": "c" * length}}}, kind=kind)
    (name,) = names(driver, ctx)
    assert len(name) <= 63
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name)
    assert name.endswith("-ab12") is (kind == "RayJob")


def test_long_names_that_differ_at_the_end_stay_different() -> None:
    found = {
        names(DOMAIN, context({"kuberay": {"training": {"name": "c" * 50 + end}}}, kind="RayCluster"))[0]
        for end in "ab"
    }
    assert len(found) == 2


def test_the_domain_awaits_the_template_its_controller_makes() -> None:
    (resource,) = DOMAIN.resources(context())
    name = resource.manifest["metadata"]["name"]
    assert resource.manifest == {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": {"name": name},
        "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": name}}},
    }
    assert resource.wave == 0
    (ref,) = resource.await_refs
    assert (ref.api_version, ref.kind, ref.name) == ("resource.k8s.io/v1", "ResourceClaimTemplate", name)


def test_the_domain_is_of_the_served_version() -> None:
    (resource,) = DOMAIN.resources(context(facts=ClusterFacts(compute_domain_version="v2")))
    assert resource.manifest["apiVersion"] == "resource.nvidia.com/v2"


def test_the_domains_template_is_never_rendered() -> None:
    assert {resource.manifest["kind"] for resource in DOMAIN.resources(context())} == {"ComputeDomain"}


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_the_awaited_template_is_of_the_served_version(version: str) -> None:
    (resource,) = DOMAIN.resources(context(facts=ClusterFacts(dra_version=version)))
    assert resource.await_refs[0].api_version == f"resource.k8s.io/{version}"


PROFILE = {"nics": {"deviceClass": "mrdma.google.com", "count": 4, "selectors": ["a == b", "c"], "requestName": "rdma"}}


def request(**changes: object) -> dict:
    (resource,) = ROCE.resources(context(**changes))
    assert resource.manifest["kind"] == "ResourceClaimTemplate"
    (found,) = resource.manifest["spec"]["spec"]["devices"]["requests"]
    return {"api": resource.manifest["apiVersion"], **found}


def test_without_nics_the_claim_is_the_public_examples() -> None:
    exactly = {"deviceClassName": "roce.networking.k8s.aws", "allocationMode": "ExactCount", "count": 8}
    assert request() == {"api": "resource.k8s.io/v1", "name": "nic", "exactly": exactly}


@pytest.mark.parametrize("version", ["v1", "v1beta2"])
def test_newer_versions_nest_the_request(version: str) -> None:
    found = request(profile=PROFILE, facts=ClusterFacts(dra_version=version))
    assert found["api"] == f"resource.k8s.io/{version}"
    assert found["name"] == "rdma"
    assert found["exactly"] == {
        "deviceClassName": "mrdma.google.com",
        "allocationMode": "ExactCount",
        "count": 4,
        "selectors": [{"cel": {"expression": "a == b"}}, {"cel": {"expression": "c"}}],
    }


def test_v1beta1_is_flat() -> None:
    found = request(profile=PROFILE, facts=ClusterFacts(dra_version="v1beta1"))
    assert found["deviceClassName"] == "mrdma.google.com"
    assert found["count"] == 4
    assert "exactly" not in found


def test_a_profile_without_a_count_means_one() -> None:
    assert request(profile={"nics": {"deviceClass": "x"}})["exactly"]["count"] == 1
