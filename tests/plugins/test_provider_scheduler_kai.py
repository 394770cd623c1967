"""The KAI provider: queue, gang, placement, Deployments, and its look at a live cluster."""

from __future__ import annotations

import pytest
from context import FakeCluster, context, origins, problems, ray_group, ray_pod, ray_spec, render, thing, with_training
from nrl_plugins.scheduler_kai import QUEUE, REQUIRED, KaiScheduler

from kubectl_nrl.errors import ClusterError
from kubectl_nrl.facts import ClusterFacts

KAI = KaiScheduler()
QUEUED = {"scheduler": {"kind": "kai", "queue": "rl"}}
TOPOLOGY = "kai.scheduler/topology"
PREFERRED = "kai.scheduler/topology-preferred-placement"
STALENESS = "kai.scheduler/staleness-grace-period"
GB300 = {"topology": {"label": "nvidia.com/gpu.clique", "rackSize": 18, "name": "gb300-topology"}}
CLIQUE = "nvidia.com/gpu.clique"


def labelled(value: str) -> dict[str, object]:
    return {"metadata": {"labels": {QUEUE: value}}, **ray_pod()}


# The queue


def test_every_ray_pod_names_the_scheduler() -> None:
    found = render(KAI, context(QUEUED))
    assert found.head_pod()["schedulerName"] == "kai-scheduler"
    assert found.pod()["schedulerName"] == "kai-scheduler"


def test_the_queue_label_is_on_the_workload_and_every_template() -> None:
    found = render(KAI, context(QUEUED))
    for meta in (found.workload()["metadata"], found.template("head"), found.template("worker")):
        assert meta["labels"][QUEUE] == "rl"


def test_every_role_is_queued() -> None:
    found = render(KAI, context({**QUEUED, "kuberay": {"training": {}, "generation": {}, "gym": {}}}))
    for role in ("training", "generation", "gym"):
        assert found.workload(role)["metadata"]["labels"] == {QUEUE: "rl"}
        assert found.template("head", role)["labels"] == {QUEUE: "rl"}


def test_a_queue_that_reads_as_a_number_is_text_in_the_label() -> None:
    found = render(KAI, context({"scheduler": {"kind": "kai", "queue": 7}}))
    assert found.workload()["metadata"]["labels"][QUEUE] == "7"


def test_patches_name_the_key_that_caused_them() -> None:
    assert {p.path for p in KAI.patches(context(QUEUED))} == {"scheduler.kind", "scheduler.queue"}


@pytest.mark.parametrize(
    ("infra", "where"),
    [
        ({"labels": {QUEUE: "other"}}, f"infra:labels.{QUEUE}"),
        ({"kuberay": {"training": {"labels": {QUEUE: "other"}}}}, f"infra:kuberay.training.labels.{QUEUE}"),
        (
            with_training(ray_spec(ray_group(template=labelled("other")))),
            f"infra:kuberay.training.spec.workerGroupSpecs.0.template.metadata.labels.{QUEUE}",
        ),
        (
            with_training(ray_spec(ray_group(), head=labelled("other"))),
            f"infra:kuberay.training.spec.headGroupSpec.template.metadata.labels.{QUEUE}",
        ),
    ],
)
def test_another_queue_label_anywhere_is_an_error_naming_both(infra: dict, where: str) -> None:
    ctx = context({**infra, **QUEUED})
    (message,) = problems(KAI, ctx)
    assert '"other"' in message
    assert '"rl"' in message
    assert origins(KAI, ctx) == [where]


def test_the_error_says_where_each_of_the_two_stands() -> None:
    (message,) = problems(KAI, context({**QUEUED, "labels": {QUEUE: "other"}}))
    assert message == 'label kai.scheduler/queue is "other", but scheduler.queue is "rl"'
    infra = with_training(ray_spec(ray_group(template=labelled("b"))), training={"labels": {QUEUE: "a"}})
    (message,) = problems(KAI, context(infra))
    assert message == 'label kai.scheduler/queue is "b", but kuberay.training.labels[kai.scheduler/queue] is "a"'


def test_the_same_queue_label_is_fine() -> None:
    assert problems(KAI, context({**QUEUED, "labels": {QUEUE: "rl"}})) == []


