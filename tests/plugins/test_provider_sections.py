"""The sections: each key of the infra file that is written shows up in the pods, and none that is not."""

from __future__ import annotations

import re

import pytest
from context import (
    context,
    of,
    origins,
    problems,
    ray_group,
    ray_pod,
    ray_spec,
    render,
    with_training,
)
from nrl_plugins.section_checkpoints import Checkpoints
from nrl_plugins.section_hf_cache import HfCache
from nrl_plugins.section_networking import Networking
from nrl_plugins.section_placement import Placement
from nrl_plugins.section_resources import Resources
from nrl_plugins.section_secrets import Secrets
from nrl_plugins.section_workspace import Workspace

SECTIONS = [Placement(), Networking(), Workspace(), HfCache(), Checkpoints(), Resources()]


@pytest.mark.parametrize("section", SECTIONS, ids=lambda s: s.name)
def test_a_section_is_active_when_its_key_is_written(section) -> None:
    assert not section.active(context())
    assert section.active(context({section.name: {}}))


@pytest.mark.parametrize("section", SECTIONS, ids=lambda s: s.name)
def test_an_empty_section_renders_nothing(section) -> None:
    assert list(section.patches(context({section.name: {}}))) == []


# placement


def test_node_selector_and_affinity_are_the_workers() -> None:
    affinity = {"nodeAffinity": {"x": 1}}
    found = render(Placement(), context({"placement": {"nodeSelector": {"pool": "rl"}, "affinity": affinity}}))
    assert found.pod() == {"nodeSelector": {"pool": "rl"}, "affinity": affinity}
    assert found.head() == {}


def test_tolerations_are_everybodys() -> None:
    tolerations = [{"key": "a", "operator": "Exists"}]
    found = render(Placement(), context({"placement": {"tolerations": tolerations}}))
    assert found.pod() == found.head_pod() == {"tolerations": tolerations}


# networking


def test_host_network_comes_with_the_dns_policy_it_needs() -> None:
    found = render(Networking(), context({"networking": {"hostNetwork": True}}))
    assert found.pod() == found.head_pod() == {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}


def test_a_written_false_undoes_a_profiles_true() -> None:
    found = render(Networking(), context({"networking": {"hostNetwork": False}}))
    assert found.pod() == {"hostNetwork": False, "dnsPolicy": "ClusterFirst"}


@pytest.mark.parametrize(
    ("key", "value", "variable", "text"),
    [
        ("gloo_socket_ifname", "eth0", "GLOO_SOCKET_IFNAME", "eth0"),
        ("nccl_socket_ifname", "^lo", "NCCL_SOCKET_IFNAME", "^lo"),
        ("nccl_ib_disable", True, "NCCL_IB_DISABLE", "1"),
        ("nccl_ib_disable", False, "NCCL_IB_DISABLE", "0"),
        ("nccl_net", "OFI", "NCCL_NET", "OFI"),
    ],
)
def test_a_network_key_is_a_variable_of_every_ray_container(key: str, value: object, variable: str, text: str) -> None:
    ctx = context({"networking": {key: value}})
    found = render(Networking(), ctx)
    assert found.env("worker") == found.env("head") == {variable: text}
    assert of(Networking().patches(ctx)) == [f"networking.{key}"]


@pytest.mark.parametrize(
    ("value", "text"), [("a b", "a b"), (1, "1"), (0.5, "0.5"), (True, "true"), (False, "false"), ("", "")]
)
def test_extra_variables_are_text(value: object, text: str) -> None:
    found = render(Networking(), context({"networking": {"extra_env": {"UCX_TLS": value}}}))
    assert found.env() == {"UCX_TLS": text}


def test_extra_variables_come_in_the_order_written_and_null_is_none() -> None:
    found = render(Networking(), context({"networking": {"extra_env": {"B": "1", "A": "2", "C": None}}}))
    assert list(found.env()) == ["B", "A"]


