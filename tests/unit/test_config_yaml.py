"""A YAML file is read as OmegaConf reads it, with the place of every value; a bad one is one clear line, never a traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from config_project import FUZZ, ConfigFiles
from hypothesis import given
from hypothesis import strategies as st

from kubectl_nrl.config.nodes import to_plain
from kubectl_nrl.config.yaml_source import Unreadable, parse
from kubectl_nrl.config.yaml_text import dump
from kubectl_nrl.errors import ConfigError


@pytest.fixture
def files(tmp_path: Path) -> ConfigFiles:
    return ConfigFiles(tmp_path)


def value(text: str) -> Any:
    problems: list[Any] = []
    node = parse(text, "f.yaml", problems)
    assert not problems
    assert node is not None
    return to_plain(node)


SCALARS = [
    "1e-4", "1e4", "1.5E3", "1E5", "-1e-4", ".5", "1.", "1_000", "0x10", "010", "08", "0b11", "0o17", "12:30", "1:30.5", "on", "off", "yes",
    "No", "TRUE", "~", "null", "", "Null", "2024-01-01", "2024-01-01T10:00:00Z", ".inf", "-.INF", "text", "'1e-4'", '"on"', "1e", "e5",
    "+1", "0", "-0", "1__0", "=", "!!str 1", "!!float 1", "!!int '3'", "?x", "1e400",
]  # fmt: skip


@pytest.mark.parametrize("scalar", SCALARS)
def test_a_scalar_is_what_omegaconf_makes_of_it(scalar: str) -> None:
    import yaml
    from omegaconf._utils import get_yaml_loader

    text = f"k: {scalar}\n"
    if scalar == "=":
        assert value(text) == {"k": "="}  # PyYAML has no constructor for it
        return
    expected = yaml.load(text, Loader=get_yaml_loader())
    found = value(text)
    assert found == expected
    assert type(found["k"]) is type(expected["k"])


def test_a_scalar_keeps_the_text_that_was_written(files: ConfigFiles) -> None:
    env = "launch: {env: {A: 0x10, B: on, C: 1e-4, D: 010, E: '7', F: true, G: , H: 1_000}}\n"
    origins = files.infra(env).infra_origins
    texts = [origins.text(("launch", "env", name)) for name in "ABCDEFGH"]
    assert texts == ["0x10", "on", "1e-4", "010", "7", "true", "", "1_000"]
    assert origins.text("launch.env") is None
    assert origins.text("launch.env.NOPE") is None


def test_infra_keys_are_the_text_that_was_written(files: ConfigFiles) -> None:
    config = files.infra("labels: {on: a, 8080: b, 0x1F: c, 1.50: d}\n")
    assert config.infra == {"labels": {"on": "a", "8080": "b", "0x1F": "c", "1.50": "d"}}


def test_recipe_keys_keep_their_yaml_type(files: ConfigFiles) -> None:
    assert files.recipe("a: {1: x, y: z}\n").recipe == {"a": {1: "x", "y": "z"}}


def test_anchors_and_merge_keys_expand_and_report_the_anchors_line(files: ConfigFiles) -> None:
    config = files.infra("_shared: &s {a: 1, b: 2}\nx:\n  <<: *s\n  b: 3\ny: *s\n")
    assert config.infra == {"x": {"a": 1, "b": 3}, "y": {"a": 1, "b": 2}}
    assert str(config.infra_origins.get("x.a")) == "i.yaml:1:17"
    assert str(config.infra_origins.get("x.b")) == "i.yaml:4:6"


def test_a_list_of_merge_keys_prefers_the_first() -> None:
    text = "a: &a {x: 1}\nb: &b {x: 2, y: 3}\nc: {<<: [*a, *b]}\n"
    assert value(text)["c"] == {"x": 1, "y": 3}


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a:\n\t- b\n", "r.yaml:2:1", "a tab in the indentation"),
        ("a:\n  b: 1\n\tc: 2\n", "r.yaml:3:1", "a tab"),
        ("a: 1\nb: 2\na: 3\n", "r.yaml:3:1", 'duplicate key "a", first written in line 1'),
        ("x: {on: 1, yes: 2}\n", "r.yaml:1:12", 'duplicate key "yes"'),
        ("a: *nope\n", "r.yaml:1:4", "an anchor (&name) that does not exist"),
        ("a: &a [*a]\n", "r.yaml:1:4", "an anchor that contains itself"),
        ("a: &a {b: *a}\n", "r.yaml:1:4", "an anchor that contains itself"),
        ("a: b: c\n", "r.yaml:1:5", "a `:` where no key can stand"),
        ("a: [1, 2\nb: 3\n", "r.yaml:2:2", "not valid YAML"),
        ("a: 1\n---\nb: 2\n", "r.yaml:2:1", "more than one YAML document"),
        ("- a\n- b\n", "r.yaml:1:1", "not a list"),
        ("just text\n", "r.yaml:1:1", "not text"),
        ("", "r.yaml", "the file is empty"),
        ("# nothing\n\n", "r.yaml", "the file is empty"),
        ("a: !!python/object:os.system x\n", "r.yaml:1:4", "the tag !!python/object:os.system is not supported"),
        ("a: !mine x\n", "r.yaml:1:4", "the tag !mine is not supported"),
        ("a: !!int x\n", "r.yaml:1:4", "not a value of the type !!int"),
        ("? [a]\n: b\n", "r.yaml:1:3", "a key must be text or a number"),
        ("~: b\n", "r.yaml:1:1", "a key must be text or a number"),
        ("<<: 3\n", "r.yaml:1:5", "`<<` takes a mapping"),
        ("a: " + "9" * 500 + "\n", "r.yaml:1:4", "a number of 500 characters"),
        ("a: '\n", "r.yaml:2:1", "not valid YAML"),
        ("%YAML 9.0\n---\na: 1\n", "r.yaml:1:1", "not valid YAML"),
        (b"a: \xff\xfe\n", "r.yaml:1", "not UTF-8 text"),
        (b"a: 1\nb: \x00\n", "r.yaml:2", "not YAML text"),
        (bytes(range(256)), "r.yaml:2", "not UTF-8 text"),
        ("a: " + "[" * 20000 + "\n", "r.yaml:1:1003", "nested too deeply"),
        ("a: " + "[" * 500 + "]" * 500 + "\n", "r.yaml:1:104", "nested more than 100 levels deep"),
    ],
)  # fmt: skip
def test_a_bad_file_is_one_line_with_its_place(files: ConfigFiles, text: str | bytes, place: str, words: str) -> None:
    problem = files.write({"r.yaml": text}).only_problem()
    assert words in problem.message
    assert str(problem.origin) == place


def test_every_duplicate_key_of_a_file_is_reported(files: ConfigFiles) -> None:
    assert len(files.write({"r.yaml": "a: 1\na: 2\nb: {c: 1, c: 2}\n"}).problems()) == 2


def test_a_byte_order_mark_and_crlf_are_no_fault(files: ConfigFiles) -> None:
    assert files.write({"r.yaml": b"\xef\xbb\xbfa: 1\r\nb: |\r\n  x\r\n  y\r\n"}).load().recipe == {
        "a": 1,
        "b": "x\ny\n",
    }


def test_a_huge_file_is_refused_by_its_size_without_reading_it(files: ConfigFiles) -> None:
    with (files.directory / "r.yaml").open("wb") as file:
        file.truncate(1 << 40)  # more than memory holds
    assert f"is {1 << 20}.0 MiB" in files.only_problem().message


def test_nested_anchors_cannot_expand_without_bound(files: ConfigFiles) -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 20)
    )
    assert "expands to more than" in files.write({"r.yaml": bomb}).only_problem().message


def test_a_missing_file_and_a_directory_are_named(files: ConfigFiles) -> None:
    assert str(files.only_problem(recipe="no.yaml")) == "no.yaml: error: the file does not exist"
    (files.directory / "d").mkdir()
    assert str(files.only_problem(recipe="d")) == "d: error: the file is a directory"
    assert "cannot be read" in str(files.only_problem(recipe="a\0b"))
    assert "does not exist" in str(files.only_problem(recipe="r.yaml/x.yaml"))


def test_faults_of_recipe_infra_and_overrides_come_together(files: ConfigFiles) -> None:
    files.write({"r.yaml": "a: 1\na: 2\n", "i.yaml": "b:\n\t- c\n"})
    assert [str(problem.origin) for problem in files.problems("x=1,2")] == [
        "r.yaml:2:1",
        "i.yaml:2:1",
        "command line: x=1,2",
    ]


def test_an_unreadable_parent_does_not_make_its_keys_unknown(files: ConfigFiles) -> None:
    files.write({"r.yaml": "defaults: gone.yaml\n"})
    assert "gone.yaml" in files.only_problem("policy.lr=1").message


TREES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False),
        st.text(max_size=20),
        st.sampled_from(SCALARS),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    max_leaves=20,
)


@FUZZ
@given(st.dictionaries(st.text(max_size=8), TREES, max_size=5))
def test_a_recipe_written_out_is_read_back_the_same(tree: dict[str, Any]) -> None:
    import yaml
    from omegaconf._utils import get_yaml_loader

    text = dump(tree)
    for loader in (get_yaml_loader(), yaml.SafeLoader):
        assert yaml.load(text, Loader=loader) == tree


@FUZZ
@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))))
def test_no_bytes_raise_anything_but_a_config_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    files = ConfigFiles(tmp_path_factory.getbasetemp())
    files.write({"fuzz.yaml": content, "r.yaml": "a: 1\n"})
    for names in ({"recipe": "fuzz.yaml"}, {"infra": "fuzz.yaml"}):
        try:
            files.load(**names)
        except ConfigError as error:
            assert error.problems


@FUZZ
@given(st.text(alphabet="ab:- \n{}[],&*<>|'\"#!?%@`$~=.0123456789e\t", max_size=80))
def test_no_yaml_like_text_raises_anything_but_unreadable(text: str) -> None:
    try:
        parse(text, "f.yaml", [])
    except Unreadable as error:
        assert error.problem.message
