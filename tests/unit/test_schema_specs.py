"""Specs as people write them: unknown fields at any depth, and what Kubernetes and KubeRay would refuse later."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubectl_nrl.errors import Origin
from kubectl_nrl.schema import check_user_spec


def pod(**ray: Any) -> dict[str, Any]:
    container = {"name": "ray", "image": "registry.example/nemo-rl:v1", **ray}
    return {"metadata": {"labels": {"team": "rl"}}, "spec": {"containers": [container]}}


def cluster() -> dict[str, Any]:
    """A RayCluster spec as the format's users write one by hand, for GB300."""
    worker = pod(
        env=[{"name": "NCCL_MNNVL_ENABLE", "value": 1}, {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
        resources={"limits": {"nvidia.com/gpu": 4, "cpu": "140"}, "requests": {"nvidia.com/gpu": 4, "cpu": "100"},
                   "claims": [{"name": "compute-domain-channel"}]},
        securityContext={"capabilities": {"add": ["IPC_LOCK"]}},
        volumeMounts=[{"name": "data", "mountPath": "/data"}, {"name": "nrl-workspace", "mountPath": "/mnt/nemo-rl"}],
    )  # fmt: skip
    worker["spec"].update(
        schedulerName="kai-scheduler",
        nodeSelector={"nvidia.com/gpu.product": "NVIDIA-GB300"},
        tolerations=[{"operator": "Exists"}],
        resourceClaims=[{"name": "compute-domain-channel"}],
        volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    )
    return {
        "rayVersion": "2.52.0",
        "headGroupSpec": {
            "rayStartParams": {"num-gpus": "0", "dashboard-host": "0.0.0.0"},
            "template": pod(
                ports=[{"containerPort": 8265, "name": "dashboard"}, {"containerPort": 6379, "name": "gcs-server"}]
            ),
        },
        "workerGroupSpecs": [
            {
                "groupName": "gpu",
                "replicas": 16,
                "minReplicas": 16,
                "maxReplicas": 16,
                "rayStartParams": {},
                "template": worker,
            }
        ],
    }


def messages(kind: Any, value: Any, **options: Any) -> list[str]:
    return [problem.message for problem in check_user_spec(kind, value, lambda path: None, "spec", **options)]


def test_hand_written_cluster_is_accepted() -> None:
    assert messages("RayCluster", cluster()) == []


def put(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """A change: the value at a path such as `workerGroupSpecs.0.template`."""

    def change(spec: dict[str, Any]) -> None:
        place: Any = spec
        *steps, last = path.split(".")
        for step in steps:
            place = place[int(step)] if isinstance(place, list) else place.setdefault(step, {})
        if isinstance(place, list):
            place[int(last)] = value
        else:
            place[last] = value

    return change


HEAD = "headGroupSpec.template.spec"
RAY = f"{HEAD}.containers.0"
WORKER = "workerGroupSpecs.0"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (put("workerGroupSpec", []), "spec.workerGroupSpec: unknown key; did you mean workerGroupSpecs?"),
        (put("headGroupSpec.templat", {}), "spec.headGroupSpec.templat: unknown key; did you mean template?"),
        (put(f"{WORKER}.groupname", "x"), "spec.workerGroupSpecs[0].groupname: unknown key; did you mean groupName?"),
        (put(f"{HEAD}.hostnetwork", True), f"spec.{HEAD}.hostnetwork: unknown key; did you mean hostNetwork?"),
        (put("headGroupSpec.template.nodeSelector", {}),
         f"spec.headGroupSpec.template.nodeSelector: unknown key; did you mean spec.{HEAD}.nodeSelector?"),
        (put(f"{HEAD}.imagePullPolicy", "Always"),
         f"spec.{HEAD}.imagePullPolicy: unknown key; did you mean spec.{HEAD}.containers[].imagePullPolicy?"),
        (put(f"{RAY}.envs", []), f"spec.{HEAD}.containers[0].envs: unknown key; did you mean env?"),
        (put(f"{RAY}.resources", {"limit": {}}), f"spec.{HEAD}.containers[0].resources.limit: unknown key; did you mean limits?"),
        (put(f"{RAY}.securityContext", {"capabilities": {"ad": ["X"]}}),
         f"spec.{HEAD}.containers[0].securityContext.capabilities.ad: unknown key; did you mean add?"),
        (put(f"{RAY}.imagePullPolicy", "always"),
         f'spec.{HEAD}.containers[0].imagePullPolicy is "always", must be Always, IfNotPresent or Never; did you mean Always?'),
        (put("headGroupSpec.rayStartParams.num-gpus", 0),
         "spec.headGroupSpec.rayStartParams.num-gpus is a whole number, must be text: put it in quotes"),
        (put(f"{WORKER}.replicas", "16"), "spec.workerGroupSpecs[0].replicas is text, must be a whole number"),
        (put(f"{RAY}.resources", {"limits": {"memory": "900GB"}}),
         f"spec.{HEAD}.containers[0].resources.limits.memory is no Kubernetes quantity such as 500m, 16 or 64Gi; did you mean 900G?"),
        (put(f"{HEAD}.containers", []), f"spec.{HEAD}.containers needs at least one container"),
        (put(f"{HEAD}.containers", None), f"spec.{HEAD}.containers is required"),
        (put("headGroupSpec.template", None), "spec.headGroupSpec.template is required"),
        (put(f"{RAY}.ports", [{"containerPort": 6379}]),
         f"spec.{HEAD}.containers[0].ports must name one `dashboard` (8265): KubeRay submits through it"),
        (put(f"{RAY}.ports", [{"containerPort": 99999, "name": "dashboard"}]),
         f"spec.{HEAD}.containers[0].ports[0].containerPort is 99999, must be between 1 and 65535"),
        (put(f"{RAY}.ports", [{"containerPort": 1, "name": "dashboard"}, {"containerPort": 2, "name": "dashboard"}]),
         f'spec.{HEAD}.containers[0].ports[1].name is "dashboard", the name of another port'),
        (put(f"{WORKER}.minReplicas", 17), "spec.workerGroupSpecs[0].minReplicas is 17, more than maxReplicas 16"),
        (put(f"{WORKER}.replicas", 15), "spec.workerGroupSpecs[0].replicas is 15, less than minReplicas 16"),
        (put(f"{WORKER}.replicas", 17), "spec.workerGroupSpecs[0].replicas is 17, more than maxReplicas 16"),
        (put(f"{WORKER}.numOfHosts", 0), "spec.workerGroupSpecs[0].numOfHosts is 0, must be at least 1"),
        (put(f"{WORKER}.groupName", None), "spec.workerGroupSpecs[0].groupName is required"),
        (put(f"{WORKER}.groupName", "GPU_1"),
         'spec.workerGroupSpecs[0].groupName is "GPU_1", must be lower-case letters, digits and `-`, at most 63'),
        (put(f"{WORKER}.rayStartParams", {"labels": "a=b"}),
         "spec.workerGroupSpecs[0].rayStartParams.labels is refused by KubeRay: write the group's `labels`"),
        (put("headGroupSpec.resources", {"CPU": "1"}),
         "spec.headGroupSpec.rayStartParams.num-gpus is refused by KubeRay beside the group's `resources`"),
        (put(f"{RAY}.env", [{"name": "RAY_IP", "value": "x"}]),
         f'spec.{HEAD}.containers[0].env[0].name is "RAY_IP", which KubeRay sets itself: leave it out'),
        (put(f"{RAY}.env", [{"name": "KUBERAY_GEN_X", "value": "x"}]),
         f'spec.{HEAD}.containers[0].env[0].name is "KUBERAY_GEN_X", which KubeRay sets itself: leave it out'),
        (put(f"{RAY}.env", [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]),
         f"spec.{HEAD}.containers[0].env[0] has both value and valueFrom"),
        (put(f"{RAY}.env", [{"name": "A", "valueFrom": {}}]),
         f"spec.{HEAD}.containers[0].env[0].valueFrom must have one source, and has none"),
        (put(f"{RAY}.env", [{"name": "A=B"}]),
         f'spec.{HEAD}.containers[0].env[0].name is "A=B", no name of an environment variable'),
        (put(f"{RAY}.env", [{"value": "x"}]), f"spec.{HEAD}.containers[0].env[0].name is required"),
        (put(f"{RAY}.volumeMounts", [{"name": "nope", "mountPath": "/x"}]),
         f'spec.{HEAD}.containers[0].volumeMounts[0].name is "nope", and the pod has no volume of that name'),
        (put(f"{WORKER}.template.spec.containers.0.volumeMounts.1.mountPath", "/data"),
         'spec.workerGroupSpecs[0].template.spec.containers[0].volumeMounts[1].mountPath is "/data", where another volume is '
         "mounted"),
        (put(f"{HEAD}.volumes", [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}]),
         f"spec.{HEAD}.volumes[0] must have one source, and has emptyDir and hostPath"),
        (put(f"{HEAD}.volumes", [{"name": "v"}]), f"spec.{HEAD}.volumes[0] must have one source, and has none"),
        (put(f"{HEAD}.volumes", [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]),
         f'spec.{HEAD}.volumes[1].name is "v", the name of another volume of the pod'),
        (put(f"{HEAD}.initContainers", [{"name": "ray", "image": "x"}]),
         f'spec.{HEAD}.containers[0].name is "ray", the name of another container of the pod'),
        (put(f"{HEAD}.tolerations", [{"key": "a", "operator": "Exists", "value": "b"}]),
         f"spec.{HEAD}.tolerations[0].value must be left out when operator is Exists"),
        (put(f"{HEAD}.tolerations", [{"value": "b"}]), f"spec.{HEAD}.tolerations[0] has no key: then operator must be Exists"),
        (put(f"{RAY}.resources", {"requests": {"cpu": "2"}, "limits": {"cpu": "1500m"}}),
         f'spec.{HEAD}.containers[0].resources.requests.cpu is "2", more than its limit "1500m"'),
        (put(f"{RAY}.resources", {"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": "2"}}),
         f'spec.{HEAD}.containers[0].resources.requests["nvidia.com/gpu"] is 1, must equal its limit "2"'),
        (put(f"{RAY}.livenessProbe", {"exec": {"command": ["x"]}, "tcpSocket": {"port": 1}}),
         f"spec.{HEAD}.containers[0].livenessProbe must have one handler, and has exec and tcpSocket"),
        (put("headGroupSpec.template.metadata.labels", {"team": "a b"}),
         'spec.headGroupSpec.template.metadata.labels.team is "a b", no label value: letters, digits, `-`, `_` and `.`, at most 63, '
         "with a letter or digit at both ends"),
        (put("workerGroupSpecs", {}), "spec.workerGroupSpecs is a mapping, must be a list"),
    ],
)  # fmt: skip
def test_fault_is_named(change: Callable[[dict[str, Any]], None], sentence: str) -> None:
    spec = cluster()
    change(spec)
    assert sentence in messages("RayCluster", spec)