def test_a_spec_without_scheduler_key_takes_the_queue_from_its_label() -> None:
    infra = with_training(ray_spec(ray_group()), training={"labels": {QUEUE: "spec-queue"}})
    found = render(KAI, context(infra))
    assert found.workload()["metadata"]["labels"][QUEUE] == "spec-queue"
    assert found.template("gpu")["labels"][QUEUE] == "spec-queue"
    assert found.template("head")["labels"][QUEUE] == "spec-queue"


def test_the_label_of_one_template_alone_is_enough_and_reaches_the_owner() -> None:
    found = render(KAI, context(with_training(ray_spec(ray_group(template=labelled("pods"))))))
    assert found.workload()["metadata"]["labels"][QUEUE] == "pods"


def test_two_labels_that_differ_are_an_error_naming_both() -> None:
    infra = with_training(ray_spec(ray_group(template=labelled("b"))), training={"labels": {QUEUE: "a"}})
    (message,) = problems(KAI, context(infra))
    assert '"a"' in message
    assert '"b"' in message


def test_roles_of_a_hand_written_file_may_be_in_different_queues() -> None:
    spec = ray_spec(ray_group())
    infra = {
        "kuberay": {
            "training": {"spec": spec, "labels": {QUEUE: "a"}},
            "generation": {"spec": spec, "labels": {QUEUE: "b"}},
        }
    }
    ctx = context(infra)
    found = render(KAI, ctx)
    assert found.workload("training")["metadata"]["labels"][QUEUE] == "a"
    assert found.workload("generation")["metadata"]["labels"][QUEUE] == "b"
    assert problems(KAI, ctx) == []


def test_no_queue_at_all_is_a_warning_that_says_where_pods_go() -> None:
    ctx = context(with_training(ray_spec(ray_group(template=ray_pod(schedulerName="kai-scheduler")))))
    (message,) = problems(KAI, ctx, "warning")
    assert "default-queue" in message
    assert problems(KAI, ctx) == []
    assert "labels" not in render(KAI, ctx).workload().get("metadata", {})


def test_it_answers_for_specs_that_name_kai() -> None:
    assert KAI.scheduler_names == ("kai-scheduler",)


# Traits and lifetime


def test_k8s_job_mode_is_no_mode_of_it() -> None:
    assert set(KAI.traits.submission_modes) == {"HTTPMode", "SidecarMode", "InteractiveMode"}


def test_it_is_a_gang_scheduler_that_splits_segments() -> None:
    assert KAI.traits.gang
    assert KAI.traits.segments == "split"
    assert KAI.traits.lifetime == "rules"


@pytest.mark.parametrize(
    ("version", "keeps"), [((0, 13), False), ((0, 16), False), ((0, 17), True), ((1, 0), True), (None, False)]
)
def test_a_head_is_kept_from_0_17_on_by_switching_the_eviction_off(version: tuple | None, keeps: bool) -> None:
    facts = ClusterFacts(kai_version=version)
    assert KAI.traits.keeps_head(facts) is keeps
    found = render(KAI, context(QUEUED, facts=facts))
    annotations = found.workload()["metadata"].get("annotations", {})
    assert annotations == ({STALENESS: "-1s"} if keeps else {})


def test_the_grace_is_on_the_pods_too() -> None:
    found = render(KAI, context(QUEUED))
    assert found.template("head")["annotations"] == {STALENESS: "-1s"}
    assert found.template("worker")["annotations"] == {STALENESS: "-1s"}


def test_a_long_lived_gang_keeps_kais_own_eviction() -> None:
    found = render(KAI, context(QUEUED, kind="RayCluster"))
    assert "annotations" not in found.workload()["metadata"]
    assert "annotations" not in found.template("worker")


def test_priority_is_a_label_of_the_workload() -> None:
    found = render(KAI, context({"scheduler": {"kind": "kai", "queue": "rl", "priority": "build"}}))
    assert found.workload()["metadata"]["labels"] == {QUEUE: "rl", "priorityClassName": "build"}


