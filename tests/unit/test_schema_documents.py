"""Hardware profiles and patches: data of people and of plugins, checked as strictly as infra files."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kubectl_nrl import schema
from kubectl_nrl.api import Patch, Target
from kubectl_nrl.schema import builtin_fragments, check_patch, check_profile

PROFILES = sorted((Path(__file__).parents[2] / "plugins" / "profiles").glob("*.yaml"))


def profile_messages(data: Any, **options: Any) -> list[str]:
    return [problem.message for problem in check_profile(data, lambda path: None, **options)]


def patch_messages(target: Target, merge: Any) -> list[str]:
    return [problem.message for problem in check_patch(asdict(Patch(target, merge)))]


def test_there_are_built_in_profiles() -> None:
    assert {path.stem for path in PROFILES} >= {"generic", "gb300"}


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_built_in_profile(path: Path) -> None:
    assert profile_messages(yaml.safe_load(path.read_text())) == []


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({}, "name is required"),
        ([], "the file is a list, must be a mapping"),
        ({"name": "My GPU"}, "name must be lower-case letters, digits and `-`"),
        ({"gpus": {"pernode": 4}}, "gpus.pernode: unknown key; did you mean perNode?"),
        ({"gpus": {"perNode": "4"}}, "gpus.perNode is text, must be a whole number"),
        ({"rackSize": 18}, "rackSize: unknown key; did you mean topology.rackSize?"),
        ({"nics": {"count": 8}}, "nics.deviceClass is required"),
        ({"nics": {"deviceClass": "x", "count": 33}}, "nics.count is 33, must be at most 32"),
        ({"head": {"resources": {"cpu": "16 cores"}}}, "head.resources.cpu is no Kubernetes quantity such as 500m, 16 or 64Gi"),
        ({"tolerations": [{"kye": "x"}]}, "tolerations[0].kye: unknown key; did you mean key?"),
        ({"workerSecurityContext": {"capabilites": {}}}, "workerSecurityContext.capabilites: unknown key; did you mean capabilities?"),
        ({"env": {"A": []}}, "env.A is a list, must be text, a number or true or false"),
        ({"defaults": {"launch": {"envs": {}}}}, "defaults.launch.envs: unknown key; did you mean env?"),
        ({"defaults": {"scheduler": {"kind": "kia"}}},
         'defaults.scheduler.kind is "kia", must be default, kai or kueue; did you mean kai?'),
        ({"patches": [{"target": {}, "merge": {}}]}, "patches[0].target must have one of pods and kind"),
        ({"patches": [{"target": {"pods": "all", "kind": "RayJob"}, "merge": {}}]},
         "patches[0].target must have one of pods and kind"),
        ({"patches": [{"target": {"pods": "worker"}, "merge": {}}]},
         'patches[0].target.pods is "worker", must be all, head or workers; did you mean workers?'),
        ({"patches": [{"target": {"pods": "all"}, "merge": {"spec": {"dnsPolcy": "x"}}}]},
         "patches[0].merge.spec.dnsPolcy: unknown key; did you mean dnsPolicy?"),
        ({"patches": [{"target": {"pods": "all"}}]}, "patches[0].merge is required"),
        ({"patches": [{"target": {"kind": "RayCluster"}, "merge": {"spec": {"rayversion": "1"}}}]},
         "patches[0].merge.spec.rayversion: unknown key; did you mean rayVersion?"),
    ],
)  # fmt: skip
def test_fault_of_a_profile(data: Any, sentence: str) -> None:
    assert sentence in profile_messages(data)


def test_profile_defaults_require_nothing() -> None:
    """A profile may set the kind and leave the queue to the user."""
    assert profile_messages({"name": "x", "defaults": {"scheduler": {"kind": "kai"}}}) == []


def test_profile_defaults_know_what_plugins_add() -> None:
    fragments = {
        **builtin_fragments(),
        "acme": {"type": "object", "properties": {"a": {}}, "additionalProperties": False},
    }
    data = {"name": "x", "defaults": {"acme": {"b": 1}}}
    assert profile_messages(data, fragments=fragments) == ["defaults.acme.b: unknown key; known here: a"]


GOOD = [
    (
        Target.pods(),
        {"spec": {"volumes": [{"name": "w", "emptyDir": {}}]}, "container": {"ray": {"env": [{"name": "A"}]}}},
    ),
    (Target.pods("training", "workers", "gpu"), {"metadata": {"annotations": {"a": "b"}}, "group": {"replicas": 2}}),
    (
        Target.pods(which="head"),
        {"group": {"rayStartParams": {"num-gpus": "0"}, "headService": {"metadata": {"name": "x"}}}},
    ),
    (Target.pods("deployments.judge"), {"spec": {"schedulerName": None}}),
    (Target.object("Workload", "training"), {"metadata": {"labels": {"a": "b"}}}),
    (Target.object("Workload"), {"spec": {"suspend": True, "backoffLimit": 0}}),
    (Target.object("RayCluster"), {"spec": {"rayVersion": "2.52.0"}}),
    (Target.object("ComputeDomain"), {"spec": {"anything": 1}}),
]


@pytest.mark.parametrize(("target", "merge"), GOOD, ids=lambda value: str(value)[:40])
def test_good_patch(target: Target, merge: dict[str, Any]) -> None:
    assert patch_messages(target, merge) == []


@pytest.mark.parametrize(
    ("target", "merge", "sentence"),
    [
        (Target.pods(), {"specs": {}}, "merge.specs: unknown key; did you mean spec?"),
        (
            Target.pods(),
            {"container": {"name": "x"}},
            "merge.container.name: unknown key; did you mean merge.container.ray.name?",
        ),
        (
            Target.pods(),
            {"container": {"ray": {"env": {"A": "b"}}}},
            "merge.container.ray.env is a mapping, must be a list",
        ),
        (Target.pods(which="workers"), {"group": {"headService": {}}}, "merge.group.headService: unknown key"),
        (Target.pods(which="all"), {"group": {"replicas": 1}}, "merge.group.replicas: unknown key"),
        (Target.pods(which="workers"), {"group": {"groupName": "x"}}, "merge.group.groupName: unknown key"),
        (Target.object("RayCluster"), {"spec": {"entrypoint": "x"}}, "merge.spec.entrypoint: unknown key"),
        (Target.object("Workload"), {"spec": {"zzz": 1}}, "merge.spec.zzz: unknown key"),
        (Target.object(""), {}, "target.kind is required when scope is object"),
        (Target.pods(), "rubbish", "merge is text, must be a mapping"),
        (Target("nodes"), {}, 'target.scope is "nodes", must be object or pods'),  # type: ignore[arg-type]
    ],
)
def test_fault_of_a_patch(target: Target, merge: Any, sentence: str) -> None:
    assert patch_messages(target, merge)[0].startswith(sentence)


def test_patch_of_no_shape_at_all() -> None:
    assert check_patch({"trget": {}})[0].message == "trget: unknown key; did you mean target?"


@given(st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=4), st.sampled_from(["all", "pods", "object", "RayJob"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(
        st.sampled_from(["name", "target", "merge", "patches", "defaults", "pods", "kind", "scope", "which", "spec", "group"]),
        inner, max_size=5)),
))  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_no_document_raises(data: Any) -> None:
    profile_messages(data)
    if isinstance(data, dict):
        check_patch(data)


def test_every_public_name_of_the_room_can_be_had() -> None:
    assert all(getattr(schema, name) is not None for name in schema.__all__)
    with pytest.raises(AttributeError, match="has no attribute"):
        schema.nope