def test_each_fault_is_one_line() -> None:
    """The changes above, one at a time, make one problem each where they break one thing."""
    spec = cluster()
    put("workerGroupSpec", [])(spec)
    put(f"{RAY}.env", [{"name": "RAY_IP", "value": "x"}])(spec)
    put(f"{WORKER}.minReplicas", 17)(spec)
    assert len(messages("RayCluster", spec)) == 3


def test_two_groups_of_one_name() -> None:
    spec = cluster()
    spec["workerGroupSpecs"].append(copy.deepcopy(spec["workerGroupSpecs"][0]))
    assert messages("RayCluster", spec) == [
        'spec.workerGroupSpecs[1].groupName is "gpu", the name of another group: KubeRay would mix their pods'
    ]


def test_numbers_as_env_values_become_text_and_are_fine() -> None:
    for value in (1, 0.5, True):
        assert messages("PodTemplate", pod(env=[{"name": "A", "value": value}])) == []
    assert messages("PodTemplate", pod(env=[{"name": "A", "value": ["x"]}])) == [
        "spec.spec.containers[0].env[0].value is a list, must be text"
    ]


def test_volumes_that_are_added_later_may_be_mounted() -> None:
    template = pod(volumeMounts=[{"name": "site-cache", "mountPath": "/x"}])
    assert len(messages("PodTemplate", template)) == 1
    assert messages("PodTemplate", template, volumes=("site-cache",)) == []


