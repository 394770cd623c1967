"""The KAI provider: where worker groups are placed by topology."""

from __future__ import annotations

import pytest
from context import context, origins, problems, ray_group, ray_spec, render, with_training
from nrl_plugins.scheduler_kai import REQUIRED, KaiScheduler

from kubectl_nrl.facts import ClusterFacts

KAI = KaiScheduler()
QUEUED = {"scheduler": {"kind": "kai", "queue": "rl"}}
TOPOLOGY = "kai.scheduler/topology"
PREFERRED = "kai.scheduler/topology-preferred-placement"
GB300 = {"topology": {"label": "nvidia.com/gpu.clique", "rackSize": 18, "name": "gb300-topology"}}
CLIQUE = "nvidia.com/gpu.clique"


def placed(infra: dict | None = None, **changes: object) -> dict[str, str]:
    """Annotations of the worker group, without the grace."""
    scheduler = {**QUEUED["scheduler"], **(infra or {})}
    kuberay = changes.pop("kuberay", {"training": {}})
    ctx = context({"scheduler": scheduler, "kuberay": kuberay}, kind="RayCluster", **changes)
    group = next(iter(ctx.roles["training"].groups)).name
    return render(KAI, ctx).template(group).get("annotations", {})


def test_required_placement() -> None:
    assert placed({"topology": "t", "requiredPlacement": "rack"}) == {TOPOLOGY: "t", REQUIRED: "rack"}


def test_preferred_placement() -> None:
    assert placed({"topology": "t", "preferredPlacement": "rack"}) == {TOPOLOGY: "t", PREFERRED: "rack"}


def test_both_placements() -> None:
    both = {"topology": "t", "requiredPlacement": "block", "preferredPlacement": "rack"}
    assert placed(both) == {TOPOLOGY: "t", REQUIRED: "block", PREFERRED: "rack"}


def test_the_profile_places_by_default() -> None:
    assert placed(profile=GB300) == {TOPOLOGY: "gb300-topology", REQUIRED: CLIQUE}


def test_a_topology_of_ones_own_uses_the_profiles_label() -> None:
    assert placed({"topology": "mine"}, profile=GB300) == {TOPOLOGY: "mine", REQUIRED: CLIQUE}


def test_a_placement_of_ones_own_uses_the_profiles_topology() -> None:
    assert placed({"preferredPlacement": "rack"}, profile=GB300) == {TOPOLOGY: "gb300-topology", PREFERRED: "rack"}


def test_the_head_is_never_placed() -> None:
    ctx = context(QUEUED, profile=GB300, kind="RayCluster")
    assert "annotations" not in render(KAI, ctx).template("head")


def test_a_profile_without_a_topology_object_places_nothing() -> None:
    assert placed(profile={"topology": {"label": CLIQUE}}) == {}


def test_cpu_workers_are_not_placed_by_default() -> None:
    assert placed(profile=GB300, kuberay={"training": {"gpus": 0}}) == {}


def test_cpu_workers_are_placed_when_asked() -> None:
    asked = {"topology": "t", "requiredPlacement": "rack"}
    assert placed(asked, kuberay={"training": {"gpus": 0}}) == {TOPOLOGY: "t", REQUIRED: "rack"}


@pytest.mark.parametrize(
    ("workers", "segment", "key"), [(18, None, REQUIRED), (19, None, PREFERRED), (36, 18, REQUIRED), (64, 16, REQUIRED)]
)
def test_a_group_beyond_a_rack_prefers_one(workers: int, segment: int | None, key: str) -> None:
    found = placed(profile=GB300, kuberay={"training": {"workers": workers, "segmentSize": segment}})
    assert found == {TOPOLOGY: "gb300-topology", key: CLIQUE}


def test_a_group_beyond_a_rack_draws_a_warning_with_the_cure() -> None:
    ctx = context({**QUEUED, "kuberay": {"training": {"workers": 19}}}, profile=GB300)
    (message,) = problems(KAI, ctx, "warning")
    assert "19 pods" in message
    assert "segmentSize to at most 18" in next(iter(KAI.problems(ctx))).hint


def test_required_beyond_a_rack_is_an_error() -> None:
    infra = {
        "scheduler": {**QUEUED["scheduler"], "requiredPlacement": CLIQUE},
        "kuberay": {"training": {"workers": 19}},
    }
    (message,) = problems(KAI, context(infra, profile=GB300))
    assert "19 pods" in message


def test_hosts_that_are_no_number_count_as_one() -> None:
    ctx = context(with_training(ray_spec(ray_group(replicas=18, numOfHosts="x")), **QUEUED), profile=GB300)
    assert REQUIRED in render(KAI, ctx).template("gpu")["annotations"]


def test_hosts_of_a_replica_count() -> None:
    spec = ray_spec(ray_group(replicas=6, numOfHosts=4))
    ctx = context(with_training(spec, **QUEUED), profile=GB300, kind="RayCluster")
    assert render(KAI, ctx).template("gpu")["annotations"][PREFERRED] == CLIQUE


def test_a_placement_needs_a_topology() -> None:
    ctx = context({"scheduler": {**QUEUED["scheduler"], "requiredPlacement": "rack"}})
    assert len(problems(KAI, ctx)) == 1
    assert origins(KAI, ctx) == ["infra:scheduler.requiredPlacement"]
    assert placed({"requiredPlacement": "rack"}) == {}


def test_a_topology_needs_a_placement() -> None:
    ctx = context({"scheduler": {**QUEUED["scheduler"], "topology": "t"}})
    assert len(problems(KAI, ctx)) == 1
    assert origins(KAI, ctx) == ["infra:scheduler.topology"]


def test_kai_before_0_14_ignores_placement_and_that_is_said() -> None:
    ctx = context(QUEUED, profile=GB300, facts=ClusterFacts(kai_version=(0, 13)))
    assert any("0.13" in message for message in problems(KAI, ctx, "warning"))


@pytest.mark.parametrize(("version", "said"), [((0, 13), True), ((0, 14), False), ((0, 15), False), (None, False)])
def test_which_kai_reads_placement(version: tuple | None, said: bool) -> None:
    ctx = context(QUEUED, profile=GB300, facts=ClusterFacts(kai_version=version))
    assert bool(problems(KAI, ctx, "warning")) is said


@pytest.mark.parametrize("placement", ["requiredPlacement", "preferredPlacement"])
def test_one_placement_beside_a_topology_is_enough(placement: str) -> None:
    assert problems(KAI, context({"scheduler": {**QUEUED["scheduler"], "topology": "t", placement: "rack"}})) == []
