"""How layers of a manifest merge: each test names the rule it protects."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_nrl.manifests.merge import Layered, leaves, show_path


def merged(*layers, rank=None):
    result = Layered()
    for index, layer in enumerate(layers):
        result.merge(layer, index if rank is None else rank, f"layer{index}")
    return result


def env(*items):
    return {"spec": {"containers": [{"name": "ray", "env": list(items)}]}}


def test_maps_merge_and_the_stronger_scalar_wins():
    assert merged({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}}).value == {"a": {"x": 1, "y": 3}}


def test_containers_merge_by_name():
    got = merged(
        {"containers": [{"name": "ray", "image": "a"}]},
        {"containers": [{"name": "ray", "tty": True}, {"name": "side"}]},
    ).value
    assert got == {"containers": [{"name": "ray", "image": "a", "tty": True}, {"name": "side"}]}


def test_an_env_entry_is_replaced_whole_so_that_value_and_value_from_never_meet():
    ref = {"name": "T", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    got = merged(env({"name": "T", "value": "x"}), env(ref)).value
    assert got["spec"]["containers"][0]["env"] == [ref]


def test_a_volume_never_gets_two_sources():
    got = merged({"volumes": [{"name": "w", "emptyDir": {}}]}, {"volumes": [{"name": "w", "hostPath": {"path": "/d"}}]})
    assert got.value == {"volumes": [{"name": "w", "hostPath": {"path": "/d"}}]}


def test_mounts_are_keyed_by_path_and_ports_by_number_and_protocol():
    got = merged(
        {"volumeMounts": [{"name": "a", "mountPath": "/m"}], "ports": [{"containerPort": 1}]},
        {
            "volumeMounts": [{"name": "b", "mountPath": "/m"}],
            "ports": [{"containerPort": 1, "protocol": "TCP", "name": "p"}],
        },
    ).value
    assert got["volumeMounts"] == [{"name": "b", "mountPath": "/m"}]
    assert got["ports"] == [{"containerPort": 1, "protocol": "TCP", "name": "p"}]


@pytest.mark.parametrize("key", ["tolerations", "imagePullSecrets", "envFrom", "add", "drop"])
def test_sets_take_each_element_once(key):
    assert merged({key: [{"name": "a"}]}, {key: [{"name": "a"}, {"name": "b"}]}).value == {
        key: [{"name": "a"}, {"name": "b"}]
    }


def test_a_probe_handler_is_replaced_whole_and_its_timing_merges():
    got = merged(
        {"livenessProbe": {"httpGet": {"port": 1}, "periodSeconds": 5}},
        {"livenessProbe": {"exec": {"command": ["x"]}, "timeoutSeconds": 2}},
    ).value
    assert got["livenessProbe"] == {"exec": {"command": ["x"]}, "periodSeconds": 5, "timeoutSeconds": 2}


def test_a_deployment_strategy_is_replaced_whole():
    got = merged(
        {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}, {"strategy": {"type": "Recreate"}}
    )
    assert got.value == {"strategy": {"type": "Recreate"}}


@pytest.mark.parametrize("nothing", [None, []])
def test_null_or_an_empty_list_removes_what_weaker_layers_gave(nothing):
    assert merged({"tolerations": [{"operator": "Exists"}], "k": 1}, {"tolerations": nothing}).value == {"k": 1}


def test_other_lists_are_replaced():
    assert merged({"args": ["a", "b"]}, {"args": ["c"]}).value == {"args": ["c"]}


def test_two_sources_of_one_rank_that_differ_are_a_conflict_naming_both():
    conflict = merged({"a": {"b": 1}}, {"a": {"b": 2}}, rank=3).conflicts[0]
    assert (show_path(conflict.path), conflict.first, conflict.second) == ("a.b", "layer0", "layer1")


def test_two_sources_of_one_rank_that_agree_are_no_conflict():
    assert merged({"a": {"b": 1}}, {"a": {"b": 1}}, rank=3).conflicts == []


def test_env_of_one_name_from_two_sources_of_one_rank_conflicts():
    assert merged(env({"name": "A", "value": "1"}), env({"name": "A", "value": "2"}), rank=1).conflicts


def test_the_source_of_each_field_is_the_layer_that_set_it_last():
    got = merged(env({"name": "A", "value": "1"}, {"name": "B", "value": "1"}), env({"name": "A", "value": "2"}))
    paths = {show_path(p): s.label for p, s in got.sources.items()}
    assert paths["spec.containers[ray].env[A]"] == "layer1"
    assert paths["spec.containers[ray].env[B]"] == "layer0"


def test_the_key_of_an_element_stays_the_first_writers():
    got = merged(env({"name": "A", "value": "1"}), env({"name": "B", "value": "2"}))
    assert got.source(("spec", "containers", "[ray]", "name")).label == "layer0"


def test_a_label_is_asked_with_the_path_as_written():
    seen = []
    Layered().merge(env({"name": "A", "value": "1"}), 0, lambda path: seen.append(path) or "x")
    assert ("spec", "containers", 0, "env", 0) in seen


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["env", "name", "containers", "tolerations", "x", "strategy"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)
objects = st.dictionaries(st.sampled_from(["env", "containers", "spec", "tolerations", "ports", "x"]), json, max_size=4)


@given(objects, objects)
def test_merging_never_changes_its_inputs_and_is_idempotent_for_the_stronger_layer(weak, strong):
    before = copy.deepcopy((weak, strong))
    once = merged(weak, strong)
    assert (weak, strong) == before
    value = copy.deepcopy(once.value)
    once.merge(strong, 9, "again")
    assert once.value == value


@given(objects, objects)
def test_every_field_of_the_result_has_a_source(weak, strong):
    got = merged(weak, strong)
    for path, _ in leaves(got.value):
        assert not path or got.source(path) is not None