def test_null_and_empty_list_remove_and_are_fine() -> None:
    spec = cluster()
    put(f"{HEAD}.tolerations", None)(spec)
    put(f"{WORKER}.template.spec.tolerations", [])(spec)
    put(f"{WORKER}.template.spec.nodeSelector", None)(spec)
    assert messages("RayCluster", spec) == []


def test_place_is_asked_within_the_spec() -> None:
    spec = cluster()
    put(f"{RAY}.imge", "x")(spec)
    (found,) = check_user_spec(
        "RayCluster", spec, lambda path: Origin("i.yaml", 30 + len(path)), "kuberay.training.spec"
    )
    assert str(found) == (
        f"i.yaml:36: error: kuberay.training.spec.{HEAD}.containers[0].imge: unknown key; did you mean image?"
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"selecter": {}}, "spec.selecter: unknown key; did you mean selector?"),
        ({"replicas": "1"}, "spec.replicas is text, must be a whole number"),
        ({"selector": {"matchLabels": {"app": "other"}}}, "spec.selector.matchLabels.app is not among the labels of the template"),
        ({"strategy": {"type": "Rolling"}},
         'spec.strategy.type is "Rolling", must be Recreate or RollingUpdate; did you mean RollingUpdate?'),
    ],
)  # fmt: skip
def test_deployment(change: dict[str, Any], sentence: str) -> None:
    template = pod(env=[{"name": "RAY_IP", "value": "not a Ray pod"}])
    good = {"replicas": 1, "selector": {"matchLabels": {"team": "rl"}}, "template": template}
    assert messages("Deployment", good) == []
    assert sentence in messages("Deployment", {**good, **change})


