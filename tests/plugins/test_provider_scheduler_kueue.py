"""The Kueue provider: labels of the workload, podset slices, limits, and its look at a live cluster."""

from __future__ import annotations

import pytest
from context import FakeCluster, context, origins, problems, ray_group, ray_spec, render, thing, with_training
from nrl_plugins.scheduler_default import DefaultScheduler
from nrl_plugins.scheduler_kueue import PREFERRED, QUEUE, REQUIRED, SLICE, SLICE_SIZE, KueueScheduler

from kubectl_nrl.errors import ClusterError
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


def check(*objects: dict, version: tuple | None = (0, 19), **cluster: object):
    reader = FakeCluster(list(objects), **cluster)
    (found,) = KUEUE.checks(context(QUEUED, facts=ClusterFacts(kueue_version=version)), reader)
    return found, reader


def test_the_local_queue_must_exist_and_be_active() -> None:
    active = {"conditions": [{"type": "Active", "status": "True"}]}
    stopped = {"conditions": [{"type": "Active", "status": "False", "message": "ClusterQueue rl-cq doesn't exist"}]}
    assert check(thing("LocalQueue", "rl", status=active))[0].ok is True
    assert check(thing("LocalQueue", "rl"))[0].ok is True
    found = check(thing("LocalQueue", "rl", status=stopped))[0]
    assert found.ok is False
    assert "rl-cq" in found.detail
    assert check()[0].ok is False


def test_a_forbidden_queue_is_a_note_and_no_kueue_a_failure() -> None:
    assert check(forbidden=frozenset({"LocalQueue"}))[0].ok is None
    assert check(absent=frozenset({"LocalQueue"}))[0].ok is False
    with pytest.raises(ClusterError):
        check(broken=frozenset({"LocalQueue"}))


@pytest.mark.parametrize(
    ("version", "api"), [((0, 14), "v1beta1"), ((0, 15), "v1beta2"), ((0, 19), "v1beta2"), (None, "v1beta1")]
)
def test_the_queue_is_read_in_a_served_version(version: tuple | None, api: str) -> None:
    _, reader = check(version=version)
    assert reader.asked == [(f"kueue.x-k8s.io/{api}", "LocalQueue", "rl")]


RUN = {"metadata": {"name": "r", "namespace": "rl", "uid": "u1"}}


def workload(*conditions: dict, uid: str = "u1") -> dict:
    return thing("Workload", "w", metadata={"ownerReferences": [{"uid": uid}]}, status={"conditions": list(conditions)})


def condition(kind: str, status: str, reason: str, message: str) -> dict:
    return {"type": kind, "status": status, "reason": reason, "message": message}


@pytest.mark.parametrize(
    ("reason", "message", "heals"),
    [
        ("Pending", "couldn't assign flavors: insufficient quota", True),
        ("Inadmissible", "LocalQueue nope doesn't exist", False),
        ("Inadmissible", "ClusterQueue is inactive", True),
        ("Inadmissible", "DeviceClass x is not mapped in DRA configuration for podset gpu", False),
    ],
)
def test_reasons_are_the_workloads(reason: str, message: str, heals: bool) -> None:
    cluster = FakeCluster([workload(condition("QuotaReserved", "False", reason, message))])
    (found,) = KUEUE.reasons(RUN, cluster)
    assert (found.reason, found.message, found.heals) == (reason, message, heals)


def test_an_admitted_workload_and_others_give_no_reason() -> None:
    admitted = workload(condition("QuotaReserved", "True", "QuotaReserved", "m"))
    other = workload(condition("QuotaReserved", "False", "Pending", "m"), uid="u2")
    assert list(KUEUE.reasons(RUN, FakeCluster([admitted, other]))) == []


def test_an_eviction_is_a_reason() -> None:
    (found,) = KUEUE.reasons(RUN, FakeCluster([workload(condition("Evicted", "True", "Preempted", "for team-a"))]))
    assert found.reason == "Preempted"


def test_workloads_that_cannot_be_read_give_no_reason() -> None:
    assert list(KUEUE.reasons(RUN, FakeCluster(forbidden=frozenset({"Workload"})))) == []


def test_the_default_scheduler_renders_nothing_and_questions_a_queue() -> None:
    default = DefaultScheduler()
    ctx = context({"scheduler": {"kind": "default", "queue": "rl"}})
    assert list(default.patches(ctx)) == []
    (message,) = problems(default, ctx, "warning")
    assert "scheduler.queue" in message
    assert origins(default, ctx) == ["infra:scheduler.queue"]
    assert list(default.problems(context())) == []
