"""The Kueue provider: labels of the workload, podset slices, limits."""

from __future__ import annotations

import pytest
from context import context, origins, problems, ray_group, ray_spec, render, with_training
from nrl_plugins.scheduler_default import DefaultScheduler
from nrl_plugins.scheduler_kueue import PREFERRED, QUEUE, REQUIRED, SLICE, SLICE_SIZE, KueueScheduler

from kubectl_nrl.facts import ClusterFacts

KUEUE = KueueScheduler()
QUEUED = {"scheduler": {"kind": "kueue", "queue": "rl"}}
CLIQUE = "nvidia.com/gpu.clique"
GB300 = {"topology": {"label": CLIQUE, "rackSize": 18, "name": "gb300-topology"}}


def test_the_queue_label_is_on_the_workload_alone() -> None:
    found = render(KUEUE, context(QUEUED))
    assert found.workload() == {"metadata": {"labels": {QUEUE: "rl"}}}
    assert found.head() == {}
    assert found.group() == {}


def test_every_roles_workload_is_queued() -> None:
    found = render(KUEUE, context({**QUEUED, "kuberay": {"training": {}, "gym": {}}}, kind="RayCluster"))
    assert found.workload("gym")["metadata"]["labels"] == {QUEUE: "rl"}


def test_priority_is_a_workload_priority_class() -> None:
    found = render(KUEUE, context({"scheduler": {"kind": "kueue", "queue": "rl", "priority": "high"}}))
    assert found.workload()["metadata"]["labels"] == {QUEUE: "rl", "kueue.x-k8s.io/priority-class": "high"}


def test_traits() -> None:
    traits = KUEUE.traits
    assert traits.lifetime == "shutdown"
    assert traits.segments == "slices"
    assert traits.reserved_groups == {"head"}
    assert not traits.gang
    assert not traits.keeps_head(ClusterFacts())
    assert "K8sJobMode" in traits.submission_modes


@pytest.mark.parametrize(
    ("version", "mode", "groups"),
    [
        ((0, 13), "HTTPMode", 7), ((0, 17), "HTTPMode", 7), ((0, 18), "HTTPMode", 9), ((0, 19), "HTTPMode", 17),
        ((1, 0), "HTTPMode", 17), ((0, 17), "K8sJobMode", 6), ((0, 18), "K8sJobMode", 8), ((0, 19), "K8sJobMode", 16),
        ((0, 17), "SidecarMode", 7), (None, "HTTPMode", None),
    ],
)  # fmt: skip
def test_worker_groups_are_limited_by_version(version: tuple | None, mode: str, groups: int | None) -> None:
    assert KUEUE.traits.max_worker_groups(ClusterFacts(kueue_version=version), mode) == groups


def annotations(scheduler: dict | None = None, segment: int | None = None, **changes: object) -> dict[str, str]:
    infra = {
        "scheduler": {**QUEUED["scheduler"], **(scheduler or {})},
        "kuberay": {"training": {"segmentSize": segment}},
    }
    return render(KUEUE, context(infra, **changes)).template().get("annotations", {})


def test_segments_are_slices_of_one_podset() -> None:
    assert annotations(segment=2, profile=GB300) == {SLICE: CLIQUE, SLICE_SIZE: "2"}


def test_a_required_placement_is_the_level_of_slices() -> None:
    assert annotations({"requiredPlacement": "rack"}, 2, profile=GB300) == {SLICE: "rack", SLICE_SIZE: "2"}


def test_a_preference_stands_beside_slices() -> None:
    found = annotations({"preferredPlacement": "block"}, 2, profile=GB300)
    assert found == {SLICE: CLIQUE, SLICE_SIZE: "2", PREFERRED: "block"}


def test_without_segments_the_group_is_placed_as_one() -> None:
    assert annotations({"requiredPlacement": "rack"}) == {REQUIRED: "rack"}
    assert annotations({"preferredPlacement": "rack"}) == {PREFERRED: "rack"}


def test_the_profile_alone_places_nothing() -> None:
    assert annotations(profile=GB300) == {}


def test_segments_without_a_level_draw_a_warning() -> None:
    ctx = context({**QUEUED, "kuberay": {"training": {"segmentSize": 2}}})
    (message,) = problems(KUEUE, ctx, "warning")
    assert "segmentSize" in message
    assert origins(KUEUE, ctx) == ["infra:kuberay.training.segmentSize"]
    assert annotations(segment=2) == {}


def test_required_and_preferred_without_segments_is_an_error() -> None:
    both = {"scheduler": {**QUEUED["scheduler"], "requiredPlacement": "a", "preferredPlacement": "b"}}
    assert len(problems(KUEUE, context(both))) == 1
    assert problems(KUEUE, context({**both, "kuberay": {"training": {"segmentSize": 2}}})) == []


@pytest.mark.parametrize("key", ["requiredPlacement", "preferredPlacement"])
def test_one_of_the_two_is_fine(key: str) -> None:
    assert problems(KUEUE, context({"scheduler": {**QUEUED["scheduler"], key: "a"}})) == []


@pytest.mark.parametrize(
    ("scheduler", "profile"), [({"requiredPlacement": "rack"}, {}), ({}, GB300), ({"requiredPlacement": "rack"}, GB300)]
)
def test_segments_with_a_level_are_fine(scheduler: dict, profile: dict) -> None:
    infra = {"scheduler": {**QUEUED["scheduler"], **scheduler}, "kuberay": {"training": {"segmentSize": 2}}}
    assert list(KUEUE.problems(context(infra, profile=profile))) == []


def test_rays_autoscaler_is_refused() -> None:
    ctx = context(with_training({**ray_spec(ray_group()), "enableInTreeAutoscaling": True}, **QUEUED))
    assert len(problems(KUEUE, ctx)) == 1
    assert origins(KUEUE, ctx) == ["infra:kuberay.training.spec.enableInTreeAutoscaling"]


@pytest.mark.parametrize(
    "infra", [{"labels": {QUEUE: "other"}}, {"kuberay": {"training": {"labels": {QUEUE: "other"}}}}]
)
def test_another_queue_label_is_an_error_naming_both(infra: dict) -> None:
    (message,) = problems(KUEUE, context({**infra, **QUEUED}))
    assert '"other"' in message
    assert '"rl"' in message


def test_what_kueue_writes_is_no_drift() -> None:
    ignored = set(KUEUE.drift_ignores())
    assert {"spec.suspend", "spec.managedBy", "spec.submitterPodTemplate"} <= ignored
    assert "spec.workerGroupSpecs.*.template.spec.nodeSelector" in ignored
    assert "spec.rayClusterSpec.headGroupSpec.template.spec.tolerations" in ignored
    assert "spec.rayClusterSpec.workerGroupSpecs.*.template.spec.schedulingGates" in ignored
    assert not any("containers" in path for path in ignored)


def test_the_default_scheduler_renders_nothing_and_questions_a_queue() -> None:
    default = DefaultScheduler()
    ctx = context({"scheduler": {"kind": "default", "queue": "rl"}})
    assert list(default.patches(ctx)) == []
    (message,) = problems(default, ctx, "warning")
    assert "scheduler.queue" in message
    assert origins(default, ctx) == ["infra:scheduler.queue"]
    assert list(default.problems(context())) == []