TREES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=6)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(
        st.sampled_from(["headGroupSpec", "template", "spec", "containers", "env", "name", "value", "valueFrom", "volumes", "ports",
                         "resources", "limits", "requests", "cpu", "workerGroupSpecs", "groupName", "replicas", "minReplicas",
                         "rayStartParams", "labels", "metadata", "tolerations", "deletionStrategy", "deletionRules", "condition",
                         "volumeMounts", "claims", "resourceClaims", "rayClusterSpec", "backoffLimit", "livenessProbe", "selector",
                         "matchLabels", "suspend", "runtimeEnvYAML", "submissionMode", "ttlSecondsAfterFinished"]),
        inner, max_size=5)),
    max_leaves=20,
)  # fmt: skip


@given(st.sampled_from(["RayCluster", "RayJob", "Deployment", "PodTemplate"]), TREES, st.data())
@settings(max_examples=120, deadline=None)
def test_no_spec_raises(kind: str, tree: Any, data: st.DataObject) -> None:
    """Arbitrary trees, and the good spec with one arbitrary tree in a place of its own."""
    messages(kind, tree)
    spec = cluster()
    place = data.draw(
        st.sampled_from(
            ["headGroupSpec", HEAD, RAY, f"{RAY}.ports", f"{WORKER}", f"{WORKER}.template.spec.containers.0.env"]
        )
    )
    put(place, tree)(spec)
    messages("RayCluster", spec)