def test_rays_autoscaler_is_refused() -> None:
    spec = {**ray_spec(ray_group()), "enableInTreeAutoscaling": True}
    ctx = context(with_training(spec, **QUEUED))
    assert len(problems(KAI, ctx)) == 1
    assert origins(KAI, ctx) == ["infra:kuberay.training.spec.enableInTreeAutoscaling"]


def test_an_autoscaler_that_is_off_is_fine() -> None:
    spec = {**ray_spec(ray_group()), "enableInTreeAutoscaling": False}
    assert problems(KAI, context(with_training(spec, **QUEUED))) == []


def test_a_suspended_group_is_refused() -> None:
    ctx = context(with_training(ray_spec(ray_group(suspend=True)), **QUEUED))
    (message,) = problems(KAI, ctx)
    assert '"gpu"' in message
    assert origins(KAI, ctx) == ["infra:kuberay.training.spec.workerGroupSpecs.0.suspend"]


# Placement


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


# Deployments


def deployment(**spec: object) -> dict:
    template = {
        "metadata": spec.pop("metadata", {}),
        "spec": {"schedulerName": "kai-scheduler", "containers": [], **spec},
    }
    return {"spec": {"template": template}}


def test_a_deployment_stays_off_kai_unless_it_names_it() -> None:
    infra = {**QUEUED, "deployments": {"judge": {"spec": {"template": {"spec": {"containers": []}}}}}}
    assert render(KAI, context(infra)).drafts.deployments["judge"].value == {}


def test_a_deployment_that_names_kai_is_queued_and_preemptible() -> None:
    found = render(KAI, context({**QUEUED, "deployments": {"judge": deployment()}})).drafts.deployments["judge"].value
    labels = {QUEUE: "rl", "priorityClassName": "train"}
    assert found["metadata"]["labels"] == labels
    assert found["spec"]["template"]["metadata"]["labels"] == labels


@pytest.mark.parametrize(
    "says",
    [
        {"metadata": {"labels": {"priorityClassName": "inference"}}},
        {"metadata": {"labels": {"kai.scheduler/preemptibility": "non-preemptible"}}},
        {"priorityClassName": "high"},
    ],
)
def test_a_deployment_that_says_its_priority_keeps_it(says: dict) -> None:
    found = (
        render(KAI, context({**QUEUED, "deployments": {"judge": deployment(**says)}})).drafts.deployments["judge"].value
    )
    assert found["metadata"]["labels"] == {QUEUE: "rl"}


def test_a_deployment_with_a_label_on_the_object_keeps_its_priority() -> None:
    written = {**deployment(), "labels": {"priorityClassName": "build"}}
    found = render(KAI, context({**QUEUED, "deployments": {"judge": written}})).drafts.deployments["judge"].value
    assert "priorityClassName" not in found["metadata"]["labels"]


def test_a_deployment_in_a_hand_written_file_takes_trainings_queue() -> None:
    infra = with_training(ray_spec(ray_group()), training={"labels": {QUEUE: "q"}}, deployments={"judge": deployment()})
    found = render(KAI, context(infra)).drafts.deployments["judge"].value
    assert found["metadata"]["labels"][QUEUE] == "q"


def test_a_deployments_own_queue_is_kept() -> None:
    own = deployment(metadata={"labels": {QUEUE: "cpu-queue"}})
    found = render(KAI, context({**QUEUED, "deployments": {"judge": own}})).drafts.deployments["judge"].value
    assert found["metadata"]["labels"][QUEUE] == "cpu-queue"


# The live cluster

LIMITS = {"gpu": {"limit": 8}, "cpu": {"limit": -1}, "memory": {"limit": -1}}


def queue(name: str, parent: str | None = None, **resources: dict) -> dict:
    spec = {"resources": {**LIMITS, **resources}, **({"parentQueue": parent} if parent else {})}
    return thing("Queue", name, spec=spec)


def checks(*objects: dict, **cluster: object) -> list:
    return list(KAI.checks(context(QUEUED), FakeCluster(list(objects), **cluster)))


def test_a_leaf_queue_with_its_parents_is_right() -> None:
    (check,) = checks(queue("root"), queue("rl", "root"))
    assert check.ok is True


def test_a_missing_queue_names_the_leaves() -> None:
    (check,) = checks(queue("root"), queue("team-c", "root"), queue("team-b", "root"))
    assert check.ok is False
    assert "leaf queues here: team-b, team-c" in check.detail
    assert "root" not in check.detail


