"""The checker: it refuses what jsonschema refuses, says so plainly, never raises, and ends in time."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubectl_nrl.schema import SchemaFault, builtin_fragments, infra_schema, published_schema, validate
from kubectl_nrl.schema.engine import MOST, faults


def texts(longest: int) -> st.SearchStrategy[str]:
    """Any text but one that ends in a newline: there jsonschema's `$`, which is Python's, is not that of JSON Schema."""
    return st.text(max_size=longest).filter(lambda text: not text.endswith("\n"))


SCALARS = st.one_of(
    st.booleans(), st.integers(), st.floats(allow_nan=True), texts(8), st.sampled_from(["kai", "lustre", "16", "64Gi"])
)  # fmt: skip
WORDS = st.sampled_from(
    ["scheduler", "kind", "queue", "launch", "env", "codeSource", "kuberay", "training", "spec", "labels", "policies", "nemorl",
     "dra", "tolerations", "placement", "workspace", "pvcName", "resources", "worker", "gpu", "_x", "", "a.b", "daemon"]
)  # fmt: skip


def values(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Trees whose keys are often words of the infra file."""
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4), st.dictionaries(st.one_of(WORDS, texts(5)), inner, max_size=5)
        ),
        max_leaves=12,
    )


def valid(schema: dict[str, Any], value: Any) -> bool:
    return not [fault for fault in faults(schema, value) if fault.severity == "error"]


@given(st.one_of(values(st.one_of(SCALARS, st.none())), st.dictionaries(st.integers(), SCALARS)))
@settings(max_examples=300, deadline=None)
def test_no_value_raises(value: Any) -> None:
    for problem in validate(infra_schema(builtin_fragments()), value, lambda path: None):
        assert problem.message
        assert problem.message.isprintable()
        assert len(problem.message) < 1000


PUBLISHED = published_schema(builtin_fragments())
JUDGE = jsonschema.Draft202012Validator(PUBLISHED)


@given(values(SCALARS))
@settings(max_examples=300, deadline=None)
def test_verdict_is_jsonschemas_for_infra(value: Any) -> None:
    """On the schema as published: the quantity format is the one thing that jsonschema leaves unchecked there."""
    ours = [f for f in faults(PUBLISHED, value) if f.severity == "error" and "quantity" not in f.message]
    assert bool(ours) == (not JUDGE.is_valid(value))


