"""Inheritance works as NeMo-RL's: defaults first, later ones over earlier, the file itself last; origins follow the values."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from config_project import FUZZ, ConfigFiles
from hypothesis import given
from hypothesis import strategies as st

from kubectl_nrl.config.merge import merge
from kubectl_nrl.config.nodes import from_plain, to_plain


@pytest.fixture
def files(tmp_path: Path) -> ConfigFiles:
    return ConfigFiles(tmp_path)


def test_defaults_are_relative_to_the_file_that_holds_them(files: ConfigFiles) -> None:
    files.write({
        "exp/r.yaml": "defaults: ../base/mid.yaml\nc: 3\n",
        "base/mid.yaml": "defaults: deep/low.yaml\nb: 2\nc: 2\n",
        "base/deep/low.yaml": "a: 1\nb: 1\nc: 1\n",
    })  # fmt: skip
    config = files.load(recipe="exp/r.yaml")
    assert config.recipe == {"a": 1, "b": 2, "c": 3}
    origins = [str(config.recipe_origins.get(key)) for key in "abc"]
    assert origins == ["base/deep/low.yaml:1:4", "base/mid.yaml:2:4", "exp/r.yaml:2:4"]


def test_later_defaults_win_and_the_file_itself_is_last(files: ConfigFiles) -> None:
    files.write({"1.yaml": "a: 1\nb: 1\nc: 1\n", "2.yaml": "b: 2\nc: 2\n"})
    assert files.recipe("defaults: [1.yaml, 2.yaml]\nc: 3\n").recipe == {"a": 1, "b": 2, "c": 3}


def test_maps_merge_and_lists_replace(files: ConfigFiles) -> None:
    files.write({"base.yaml": "m: {a: 1, b: 2}\nl: [1, 2, 3]\nn: {x: 1}\n"})
    config = files.recipe("defaults: base.yaml\nm: {b: 3}\nl: [9]\nn: null\n")
    assert config.recipe == {"m": {"a": 1, "b": 3}, "l": [9], "n": None}
    assert str(config.recipe_origins.get("l.0")) == "r.yaml:3:5"
    assert config.recipe_origins.exact("l.1") is None


def test_override_replaces_a_top_level_mapping_only(files: ConfigFiles) -> None:
    files.write({"base.yaml": "a: {x: 1}\nb: {c: {x: 1}}\nd: {x: 1}\n"})
    config = files.recipe(
        "defaults: base.yaml\na: {_override_: true, y: 2}\nb: {c: {_override_: true, y: 2}}\nd: {_override_: false}\n"
    )
    assert config.recipe == {
        "a": {"y": 2},
        "b": {"c": {"x": 1, "_override_": True, "y": 2}},
        "d": {"x": 1, "_override_": False},
    }


def test_the_override_mark_is_removed_without_defaults_too(files: ConfigFiles) -> None:
    assert files.recipe("a: {_override_: true, y: 2}\n").recipe == {"a": {"y": 2}}


def test_missing_values_survive_and_never_replace(files: ConfigFiles) -> None:
    files.write({"base.yaml": "a: 1\nb: '???'\n"})
    config = files.recipe("defaults: base.yaml\na: '???'\n")
    assert config.recipe == {"a": 1, "b": "???"}
    assert "b: ???" in config.recipe_yaml().replace("'", "")


def test_an_interpolation_refers_to_the_composed_recipe(files: ConfigFiles) -> None:
    files.write({"base.yaml": "n: 1\ntwice: ${mul:${n},2}\n"})
    assert files.recipe("defaults: base.yaml\nn: 4\n").recipe_value("twice") == 8


def test_a_shared_parent_is_no_circle(files: ConfigFiles) -> None:
    files.write({"base.yaml": "x: 1\n", "a.yaml": "defaults: base.yaml\n", "b.yaml": "defaults: ./base.yaml\n"})
    assert files.recipe("defaults: [a.yaml, b.yaml]\n").recipe == {"x": 1}


def test_many_paths_to_one_parent_cost_no_more_than_its_files(files: ConfigFiles) -> None:
    files.write({f"p{i}.yaml": f"defaults: [p{i + 1}.yaml, p{i + 1}.yaml]\n" for i in range(40)})
    files.write({"p40.yaml": "x: 1\n"})
    assert files.recipe("defaults: p0.yaml\n").recipe == {"x": 1}


def test_a_circle_is_named_with_its_files_and_the_line(files: ConfigFiles) -> None:
    files.write(
        {"r.yaml": "defaults: a.yaml\n", "a.yaml": "x: 1\ndefaults: [b.yaml]\n", "b.yaml": "defaults: ./a.yaml\n"}
    )
    problem = files.only_problem()
    assert problem.message == "defaults form a circle: r.yaml -> a.yaml -> b.yaml -> a.yaml"
    assert str(problem.origin) == "b.yaml:1:11"


def test_a_file_that_inherits_from_itself_is_a_circle(files: ConfigFiles) -> None:
    assert "circle" in files.write({"r.yaml": "defaults: r.yaml\n"}).only_problem().message


def test_a_circle_through_a_symlink_is_seen(files: ConfigFiles) -> None:
    files.write({"r.yaml": "defaults: link.yaml\n"})
    (files.directory / "link.yaml").symlink_to("r.yaml")
    assert "circle" in files.only_problem().message


def test_a_very_long_chain_is_refused(files: ConfigFiles) -> None:
    files.write({f"p{i}.yaml": f"defaults: p{i + 1}.yaml\n" for i in range(80)})
    assert "more than 50 files" in files.only_problem(recipe="p0.yaml").message


def test_missing_parents_are_all_named_at_the_entry(files: ConfigFiles) -> None:
    files.write({"r.yaml": "defaults:\n  - no.yaml\n  - sub/neither.yaml\n"})
    assert [str(problem) for problem in files.problems()] == [
        'r.yaml:2:5: error: "no.yaml" does not exist',
        'r.yaml:3:5: error: "sub/neither.yaml" does not exist',
    ]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("3", "not a number"),
        ("{a: b}", "not a mapping"),
        ("[[x]]", "not a list"),
        ("['']", "not empty"),
        ("_self_", "always comes last"),
    ],
)
def test_an_entry_that_is_no_path_is_an_error(files: ConfigFiles, entry: str, words: str) -> None:
    assert words in files.write({"r.yaml": f"defaults: {entry}\na: 1\n"}).only_problem().message


def test_an_empty_parent_and_empty_defaults_are_no_fault(files: ConfigFiles) -> None:
    files.write({"e.yaml": "# nothing\n"})
    assert files.recipe("defaults: e.yaml\na: 1\n").recipe == {"a": 1}
    assert files.recipe("defaults:\na: 1\n").recipe == {"a": 1}


def test_a_parents_path_may_hold_a_variable(files: ConfigFiles) -> None:
    files.write({"base.yaml": "a: 1\n"})
    assert files.recipe("defaults: ${oc.env:WHICH}.yaml\n", WHICH="base").recipe == {"a": 1}
    assert "WHICH is not set" in files.only_problem().message


def test_a_mapping_over_a_list_is_an_error_that_names_both_places(files: ConfigFiles) -> None:
    files.write({"base.yaml": "a: {l: [1]}\n", "r.yaml": "defaults: base.yaml\na: {l: {x: 1}}\n"})
    problem = files.only_problem()
    assert problem.message == '"a.l" is a mapping, and cannot be laid over a list inherited from base.yaml:1:8'
    assert str(problem.origin) == "r.yaml:2:8"


def test_an_override_of_inherited_values_leaves_no_trace_in_a_shared_parent(files: ConfigFiles) -> None:
    files.write({"base.yaml": "m: {a: 1}\n", "x.yaml": "defaults: base.yaml\nm: {a: 2}\n"})
    config = files.recipe("defaults: [x.yaml, base.yaml]\n", "m.a=5", "+m.b=6")
    assert config.recipe == {"m": {"a": 5, "b": 6}}


def test_nrl_recipe_is_the_composed_recipe_unresolved(files: ConfigFiles) -> None:
    files.write({"base.yaml": "lr: 1e-4\nhf: ${oc.env:HF_HOME}\nname: '1e-4'\nday: '2024-01-01'\n"})
    text = files.recipe("defaults: base.yaml\nm: {_override_: true, on: 'on'}\n", "lr=1e-5").recipe_yaml()
    assert text == "lr: 1.0e-05\nhf: ${oc.env:HF_HOME}\nname: '1e-4'\nday: '2024-01-01'\nm:\n  true: 'on'\n"


def test_nrl_recipe_names_the_user_whom_no_pod_knows(files: ConfigFiles) -> None:
    text = files.recipe("d: /x/${user:}/y\ne: \\${user:}\nl: ['${oc.env:A,${user:}}']\n").recipe_yaml()
    assert text == "d: /x/jo/y\ne: \\${user:}\nl:\n- ${oc.env:A,jo}\n"


VALUES = st.recursive(
    st.one_of(st.none(), st.integers(0, 3), st.sampled_from(["x", "???"])),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=10,
)
MAPS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@FUZZ
@given(MAPS, MAPS)
def test_any_two_trees_merge_as_omegaconf_merges_them(base: dict[str, Any], over: dict[str, Any]) -> None:
    from omegaconf import OmegaConf

    problems: list[Any] = []
    found = to_plain(merge(from_plain(base, None), from_plain(over, None), problems))
    try:
        expected: Any = OmegaConf.to_container(OmegaConf.merge(copy.deepcopy(base), copy.deepcopy(over)))
    except TypeError:
        expected = "refused"
    assert ("refused" if problems else found) == expected


@pytest.mark.parametrize(
    ("base", "over"),
    [
        ({"b": {"x": 1}, "a": "${b}"}, {"a": {"y": 2}}),
        ({"b": {"x": 1}, "a": "${b}"}, {"b": {"x": 5}, "a": {"y": 2}}),
        ({"b": {"x": 1}, "a": "${b}"}, {"a": "${other}"}),
        ({"a": "${nope}"}, {"a": {"y": 2}}),
        ({"b": 3, "a": "${b}"}, {"a": {"y": 2}}),
        ({"l": {"m": {"x": 1}, "a": "${.m}"}}, {"l": {"a": {"y": 2}}}),
        ({"l": [1], "a": "${l}"}, {"a": [2]}),
    ],
)
def test_a_mapping_over_a_reference_keeps_what_it_refers_to(base: dict[str, Any], over: dict[str, Any]) -> None:
    from omegaconf import OmegaConf

    found = to_plain(merge(from_plain(base, None), from_plain(over, None), []))
    assert found == OmegaConf.to_container(OmegaConf.merge(base, over))