def test_a_parent_queue_cannot_be_used() -> None:
    (check,) = checks(queue("rl"), queue("child", "rl"))
    assert check.ok is False
    assert "parent queue" in check.detail
    assert "child" in check.detail


def test_an_orphan_is_dropped_by_kai() -> None:
    (check,) = checks(queue("rl", "gone"))
    assert check.ok is False
    assert '"gone" does not exist' in check.detail


def test_a_grandparent_that_is_gone_counts() -> None:
    (check,) = checks(queue("rl", "dept"), queue("dept", "gone"))
    assert check.ok is False


def test_queues_in_a_circle_end() -> None:
    (check,) = checks(queue("rl", "a"), queue("a", "b"), queue("b", "a"))
    assert check.ok is False


@pytest.mark.parametrize("limit", [{}, {"limit": 0}, {"quota": 4}])
def test_a_queue_with_no_limit_set_runs_nothing(limit: dict) -> None:
    (check,) = checks(queue("rl", gpu=limit))
    assert check.ok is False
    assert "gpu limit of 0" in check.detail


def test_a_gpu_limit_of_zero_does_not_matter_to_cpu_pods() -> None:
    ctx = context({**QUEUED, "kuberay": {"training": {"gpus": 0}}})
    (check,) = KAI.checks(ctx, FakeCluster([queue("rl", gpu={"limit": 0})]))
    assert check.ok is True


def test_a_parents_limit_counts() -> None:
    (check,) = checks(queue("root", cpu={"limit": 0}), queue("rl", "root"))
    assert check.ok is False
    assert 'queue "root"' in check.detail


def test_forbidden_queues_are_a_note() -> None:
    (check,) = checks(forbidden=frozenset({"Queue"}))
    assert check.ok is None


def test_when_only_listing_is_forbidden_the_queue_is_asked_for() -> None:
    (check,) = checks(queue("rl"), no_lists=frozenset({"Queue"}))
    assert check.ok is True
    (check,) = checks(queue("other"), no_lists=frozenset({"Queue"}))
    assert check.ok is False


def test_no_kai_at_all() -> None:
    (check,) = checks(absent=frozenset({"Queue"}))
    assert check.ok is False
    assert "no KAI" in check.detail


def test_another_failure_of_the_cluster_is_not_swallowed() -> None:
    with pytest.raises(ClusterError):
        checks(broken=frozenset({"Queue"}))


def topology_check(*objects: dict, **cluster: object):
    found = KAI.checks(context(QUEUED, profile=GB300), FakeCluster([queue("rl"), *objects], **cluster))
    return list(found)[1]


def test_the_topology_must_exist_with_the_level() -> None:
    levels = [{"nodeLabel": CLIQUE}, {"nodeLabel": "kubernetes.io/hostname"}]
    assert topology_check(thing("Topology", "gb300-topology", spec={"levels": levels})).ok is True
    assert topology_check(thing("Topology", "gb300-topology", spec={"levels": levels[1:]})).ok is False
    assert topology_check().ok is False
    assert topology_check(forbidden=frozenset({"Topology"})).ok is None
    assert topology_check(absent=frozenset({"Topology"})).ok is False


def test_a_topology_that_no_group_uses_is_not_looked_for() -> None:
    ctx = context({**QUEUED, "kuberay": {"training": {"gpus": 0}}}, profile=GB300)
    assert [check.title for check in KAI.checks(ctx, FakeCluster([queue("rl")]))] == ['KAI queue "rl"']


def test_a_priority_class_that_kai_would_ignore_fails_and_blocks_nothing() -> None:
    ctx = context({"scheduler": {"kind": "kai", "queue": "rl", "priority": "trian"}})

    def found(*objects: dict, **cluster: object) -> tuple:
        check = list(KAI.checks(ctx, FakeCluster([queue("rl"), *objects], **cluster)))[-1]
        return check.ok, check.blocks

    assert found() == (False, False)
    assert found(thing("PriorityClass", "trian")) == (True, True)
    assert found(forbidden=frozenset({"PriorityClass"})) == (None, True)
