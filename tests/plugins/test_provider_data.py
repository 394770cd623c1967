"""What holds for every built-in provider: plain data, no answer that depends on the asking, no crash on a wrong file."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest
from context import FakeCluster, context, ray_group, ray_pod, ray_spec
from nrl_plugins.profiles_builtin import nrl_profiles

from kubectl_nrl.api import Check, Patch, Problem, Provider, Reason, Resource
from kubectl_nrl.manager import BUILTINS

HOOKS = ("profiles", "schedulers", "dra_drivers", "submitters", "code_sources", "sections", "policies")


def builtin_providers() -> list[Provider]:
    found: list[Provider] = []
    for module in sorted(BUILTINS.values()):
        loaded = importlib.import_module(module)
        for hook in HOOKS:
            found += getattr(loaded, f"nrl_{hook}", lambda: ())()
    return found


PROVIDERS = builtin_providers()
every = pytest.mark.parametrize("provider", PROVIDERS, ids=lambda p: f"{type(p).__name__}-{p.name}")

GB300 = next(profile.data for profile in nrl_profiles() if profile.name == "gb300")
CLAIMS = [{"name": "compute-domain-channel"}, {"name": "roce-channel"}]
FULL: dict[str, Any] = {
    "scheduler": {"queue": "rl", "topology": "t", "requiredPlacement": "rack", "priority": "train"},
    "placement": {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}], "affinity": {"podAffinity": {}}},
    "networking": {
        "hostNetwork": True,
        "gloo_socket_ifname": "eth0",
        "nccl_socket_ifname": "eth0",
        "nccl_ib_disable": True,
        "nccl_net": "IB",
        "extra_env": {"A": 1},
    },
    "workspace": {"kind": "pvc", "pvcName": "w", "codeSubPath": "x"},
    "hf_cache": {"kind": "pvc", "pvcName": "h"},
    "checkpoints": {"kind": "pvc", "pvcName": "c"},
    "resources": {
        "training": {"head": {"cpu": 1, "gpu": 1}, "worker": {"cpu": 2.5, "memory": "1Gi", "gpu": 4}},
        "gym": {"head": {"cpu": 1}},
    },
    "secrets": ["s"],
    "launch": {"codePath": "/code", "codeSource": "lustre", "deadlineSeconds": 60},
    "kuberay": {
        "training": {
            "spec": ray_spec(ray_group(template=ray_pod(resourceClaims=CLAIMS)), head=ray_pod(0)),
            "segmentSize": 2,
        },
        "generation": {"workers": 2, "segmentSize": 2},
        "gym": {},
    },
    "deployments": {"judge": {"spec": {"template": {"spec": {"schedulerName": "kai-scheduler", "containers": []}}}}},
}
SHORT: dict[str, Any] = {"scheduler": {"queue": "rl"}, "launch": {"codePath": "/code"}, "profile": "gb300"}
RECIPE = {
    "policy": {"megatron_cfg": {"enabled": True}, "dtensor_cfg": {"enabled": True}},
    "logger": {"log_dir": "x"},
    "checkpointing": {"checkpoint_must_save_by": "1"},
}
CONTEXTS = {
    "full": context(FULL, RECIPE, kind="RayCluster", profile=GB300),
    "short": context(SHORT, RECIPE, profile=GB300),
    "bare": context(),
    "local": context(SHORT, RECIPE, kind="local", profile=GB300),
}
everywhere = pytest.mark.parametrize("ctx", CONTEXTS.values(), ids=CONTEXTS)


def plain(value: Any) -> bool:
    """Whether it is what JSON holds, with text keys, and nothing that only looks alike (tuples, sets, subclasses)."""
    if type(value) is dict:
        return all(type(key) is str and plain(item) for key, item in value.items())
    if type(value) is list:
        return all(plain(item) for item in value)
    return value is None or type(value) in (str, int, float, bool)


@every
@everywhere
def test_patches_are_plain_json(provider: Provider, ctx: Any) -> None:
    for patch in provider.patches(ctx):
        assert isinstance(patch, Patch)
        assert plain(patch.merge), patch
        assert patch.path, f"{patch.target} does not say which key caused it"
        assert set(patch.merge) <= {"metadata", "spec", "container", "group"}


@every
@everywhere
def test_resources_are_plain_json(provider: Provider, ctx: Any) -> None:
    for resource in provider.resources(ctx):
        assert isinstance(resource, Resource)
        assert plain(resource.manifest)
        assert resource.wave < 10
        assert {"apiVersion", "kind", "metadata", "spec"} <= set(resource.manifest)


@every
@everywhere
def test_asking_twice_gives_one_answer(provider: Provider, ctx: Any) -> None:
    before = json.dumps([ctx.config.infra, ctx.config.recipe])
    for method in ("patches", "resources", "problems"):
        assert list(getattr(provider, method)(ctx)) == list(getattr(provider, method)(ctx))
    assert json.dumps([ctx.config.infra, ctx.config.recipe]) == before


@every
@everywhere
def test_problems_are_one_line_each(provider: Provider, ctx: Any) -> None:
    for problem in provider.problems(ctx):
        assert isinstance(problem, Problem)
        assert "\n" not in problem.message + problem.hint
        assert problem.message[:1] not in ("", " ")
        assert not problem.message.endswith(".")


@every
@everywhere
def test_checks_and_reasons_of_an_empty_cluster_tell_what_to_do(provider: Provider, ctx: Any) -> None:
    for check in provider.checks(ctx, FakeCluster()):
        assert isinstance(check, Check)
        assert check.ok is not False or check.fix, check
    run = {"metadata": {"name": "r", "namespace": "rl", "uid": "u"}}
    assert all(isinstance(reason, Reason) for reason in provider.reasons(run, FakeCluster()))


@every
def test_a_provider_has_a_name_a_summary_and_a_schema_that_is_one(provider: Provider) -> None:
    assert provider.name
    assert provider.summary
    assert "\n" not in provider.summary
    schema = provider.schema()
    assert schema is None or schema.get("type") in ("object", "array")


def test_names_are_unique_within_a_kind() -> None:
    kinds = [(type(provider).__mro__[-3].__name__, provider.name) for provider in PROVIDERS]
    assert len(kinds) == len(set(kinds))


WRONG = [None, 7, "text", [], ["a"], {"x": None}, [[1]], {"kind": [], "pvcName": {}}]
TOP = ("scheduler", "placement", "networking", "workspace", "hf_cache", "checkpoints", "resources", "secrets", "launch",
       "labels", "deployments", "dra", "policies")  # fmt: skip


@every
@pytest.mark.parametrize("key", TOP)
def test_a_wrong_file_never_crashes_a_provider(provider: Provider, key: str) -> None:
    """All problems are reported at once, so providers see files that the schema has already found wrong."""
    for value in WRONG:
        ctx = context({**FULL, key: value}, RECIPE, kind="RayCluster", profile=GB300)
        list(provider.patches(ctx))
        list(provider.resources(ctx))
        list(provider.problems(ctx))
        provider.active(ctx) if hasattr(provider, "active") else None


@every
@pytest.mark.parametrize(
    "template", [None, 7, {"spec": None}, {"spec": {"containers": {}}}, {"spec": {"resourceClaims": "x"}}]
)
def test_a_wrong_template_never_crashes_a_provider(provider: Provider, template: Any) -> None:
    spec = {"headGroupSpec": {"template": template}, "workerGroupSpecs": [{"groupName": "a", "template": template}]}
    ctx = context({**FULL, "kuberay": {"training": {"spec": spec}}}, RECIPE, kind="RayCluster", profile=GB300)
    list(provider.patches(ctx))
    list(provider.problems(ctx))
