"""Objects as they would be sent: nothing is added any more, so everything must be there and fit."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubectl_nrl.schema import check_object


def job(**spec: Any) -> dict[str, Any]:
    container = {"name": "ray", "image": "x", "env": [{"name": "A", "value": "1"}]}
    template = {"spec": {"containers": [container]}}
    cluster = {
        "rayVersion": "2.52.0",
        "headGroupSpec": {"rayStartParams": {"num-gpus": "0"}, "template": copy.deepcopy(template)},
        "workerGroupSpecs": [
            {
                "groupName": "w",
                "replicas": 2,
                "minReplicas": 2,
                "maxReplicas": 2,
                "rayStartParams": {},
                "template": template,
            }
        ],
    }
    rules = [
        {"policy": policy, "condition": {"jobStatus": state, "ttlSeconds": seconds}}
        for state in ("SUCCEEDED", "FAILED")
        for policy, seconds in (("DeleteWorkers", 0), ("DeleteCluster", 3600), ("DeleteSelf", 604800))
    ]
    written = {
        "entrypoint": "true",
        "submissionMode": "HTTPMode",
        "jobId": "20260101-000000-abcd",
        "deletionStrategy": {"deletionRules": rules},
        "rayClusterSpec": cluster,
    }
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "demo"}, "spec": {**written, **spec}}


def claim(version: str, request: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "nics"},
        "spec": {"spec": {"devices": {"requests": [{"name": "nic", **request}]}}},
    }


NICS = {"deviceClassName": "roce.networking.k8s.aws", "allocationMode": "ExactCount", "count": 8}
GOOD = {
    "RayJob": job(),
    "RayCluster": {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "c"},
                   "spec": job()["spec"]["rayClusterSpec"]},
    "Deployment": {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "judge", "labels": {"a": "b"}},
                   "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
                            "spec": {"containers": [{"name": "c", "image": "x"}]}}}},
    "Service": {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "judge"},
                "spec": {"type": "ClusterIP", "selector": {"a": "b"}, "ports": [{"port": 80, "targetPort": "http"}]}},
    "ConfigMap": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}},
    "v1": claim("v1", {"exactly": NICS}),
    "v1beta2": claim("v1beta2", {"exactly": NICS}),
    "v1beta1": claim("v1beta1", NICS),
    "ComputeDomain": {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain", "metadata": {"name": "d"},
                      "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "d"}}}},
}  # fmt: skip


def messages(manifest: Any) -> list[str]:
    return [problem.message for problem in check_object(manifest)]


@pytest.mark.parametrize("name", GOOD)
def test_good_object(name: str) -> None:
    assert messages(GOOD[name]) == []


@pytest.mark.parametrize("name", GOOD)
def test_unknown_field_of_an_object_and_of_its_metadata(name: str) -> None:
    wrong = copy.deepcopy(GOOD[name])
    wrong["metdata"] = {}
    wrong["metadata"]["lables"] = {}
    title = f"{wrong['kind']} {wrong['metadata']['name']}"
    assert messages(wrong) == [
        f"{title}: metadata.lables: unknown key; did you mean labels?",
        f"{title}: metdata: unknown key; did you mean metadata?",
    ]


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"entrypont": "x"}, "spec.entrypont: unknown key; did you mean entrypoint?"),
        ({"submissionMode": "HttpMode"},
         'spec.submissionMode is "HttpMode", must be K8sJobMode, HTTPMode, InteractiveMode or SidecarMode; did you mean HTTPMode?'),
        ({"ttlSecondsAfterFinished": 60},
         "spec.ttlSecondsAfterFinished may be above 0 only with shutdownAfterJobFinishes, and never below"),
        ({"shutdownAfterJobFinishes": True}, "spec.deletionStrategy.deletionRules and shutdownAfterJobFinishes exclude each other"),
        ({"suspend": True}, "spec.suspend needs shutdownAfterJobFinishes"),
        ({"activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds must be above 0"),
        ({"preRunningDeadlineSeconds": 0}, "spec.preRunningDeadlineSeconds is 0, must be at least 1"),
        ({"backoffLimit": -1}, "spec.backoffLimit must not be below 0"),
        ({"backoffLimit": 1, "submissionMode": "InteractiveMode"}, "spec.backoffLimit must be 0 in InteractiveMode"),
        ({"rayClusterSpec": None}, "spec.rayClusterSpec is required"),
        ({"submissionMode": "SidecarMode", "submitterConfig": {"backoffLimit": 0}},
         "spec.submitterConfig is refused by KubeRay in SidecarMode"),
        ({"managedBy": "me"}, "spec.managedBy must be ray.io/kuberay-operator or kueue.x-k8s.io/multikueue"),
        ({"runtimeEnvYAML": "a: [b"}, "spec.runtimeEnvYAML is no YAML"),
        ({"deletionStrategy": {"deletionRules": []}}, "spec.deletionStrategy.deletionRules has 0 items, at least 1 are needed"),
        ({"deletionStrategy": {"deletionRules": [{"policy": "DeleteWorkers", "condition": {}}]}},
         "spec.deletionStrategy.deletionRules[0].condition must have one of jobStatus and jobDeploymentStatus"),
        ({"deletionStrategy": {"deletionRules": [{"policy": "DeleteCluster", "condition": {"jobStatus": "STOPPED"}}]}},
         'spec.deletionStrategy.deletionRules[0].condition.jobStatus is "STOPPED", must be SUCCEEDED or FAILED'),
        ({"deletionStrategy": {"deletionRules": [{"policy": p, "condition": {"jobStatus": "FAILED", "ttlSeconds": t}}
                                                 for p, t in (("DeleteWorkers", 9), ("DeleteCluster", 1))]}},
         "spec.deletionStrategy.deletionRules for FAILED must not delete the cluster before its workers, or the RayJob before its "
         "cluster"),
        ({"deletionStrategy": {"deletionRules": [{"policy": "DeleteSelf", "condition": {"jobStatus": "FAILED"}}] * 2}},
         "spec.deletionStrategy.deletionRules[1].policy is DeleteSelf for FAILED a second time"),
    ],
)  # fmt: skip
def test_fault_of_a_rayjob(spec: dict[str, Any], sentence: str) -> None:
    assert f"RayJob demo: {sentence}" in messages(job(**spec))


def test_classic_lifetime_is_accepted() -> None:
    assert messages(job(deletionStrategy=None, shutdownAfterJobFinishes=True, ttlSecondsAfterFinished=0)) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"upgradeStrategy": {"type": "Recreate"}}, "upgradeStrategy is refused by KubeRay for the cluster of a RayJob"),
        ({"authOptions": {"enableK8sTokenAuth": True}}, "authOptions.enableK8sTokenAuth is refused by KubeRay for a RayJob"),
        ({"authOptions": {"mode": "token"}, "rayVersion": "2.51.0"},
         "authOptions.mode is token, which needs rayVersion 2.52.0 or later"),
        ({"authOptions": {"mode": "token"}, "rayVersion": None},
         "authOptions.mode is token, which needs rayVersion 2.52.0 or later"),
    ],
)  # fmt: skip
def test_fault_of_its_cluster(change: dict[str, Any], sentence: str) -> None:
    manifest = job()
    manifest["spec"]["rayClusterSpec"].update(change)
    assert messages(manifest) == [f"RayJob demo: spec.rayClusterSpec.{sentence}"]


def test_what_a_person_may_leave_out_must_be_there_now() -> None:
    manifest = job()
    pod = manifest["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["template"]["spec"]
    pod["resourceClaims"] = [{"name": "channel"}]
    pod["containers"][0].update(image="", env=[{"name": "A", "value": 1}], resources={"claims": [{"name": "nic"}]})
    where = "RayJob demo: spec.rayClusterSpec.workerGroupSpecs[0].template.spec"
    assert messages(manifest) == [
        f"{where}.containers[0].env[0].value is a whole number, must be text: put it in quotes",
        f"{where}.resourceClaims[0] must have one of resourceClaimName and resourceClaimTemplateName",
        f'{where}.containers[0].resources.claims[0].name is "nic", and the pod has no claim of that name',
        f"{where}.containers[0].image is required",
    ]


def test_claim_of_another_version_is_refused() -> None:
    assert messages(claim("v1", NICS))[0].endswith(
        "requests[0].deviceClassName: unknown key; did you mean spec.spec.devices.requests[0].exactly.deviceClassName?"
    )
    assert "exactly: unknown key" in messages(claim("v1beta1", {"exactly": NICS}))[0]
    assert messages(claim("v2", NICS)) == [
        'ResourceClaimTemplate nics: apiVersion is "resource.k8s.io/v2", which is not known of ResourceClaimTemplate'
    ]


def test_other_kinds_need_only_a_kind_and_a_name() -> None:
    assert messages({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}, "anything": 1}) == []
    assert messages({"kind": "Thing"}) == [
        "Thing without a name: apiVersion is required",
        "Thing without a name: metadata.name is required",
    ]
    assert messages("rubbish") == ["an object must be a mapping, not str"]


@given(st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=4), st.sampled_from(["ray.io/v1", "RayJob", "v1", "Service"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(
        st.sampled_from(["apiVersion", "kind", "metadata", "name", "labels", "spec", "data", "rayClusterSpec"]), inner, max_size=5)),
))  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_no_object_raises(manifest: Any) -> None:
    messages(manifest)
