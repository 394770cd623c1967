"""Built-in providers together, in whole Plans: short and hand-written files under each scheduler."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from context import FakeCluster

from kubectl_nrl.api import RunInfo, User
from kubectl_nrl.config import load
from kubectl_nrl.errors import ClusterError, ConfigError
from kubectl_nrl.facts import ClusterFacts
from kubectl_nrl.manager import Manager
from kubectl_nrl.plan import asking, build
from kubectl_nrl.plan.model import Options, Plan
from kubectl_nrl.preflight.references import references

RUN = RunInfo("20260102-030405-ab12", datetime(2026, 1, 2, tzinfo=timezone.utc), User("jo", "jo"))
SHORT: dict[str, Any] = {
    "profile": "gb300",
    "image": "registry.example/nemo-rl:v1",
    "scheduler": {"kind": "kai", "queue": "rl"},
    "workspace": {"kind": "lustre", "pvcName": "rl-workspace", "mountPath": "/mnt/rl"},
    "launch": {"codeSource": "lustre", "codePath": "/opt/nemo-rl", "entrypoint": "python run.py --config r.yaml"},
}
CLAIMS = [{"name": "compute-domain-channel"}, {"name": "roce-channel"}]
HAND_WRITTEN: dict[str, Any] = {
    "image": "registry.example/nemo-rl:v1",
    "launch": {"codeSource": "image", "codePath": "/opt/nemo-rl", "entrypoint": "python run.py --config r.yaml"},
    "kuberay": {
        "training": {
            "name": "big",
            "labels": {"kai.scheduler/queue": "rl"},
            "segmentSize": 18,
            "spec": {
                "rayVersion": "2.52.0",
                "headGroupSpec": {
                    "rayStartParams": {"num-gpus": "0"},
                    "template": {"spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "ray-head"}]}},
                },
                "workerGroupSpecs": [
                    {
                        "groupName": "gpu",
                        "replicas": 36,
                        "rayStartParams": {},
                        "template": {
                            "spec": {
                                "schedulerName": "kai-scheduler",
                                "resourceClaims": CLAIMS,
                                "containers": [{"name": "ray", "resources": {"limits": {"nvidia.com/gpu": 4}}}],
                            }
                        },
                    }
                ],
            },
        }
    },
}


@pytest.fixture(scope="module")
def manager() -> Manager:
    return Manager.load(env={}, strict=True, path=[])


@pytest.fixture
def plan(tmp_path: Path, manager: Manager):
    def make(infra: dict[str, Any], *, nodes: int = 36, facts: ClusterFacts | None = None, **options: Any) -> Plan:
        recipe = {"cluster": {"num_nodes": nodes, "gpus_per_node": 4}}
        (tmp_path / "r.yaml").write_text(yaml.safe_dump(recipe))
        (tmp_path / "i.yaml").write_text(yaml.safe_dump(infra))
        config = load(str(tmp_path / "r.yaml"), str(tmp_path / "i.yaml"), [], env={"USER": "jo", "HOME": str(tmp_path)})
        return build(config, RUN, facts or ClusterFacts(), Options(**options), manager)

    return make


def cluster_of(plan: Plan) -> Any:
    spec = plan.workload().manifest["spec"]
    return spec.get("rayClusterSpec", spec)


def test_a_short_file_needs_nothing_else(plan) -> None:
    made = plan(SHORT)
    assert (made.scheduler, made.profile, made.dra) == ("kai", "gb300", ("computedomain", "roce"))
    assert [(o.kind, o.wave) for o in made.objects][:2] == [("ComputeDomain", 0), ("ResourceClaimTemplate", 0)]
    groups = cluster_of(made)["workerGroupSpecs"]
    assert [g["replicas"] for g in groups] == [18, 18]
    pod = groups[0]["template"]["spec"]
    assert [c["name"] for c in pod["resourceClaims"]] == ["compute-domain-channel", "roce-channel"]
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-GB300"}
    assert len(pod["volumes"]) == 1
    assert {m["mountPath"] for m in pod["containers"][0]["volumeMounts"]} == {"/mnt/rl", "/opt/nemo-rl"}
    assert pod["containers"][0]["envFrom"] == [{"secretRef": {"name": "jo-secrets", "optional": True}}]


def test_a_hand_written_file_chooses_kai_and_its_drivers(plan) -> None:
    made = plan(HAND_WRITTEN)
    assert (made.scheduler, made.dra) == ("kai", ("computedomain", "roce"))
    assert made.workload().manifest["metadata"]["labels"]["kai.scheduler/queue"] == "rl"
    for group in cluster_of(made)["workerGroupSpecs"]:
        assert group["template"]["spec"]["resourceClaims"] == [
            {"name": "compute-domain-channel", "resourceClaimTemplateName": "compute-domain-big-training-ab12"},
            {"name": "roce-channel", "resourceClaimTemplateName": "roce-big-training-ab12"},
        ]
    assert "envFrom" not in cluster_of(made)["headGroupSpec"]["template"]["spec"]["containers"][0]


def test_under_kueue_groups_stay_whole_and_everything_goes_at_the_end(plan) -> None:
    made = plan({**SHORT, "scheduler": {"kind": "kueue", "queue": "rl"}})
    (group,) = cluster_of(made)["workerGroupSpecs"]
    assert group["replicas"] == 36
    assert group["template"]["metadata"]["annotations"] == {
        "kueue.x-k8s.io/podset-slice-required-topology": "nvidia.com/gpu.clique",
        "kueue.x-k8s.io/podset-slice-size": "18",
    }
    assert "schedulerName" not in group["template"]["spec"]
    assert made.lifetime.form == "shutdown"
    assert made.workload().manifest["spec"]["shutdownAfterJobFinishes"] is True


def test_an_older_kai_gives_the_cluster_up_as_one(plan) -> None:
    old = plan(SHORT, facts=ClusterFacts(kai_version=(0, 14)))
    assert not old.lifetime.head_kept
    assert "kai.scheduler/staleness-grace-period" not in old.workload().manifest["metadata"]["annotations"]
    assert plan(SHORT).lifetime.head_kept


def test_no_driver_when_dra_is_empty(plan) -> None:
    made = plan({**SHORT, "dra": []})
    assert made.dra == ()
    assert {o.kind for o in made.objects} == {"RayJob"}


def test_what_the_user_wrote_beats_profile_and_sections(plan) -> None:
    infra = {**SHORT, "resources": {"training": {"worker": {"cpu": 100}}}}
    container = cluster_of(plan(infra))["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]
    assert container["resources"]["requests"] == {"nvidia.com/gpu": 4, "cpu": "100", "memory": "900Gi"}


def test_a_spec_beats_the_common_keys_of_pods(plan) -> None:
    training = HAND_WRITTEN["kuberay"]["training"]
    head = training["spec"]["headGroupSpec"]["template"]["spec"]
    own = {
        "metadata": {"labels": {"team": "spec"}},
        "spec": {**head, "serviceAccountName": "spec", "imagePullSecrets": [{"name": "a"}]},
    }
    spec = {**training["spec"], "headGroupSpec": {"template": own}}
    common = {"serviceAccount": "common", "labels": {"team": "common", "all": "x"}, "imagePullSecrets": ["b"]}
    made = cluster_of(plan({**HAND_WRITTEN, **common, "kuberay": {"training": {**training, "spec": spec}}}))
    head, worker = made["headGroupSpec"]["template"], made["workerGroupSpecs"][0]["template"]
    assert (head["spec"]["serviceAccountName"], worker["spec"]["serviceAccountName"]) == ("spec", "common")
    assert (head["metadata"]["labels"]["team"], worker["metadata"]["labels"]["team"]) == ("spec", "common")
    assert head["metadata"]["labels"]["all"] == "x"
    assert {secret["name"] for secret in head["spec"]["imagePullSecrets"]} == {"a", "b"}


def test_cpu_workers_of_any_cluster(plan, tmp_path: Path, manager: Manager) -> None:
    (tmp_path / "r.yaml").write_text("cluster: {num_nodes: 2, gpus_per_node: 0}\n")
    launch = {"codeSource": "image", "codePath": "/app", "entrypoint": "python run.py --config r.yaml"}
    infra = {"profile": "generic", "image": "i", "launch": launch}
    (tmp_path / "i.yaml").write_text(yaml.safe_dump(infra))
    config = load(str(tmp_path / "r.yaml"), str(tmp_path / "i.yaml"), [], env={"USER": "jo", "HOME": str(tmp_path)})
    made = build(config, RUN, ClusterFacts(), Options(), manager)
    assert (made.scheduler, made.dra) == ("default", ())
    assert "nvidia.com/gpu" not in yaml.safe_dump(made.workload().manifest["spec"])


@pytest.mark.parametrize(
    ("submitter", "source"), [("portForward", "upload"), ("portForward", "image"), ("exec", "image")]
)
def test_a_submitter_and_a_code_source_that_go_together_are_planned(plan, source: str, submitter: str) -> None:
    launch = {**SHORT["launch"], "codeSource": source}
    made = plan({**SHORT, "launch": launch, "submit": {"submitter": submitter}}, mode="raycluster")
    assert (made.launch.submitter, made.launch.code_source) == (submitter, source)


def test_the_providers_ask_for_all_that_the_plan_needs(tmp_path: Path, manager: Manager) -> None:
    spec = HAND_WRITTEN["kuberay"]["training"]["spec"]
    group = spec["workerGroupSpecs"][0]
    pod = {
        **group["template"]["spec"],
        "resourceClaims": [*CLAIMS, {"name": "own", "resourceClaimTemplateName": "mine"}],
    }
    training = {
        **HAND_WRITTEN["kuberay"]["training"],
        "spec": {**spec, "workerGroupSpecs": [{**group, "template": {"spec": pod}}]},
    }
    infra = {**HAND_WRITTEN, "secrets": ["tokens"], "kuberay": {"training": training}}
    (tmp_path / "r.yaml").write_text("cluster: {num_nodes: 36, gpus_per_node: 4}\n")
    (tmp_path / "i.yaml").write_text(yaml.safe_dump(infra))
    config = load(str(tmp_path / "r.yaml"), str(tmp_path / "i.yaml"), [], env={"USER": "jo", "HOME": str(tmp_path)})
    made = build(config, RUN, ClusterFacts(), Options(), manager)
    questions = asking(config, made, Options(), manager).questions
    found = {c.title: (who, c.ok) for who, ask in questions.items() for c in ask(FakeCluster())}
    assert found == {
        'KAI queue "rl"': ("scheduler kai", False),
        'DeviceClass "compute-domain-default-channel.nvidia.com"': ("dra computedomain", False),
        "ComputeDomain": ("dra computedomain", True),
        'DeviceClass "roce.networking.k8s.aws"': ("dra roce", False),
    }
    with pytest.raises(ClusterError):
        questions["scheduler kai"](FakeCluster(broken=frozenset({"Queue"})))
    # What pods refer to is read off what will be sent: what a driver's controller makes is not looked for.
    refs = [(ref.kind, ref.name) for ref in references(made)]
    assert refs == [("Secret", "tokens"), ("ResourceClaimTemplate", "mine")]


def problems_of(plan, infra: dict[str, Any], **changes: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        plan(infra, **changes)
    return [p.message for p in caught.value.problems if p.severity == "error"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"labels": {"kai.scheduler/queue": "other"}}, '"other"'),
        ({"submit": {"submissionMode": "K8sJobMode"}}, "K8sJobMode"),
        ({"launch": {"codeSource": "lustre", "entrypoint": "x"}}, "codePath"),
        ({"workspace": {"kind": "lustre"}}, "pvcName"),
        ({"workspace": {"kind": "rayUpload"}}, "workspace"),
        ({"scheduler": {"kind": "kai"}}, "queue"),
        ({"scheduler": {"kind": "kay", "queue": "x"}}, "kay"),
        ({"dra": ["rocee"]}, "rocee"),
        ({"profile": "gb30"}, "gb30"),
    ],
)
def test_what_cannot_run_is_refused(plan, change: dict, words: str) -> None:
    found = problems_of(plan, {**SHORT, **change})
    assert any(words in message for message in found), found
    assert len(found) == len(set(found))


def test_a_mistake_is_told_once(plan) -> None:
    assert len(problems_of(plan, {**SHORT, "workspace": {"kind": "lustre", "mountPath": "/mnt/rl"}})) <= 2
    assert len(problems_of(plan, {**SHORT, "labels": {"kai.scheduler/queue": "other"}})) == 1


def test_a_cluster_without_dra_is_told_for_each_driver(plan) -> None:
    found = problems_of(plan, SHORT, facts=ClusterFacts(source="cluster", dra_version=None))
    assert sum("resource.k8s.io" in message for message in found) == 2