KEYWORDS = [
    {"type": "integer"},
    {"type": ["string", "boolean"]},
    {"enum": [1, True, "a", None, [1], {"a": 1}]},
    {"const": 1},
    {"const": False},
    {"minimum": 2},
    {"maximum": 2.5},
    {"exclusiveMinimum": 0, "exclusiveMaximum": 3},
    {"minLength": 1, "maxLength": 3},
    {"type": "string", "pattern": "^a+$"},
    {"minItems": 1, "maxItems": 2},
    {"uniqueItems": True},
    {"items": {"type": "integer"}},
    {"items": False},
    {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}},
    {"contains": {"const": 1}},
    {"required": ["a", "b"]},
    {"properties": {"a": {"type": "string"}}, "additionalProperties": False},
    {
        "properties": {"a": {"type": "string"}},
        "patternProperties": {"^a": {"minLength": 2}},
        "additionalProperties": False,
    },
    {"additionalProperties": {"type": "integer"}},
    {"propertyNames": {"pattern": "^[a-c]$"}},
    {"minProperties": 1},
    {"multipleOf": 2},
    {"not": {"type": "string"}},
    {"dependentRequired": {"a": ["b"]}},
    {"anyOf": [{"type": "string"}, {"minimum": 2, "type": "integer"}]},
    {"oneOf": [{"type": "integer"}, {"minimum": 2}]},
    {"allOf": [{"minimum": 2}, {"maximum": 4}]},
    {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}},
    {"$ref": "#/$defs/x", "$defs": {"x": {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}}}},
    {"properties": {"a": True}, "unevaluatedProperties": False},
    {"properties": {"a": False}},
]
SMALL = st.recursive(
    st.one_of(st.booleans(), st.integers(-3, 5), st.sampled_from([1.0, 2.5, 4.0]), st.sampled_from(["", "a", "aa", "b", "abcd"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abcd"), inner, max_size=3)),
    max_leaves=6,
)  # fmt: skip


@pytest.mark.parametrize("schema", KEYWORDS, ids="-".join)
@given(value=SMALL)
@settings(max_examples=60, deadline=None)
def test_verdict_is_jsonschemas_for_every_keyword(schema: dict[str, Any], value: Any) -> None:
    assert valid(schema, value) == jsonschema.Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize(
    ("schema", "value", "sentence"),
    [
        ({"type": "string"}, 3, "the file is a whole number, must be text: put it in quotes"),
        ({"type": "string"}, math.nan, "the file is a number, must be text: put it in quotes"),
        ({"type": "object"}, None, "the file is empty, must be a mapping"),
        ({"type": ["integer", "string"]}, [], "the file is a list, must be a whole number or text"),
        ({"items": {"type": "integer"}}, [1, "x"], "[1] is text, must be a whole number"),
        ({"anyOf": [{"const": False}, {"type": "object"}]}, "x", 'the file is "x", must be false or a mapping'),
        (
            {"oneOf": [{"type": "string"}, {"type": "object", "properties": {"a": {"type": "integer"}}}]},
            {"a": "x"},
            "a is text, must be a whole number",
        ),
        ({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, 3, "the file fits 2 forms at once; it must fit one"),
        ({"not": {"type": "string"}}, "x", "the file is refused by the schema's `not`"),
        ({"properties": {"a": False}}, {"a": 1}, "a is not accepted here"),
        ({"properties": {"a": {"maxLength": 2}}}, {"a": "secret"}, "a has 6 characters, at most 2 are allowed"),
        ({"enum": ["a"]}, "\x1b[31mred\n", 'the file is "\\x1b[31mred\\n", must be a'),
        ({"additionalProperties": False}, {"x\ny": 1}, '["x\\ny"]: unknown key'),
        ({"additionalProperties": False}, {"k" * 5000: 1}, f"{'k' * 57}...: unknown key"),
        ({"maximum": 5}, 10**400, "the file is a huge number, must be at most 5"),
        ({"maxItems": 1}, [1, 2], "the file has 2 items, at most 1 are allowed"),
    ],
)
def test_sentence(schema: dict[str, Any], value: Any, sentence: str) -> None:
    assert [problem.message for problem in validate(schema, value, lambda path: None)] == [sentence]


def test_a_wrong_value_is_not_shown() -> None:
    """Only where the accepted words are listed is the value shown: anywhere else it may be a secret."""
    schema = {"properties": {"a": {"type": "integer"}, "b": {"pattern": "^x"}, "c": {"not": {"type": "string"}}}}
    found = validate(schema, {"a": "hunter2", "b": "hunter2", "c": "hunter2"}, lambda path: None)
    assert len(found) == 3
    assert "hunter2" not in str(found)


def test_required_key_that_is_misspelt_is_one_problem() -> None:
    schema = {"required": ["name"], "properties": {"name": {}}, "additionalProperties": False}
    assert [p.message for p in validate(schema, {"nmae": 1}, lambda path: None)] == [
        "nmae: unknown key; did you mean name?"
    ]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/no"},
        {"$ref": "objects/no.json#/$defs/x"},
        {"$ref": 3},
        {"pattern": "("},
        {"properties": {"a": 3}},
    ],
    ids=repr,
)
def test_schema_that_cannot_be_followed_is_said_so(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaFault):
        faults(schema, {"a": 1} if "properties" in schema else "x")


def test_schema_in_a_circle_ends() -> None:
    schema = {"$ref": "#/$defs/x", "$defs": {"x": {"$ref": "#/$defs/x"}}}
    assert "nested too deeply" in faults(schema, 1)[0].message


def nest(depth: int, leaf: Any) -> Any:
    value = leaf
    for _ in range(depth):
        value = {"a": [value]}
    return value


@pytest.mark.parametrize(
    "schema", [{"$ref": "#/$defs/x"}, {"uniqueItems": True}, {"enum": [{"a": 1}]}, {"contains": {}}], ids=repr
)
def test_deep_value_ends(schema: dict[str, Any]) -> None:
    recursive = {"properties": {"a": {"items": {"$ref": "#/$defs/x"}}}}
    faults({**schema, "$defs": {"x": recursive}}, nest(400, 1))
    faults({**schema, "$defs": {"x": recursive}}, [nest(400, 1)])


@pytest.mark.parametrize(
    "value",
    [
        {"launch": {"env": {f"KEY_{i}": "value" for i in range(100_000)}}},
        {f"zzkey{i}": i for i in range(100_000)},
        {"launch": {f"evn{i}": i for i in range(100_000)}},
        {"imagePullSecrets": [[]] * 100_000},
        {"dra": [f"driver-{i}" for i in range(100_000)]},
        {"launch": {"env": {"A" * 1_000_000: "x", "B": "y" * 1_000_000}}},
        {"x" * 1_000_000: 1, "scheduler": {"kind": "k" * 1_000_000}},
    ],
    ids=["right", "unknown", "misspelt", "wrong-types", "list", "long-key", "long-unknown"],
)
def test_huge_value_ends_in_time(value: Any) -> None:
    start = time.process_time()
    found = validate(infra_schema(builtin_fragments()), value, lambda path: None)
    assert time.process_time() - start < 2
    assert len(found) <= MOST + 1


def test_more_problems_than_anybody_reads_are_cut_with_a_word() -> None:
    found = validate({"items": {"type": "integer"}}, ["x"] * 5000, lambda path: None)
    assert len(found) == MOST + 1
    assert found[-1].message == f"the file has more problems than the first {MOST}, which are shown"


def test_checking_imports_neither_jsonschema_nor_yaml() -> None:
    code = (
        "import sys\n"
        "from kubectl_nrl.schema import *\n"
        "validate(infra_schema(builtin_fragments()), {'image': 'x', 'zzz': 1}, lambda path: None)\n"
        "check_user_spec('RayCluster', {'headGroupSpec': {}}, lambda path: None, 'spec')\n"
        "print(sorted({'jsonschema', 'yaml', 'omegaconf', 'kubernetes'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("pattern", ["^a$", "^(a$|b)", "a$|^b$"])
def test_a_pattern_ends_where_the_text_does_and_not_before_its_last_newline(pattern: str) -> None:
    assert valid({"pattern": pattern}, "a")
    assert not valid({"pattern": pattern}, "a\n")
    assert valid({"pattern": r"^a\$x"}, "a$x")


def test_a_name_of_the_environment_ends_where_it_ends() -> None:
    problems = validate(infra_schema(builtin_fragments()), {"launch": {"env": {"A\n": "b"}}}, lambda path: None)
    assert any("no name of an environment variable" in problem.message for problem in problems)
