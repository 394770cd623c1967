"""The KAI provider: queue, gang, lifetime, Deployments."""

from __future__ import annotations

import pytest
from context import context, origins, problems, ray_group, ray_pod, ray_spec, render, with_training
from nrl_plugins.scheduler_kai import QUEUE, KaiScheduler

from kubectl_nrl.facts import ClusterFacts

KAI = KaiScheduler()
QUEUED = {"scheduler": {"kind": "kai", "queue": "rl"}}
STALENESS = "kai.scheduler/staleness-grace-period"


def labelled(value: str) -> dict[str, object]:
    return {"metadata": {"labels": {QUEUE: value}}, **ray_pod()}


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
