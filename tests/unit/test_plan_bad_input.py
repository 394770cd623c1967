"""Infra files of any shape: every problem is a line, nothing is a traceback, and no input takes long."""

from __future__ import annotations

import copy
import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_case import CPU, SHORT, WRITTEN, Case

from kubectl_nrl.errors import ConfigError, NrlError
from kubectl_nrl.plan import Options

BASES = [yaml.safe_load(SHORT), yaml.safe_load(WRITTEN)]
RUBBISH = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 10**12), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=12),
    st.lists(st.integers(), max_size=2), st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
)  # fmt: skip
TOP = [
    "profile",
    "image",
    "launch",
    "scheduler",
    "placement",
    "networking",
    "workspace",
    "hf_cache",
    "checkpoints",
    "resources",
    "submit",
    "kuberay",
    "deployments",
    "dra",
    "policies",
    "secrets",
    "labels",
    "annotations",
    "namespace",
    "imagePullSecrets",
    "rayVersion",
    "serviceAccount",
    "defaults",
    "_x",
    "zzz",
]


def places(value, at=()):
    """Every path of a value."""
    yield at
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*at, key))


def put(value, at, new):
    """The value with something else at a path."""
    if not at:
        return new
    value = copy.deepcopy(value)
    inner = value
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = new
    return value


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    return Case(tmp_path_factory.mktemp("bad"))


def attempt(case, infra, recipe=CPU, **kwargs):
    try:
        case.plan(json.dumps(infra), recipe, **kwargs)
    except ConfigError as error:
        assert error.problems and all("\n" not in str(p) for p in error.problems), error.problems
    except NrlError as error:
        assert str(error)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_rubbish_at_any_place_of_an_infra_file_is_a_line_and_no_traceback(case, data):
    base = data.draw(st.sampled_from(BASES))
    at = data.draw(st.sampled_from(list(places(base))[1:]))
    attempt(
        case,
        put(base, at, data.draw(RUBBISH)),
        options=data.draw(st.sampled_from([Options(), Options(mode="raycluster")])),
    )


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_rubbish_under_any_top_level_key_is_a_line_and_no_traceback(case, data):
    infra = {**data.draw(st.sampled_from(BASES)), data.draw(st.sampled_from(TOP)): data.draw(RUBBISH)}
    attempt(case, infra)


@settings(max_examples=60, deadline=None)
@given(key=st.sampled_from(["num_nodes", "gpus_per_node", "segment_size"]), value=RUBBISH)
def test_rubbish_in_the_recipes_cluster_is_a_line_and_no_traceback(case, key, value):
    attempt(case, BASES[0], json.dumps({"cluster": {"num_nodes": 1, "gpus_per_node": 0, key: value}}))


def test_a_wrong_name_is_reported_once(case):
    lines = case.problems(SHORT + "scheduler: {kind: kia, queue: q}\n")
    assert sum("kia" in line for line in lines) == 1, lines