def test_environment_is_for_ray_pods_of_every_role() -> None:
    infra = {"networking": {"nccl_net": "IB"}, "kuberay": {"training": {}, "gym": {}}}
    found = render(Networking(), context(infra, kind="RayCluster"))
    assert found.env("head", "gym") == {"NCCL_NET": "IB"}


def test_a_hand_written_variable_wins() -> None:
    template = {"spec": {"containers": [{"name": "ray", "env": [{"name": "NCCL_NET", "value": "Socket"}]}]}}
    infra = with_training(
        ray_spec(ray_group(template=template)), networking={"nccl_net": "IB", "nccl_ib_disable": True}
    )
    found = render(Networking(), context(infra), user_specs=True)
    containers = {c["name"]: c for c in found.pod("gpu")["containers"]}
    assert {e["name"]: e["value"] for e in containers["ray"]["env"]} == {"NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1"}


# workspace, hf_cache, checkpoints


@pytest.mark.parametrize(
    ("section", "default"),
    [
        (Workspace(), "/mnt/nemo-rl"),
        (HfCache(), "/root/.cache/huggingface"),
        (Checkpoints(), "/mnt/nemo-rl/checkpoints"),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
@pytest.mark.parametrize("kind", ["lustre", "pvc"])
def test_a_claim_is_mounted_in_every_ray_pod(section, default: str, kind: str) -> None:
    volume = "nrl-pvc-data"
    found = render(section, context({section.name: {"kind": kind, "pvcName": "data"}}))
    for who in ("worker", "head"):
        assert found.ray(who)["volumeMounts"] == [{"name": volume, "mountPath": default}]
    for pod in (found.pod(), found.head_pod()):
        assert pod["volumes"] == [{"name": volume, "persistentVolumeClaim": {"claimName": "data"}}]


@pytest.mark.parametrize("section", [Workspace(), HfCache(), Checkpoints()], ids=lambda s: s.name)
def test_the_mount_path_is_the_one_written(section) -> None:
    infra = {section.name: {"kind": "pvc", "pvcName": "data", "mountPath": "/elsewhere"}}
    assert render(section, context(infra)).ray()["volumeMounts"][0]["mountPath"] == "/elsewhere"


@pytest.mark.parametrize("section", [Workspace(), HfCache(), Checkpoints()], ids=lambda s: s.name)
def test_a_kind_without_its_claim_renders_nothing(section) -> None:
    """The schema reports it; what must not happen is a volume of no claim, or a crash."""
    assert list(section.patches(context({section.name: {"kind": "pvc"}}))) == []


@pytest.mark.parametrize("kind", ["none", None])
@pytest.mark.parametrize("section", [HfCache(), Checkpoints()], ids=lambda s: s.name)
def test_none_mounts_nothing_though_a_claim_is_named(section, kind: str | None) -> None:
    assert list(section.patches(context({section.name: {"kind": kind, "pvcName": "data"}}))) == []


@pytest.mark.parametrize(
    ("infra", "mounted"),
    [
        ({"kind": "auto", "pvcName": "data"}, True),
        ({"kind": "auto"}, False),
        ({"kind": "rayUpload", "pvcName": "data"}, False),
        ({"pvcName": "data"}, False),
    ],
)
def test_auto_is_a_claim_when_one_is_named(infra: dict, mounted: bool) -> None:
    assert bool(list(Workspace().patches(context({"workspace": infra})))) is mounted


def test_a_host_path_must_exist_on_the_node() -> None:
    found = render(Workspace(), context({"workspace": {"kind": "hostPath", "hostPath": "/data", "mountPath": "/w"}}))
    assert found.pod()["volumes"] == [{"name": "nrl-workspace", "hostPath": {"path": "/data", "type": "Directory"}}]
    assert found.ray()["volumeMounts"] == [{"name": "nrl-workspace", "mountPath": "/w"}]


def test_the_cache_is_the_one_hugging_face_uses() -> None:
    infra = {"hf_cache": {"kind": "pvc", "pvcName": "hf", "mountPath": "/hf"}}
    assert render(HfCache(), context(infra)).env() == {"HF_HOME": "/hf"}


def test_a_cache_of_the_pods_own() -> None:
    found = render(HfCache(), context({"hf_cache": {"kind": "emptyDir"}}))
    assert found.pod()["volumes"] == [{"name": "nrl-hf-cache", "emptyDir": {}}]
    assert found.env() == {"HF_HOME": "/root/.cache/huggingface"}


def test_a_hand_written_volume_of_a_plain_name_is_not_taken_over() -> None:
    template = {
        "spec": {
            "containers": [{"name": "ray", "volumeMounts": [{"name": "workspace", "mountPath": "/own"}]}],
            "volumes": [{"name": "workspace", "emptyDir": {}}],
        }
    }
    infra = with_training(ray_spec(ray_group(template=template)), workspace={"kind": "pvc", "pvcName": "data"})
    pod = render(Workspace(), context(infra), user_specs=True).pod("gpu")
    assert {v["name"]: sorted(set(v) - {"name"}) for v in pod["volumes"]} == {
        "nrl-pvc-data": ["persistentVolumeClaim"],
        "workspace": ["emptyDir"],
    }


@pytest.mark.parametrize("section", [Workspace(), HfCache(), Checkpoints()], ids=lambda s: s.name)
def test_a_claim_that_a_hand_written_pod_has_is_mounted_from_that_volume(section) -> None:
    """Two volumes of one claim keep a pod in ContainerCreating."""
    claimed = {"volumes": [{"name": "mine", "persistentVolumeClaim": {"claimName": "data"}}]}
    spec = ray_spec(ray_group(template=ray_pod(**claimed)), ray_group("b"))
    found = render(section, context(with_training(spec, **{section.name: {"kind": "pvc", "pvcName": "data"}})))
    assert "volumes" not in found.pod("gpu")
    assert found.ray("gpu")["volumeMounts"][0]["name"] == "mine"
    assert found.ray("b")["volumeMounts"][0]["name"] == found.pod("b")["volumes"][0]["name"] == "nrl-pvc-data"


def test_one_claim_is_one_volume_for_all_sections() -> None:
    claim = {"kind": "pvc", "pvcName": "data"}
    ctx = context({"workspace": claim, "hf_cache": claim, "checkpoints": claim})
    volumes = [render(section, ctx).pod()["volumes"] for section in (Workspace(), HfCache(), Checkpoints())]
    assert volumes[0] == volumes[1] == volumes[2]


def test_claims_that_read_alike_are_two_volumes_with_names_that_kubernetes_takes() -> None:
    names = set()
    for claim in ("a-b", "a.b", "a--b", "c" * 63, "c" * 253, "9", "a-"):
        (volume,) = render(Workspace(), context({"workspace": {"kind": "pvc", "pvcName": claim}})).pod()["volumes"]
        names.add(volume["name"])
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", volume["name"]), volume
    assert len(names) == 7


@pytest.mark.parametrize(("length", "plain"), [(1, True), (55, True), (56, False)])
def test_a_volume_is_named_after_its_claim_as_long_as_that_fits(length: int, plain: bool) -> None:
    claim = "c" * length
    (volume,) = render(Workspace(), context({"workspace": {"kind": "pvc", "pvcName": claim}})).pod()["volumes"]
    assert (volume["name"] == f"nrl-pvc-{claim}") is plain


# resources


def test_memory_and_gpus_are_limited_to_what_is_requested_and_cpu_is_not_limited() -> None:
    infra = {"resources": {"training": {"worker": {"cpu": 140, "memory": "900Gi", "gpu": 4}}}}
    found = render(Resources(), context(infra))
    amounts = {"cpu": "140", "memory": "900Gi", "nvidia.com/gpu": 4}
    limits = {"memory": "900Gi", "nvidia.com/gpu": 4}
    assert found.ray()["resources"] == {"requests": amounts, "limits": limits}
    assert found.head() == {}


def test_a_head_of_ones_own() -> None:
    found = render(Resources(), context({"resources": {"training": {"head": {"cpu": "500m"}}}}))
    assert found.ray("head")["resources"] == {"requests": {"cpu": "500m"}}
    assert "rayStartParams" not in found.head()
    assert found.group() == {}


@pytest.mark.parametrize(("gpus", "limits"), [(0, None), (4, {"nvidia.com/gpu": 4})])
def test_gpus_of_a_head_are_rays_too_and_none_is_not_asked_for(gpus: int, limits: dict[str, int] | None) -> None:
    found = render(Resources(), context({"resources": {"training": {"head": {"gpu": gpus}}}}))
    assert found.head()["rayStartParams"] == {"num-gpus": str(gpus)}
    assert ((found.ray("head") if limits else {}).get("resources") or {}).get("limits") == limits


def test_the_gpu_resource_is_the_profiles() -> None:
    infra = {"resources": {"training": {"worker": {"gpu": 8}}}}
    found = render(Resources(), context(infra, profile={"gpus": {"resource": "amd.com/gpu"}}))
    assert found.ray()["resources"]["limits"] == {"amd.com/gpu": 8}


def test_roles_have_their_own() -> None:
    infra = {
        "kuberay": {"training": {}, "generation": {}},
        "resources": {"training": {"worker": {"cpu": 1}}, "generation": {"worker": {"cpu": 2}}},
    }
    found = render(Resources(), context(infra, kind="RayCluster"))
    assert found.ray("worker", "training")["resources"]["requests"] == {"cpu": "1"}
    assert found.ray("worker", "generation")["resources"]["requests"] == {"cpu": "2"}


def test_a_role_that_is_not_there_draws_a_warning() -> None:
    ctx = context({"resources": {"gym": {"head": {"cpu": 1}}}})
    assert len(problems(Resources(), ctx, "warning")) == 1
    assert origins(Resources(), ctx) == ["infra:resources.gym"]
    assert list(Resources().patches(ctx)) == []


def test_a_profiles_default_for_a_role_that_is_not_there_draws_none() -> None:
    ctx = context({"resources": {"gym": {"head": {"cpu": 1}}}}, unwritten=["resources.gym"])
    assert list(Resources().problems(ctx)) == []


def test_each_amount_names_its_key() -> None:
    ctx = context({"resources": {"training": {"head": {"cpu": 1}, "worker": {"memory": "1Gi"}}}})
    assert of(Resources().patches(ctx)) == ["resources.training.head.cpu", "resources.training.worker.memory"]


# secrets

SECRETS = Secrets()


def test_pods_made_from_a_profile_have_the_persons_own_secret_optionally() -> None:
    assert SECRETS.active(context())
    found = render(SECRETS, context())
    own = [{"secretRef": {"name": "jo-secrets", "optional": True}}]
    assert found.ray("head")["envFrom"] == found.ray("worker")["envFrom"] == own


def test_hand_written_pods_get_none_unasked() -> None:
    ctx = context(with_training(ray_spec(ray_group())))
    assert not SECRETS.active(ctx)
    assert list(SECRETS.patches(ctx)) == []


def test_of_two_roles_only_the_made_one_gets_the_default() -> None:
    ctx = context({"kuberay": {"training": {"spec": ray_spec(ray_group())}, "generation": {}}}, kind="RayCluster")
    found = render(SECRETS, ctx)
    assert SECRETS.active(ctx)
    assert found.head("training") == {}
    assert "envFrom" in found.ray("head", "generation")


def test_written_secrets_replace_the_default() -> None:
    ctx = context({"secrets": ["tokens", "wandb"]})
    expected = [{"secretRef": {"name": "tokens"}}, {"secretRef": {"name": "wandb"}}]
    assert render(SECRETS, ctx).ray()["envFrom"] == expected


def test_written_secrets_reach_hand_written_pods() -> None:
    ctx = context(with_training(ray_spec(ray_group()), secrets=["tokens"]))
    assert SECRETS.active(ctx)
    assert render(SECRETS, ctx).ray("gpu")["envFrom"] == [{"secretRef": {"name": "tokens"}}]


def test_an_empty_list_means_none_at_all() -> None:
    assert list(SECRETS.patches(context({"secrets": []}))) == []
