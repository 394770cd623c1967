"""Overrides mean what Hydra makes of them in the training program, and their mistakes are named with the nearest real key."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from config_project import FUZZ, ConfigFiles
from hypothesis import given
from hypothesis import strategies as st

from kubectl_nrl.config import overrides, plain_override
from kubectl_nrl.config.applying import apply
from kubectl_nrl.config.nodes import from_plain, to_plain
from kubectl_nrl.errors import ConfigError, Problem

TREE: dict[str, Any] = {
    "a": {"b": 1, "c": {"d": "x"}},
    "l": [1, 2],
    "d": {"x": 1},
    "n": None,
    "m": "???",
    "s": "text",
}


@pytest.fixture
def files(tmp_path: Path) -> ConfigFiles:
    return ConfigFiles(tmp_path)


def ours(tree: dict[str, Any], *texts: str) -> Any:
    """The tree with overrides applied, or the name of the failure."""
    problems: list[Problem] = []
    node = from_plain(tree, None)
    for override in overrides.parse(texts, problems):
        try:
            node = apply(node, override)
        except overrides.Refused:
            return "refused"
    return "refused" if problems else to_plain(node)


def hydras(tree: dict[str, Any], *texts: str) -> Any:
    """The same by Hydra and OmegaConf, as NeMo-RL's entry points call them."""
    from hydra._internal.config_loader_impl import ConfigLoaderImpl
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from omegaconf import OmegaConf

    config = OmegaConf.create(copy.deepcopy(tree))
    OmegaConf.set_struct(config, True)
    try:
        parsed = OverridesParser.create().parse_overrides(list(texts))
        if any(override.is_sweep_override() for override in parsed):
            return "refused"
        ConfigLoaderImpl._apply_overrides_to_config(parsed, config)
        return OmegaConf.to_container(config, resolve=False)
    except Exception:
        return "refused"


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("a.b=2", "a", {"b": 2, "c": {"d": "x"}}),
        ("a.c=7", "a", {"b": 1, "c": 7}),
        ("+a.new=1", "a", {"b": 1, "c": {"d": "x"}, "new": 1}),
        ("+deep.er.key=1", "deep", {"er": {"key": 1}}),
        ("++a.b=3", "a", {"b": 3, "c": {"d": "x"}}),
        ("++fresh=3", "fresh", 3),
        ("l=[9]", "l", [9]),
        ("+l=[9]", "l", [9]),
        ("l.0=9", "l", [9, 2]),
        ("d={x:3}", "d", {"x": 3}),
        ("+d={y:2}", "d", {"x": 1, "y": 2}),
        ("++d={y:2}", "d", {"x": 1, "y": 2}),
        ("d=null", "d", None),
        ("+n=5", "n", 5),
        ("m=5", "m", 5),
        ("s='a,b'", "s", "a,b"),
        ('s="a=b; c"', "s", "a=b; c"),
        (r"s=a\,b", "s", "a,b"),
        ("s=", "s", ""),
        ("s=1e-4", "s", 1e-4),
        ("s=0x10", "s", "0x10"),
        ("s=${a.b}", "s", "${a.b}"),
        ("a.b=-1e-4", "a", {"b": -1e-4, "c": {"d": "x"}}),
    ],
)
def test_an_override_sets_what_hydra_sets(text: str, key: str, value: Any) -> None:
    result = ours(TREE, text)
    assert result[key] == value
    assert result == hydras(TREE, text)


@pytest.mark.parametrize(
    "text",
    [
        "a.x=1", "zz=1", "zz.y=1", "+a.b=2", "+s=x", "d={y:2}", "l.5=1", "l.x=1", "a.b.c=1",
        "a=1,2", "a.b=choice(1,2)", "a.b=range(1,3)", "a.b=glob(*)", "a=b=c", "s=a!b", "s=a;b", "s=(x", "s=~x",
        "a@p=v", "group/x=v", "~zz", "~a.zz", "~a.b=9", "--foo=bar", "=1", "a", "", "l={x:1}", "d=[1]",
    ],
)  # fmt: skip
def test_what_hydra_refuses_is_refused(text: str) -> None:
    assert ours(TREE, text) == "refused"
    assert hydras(TREE, text) == "refused" or text == "=1"


@pytest.mark.parametrize(
    ("text", "left"), [("~a.c", {"b": 1}), ("~a.b=1", {"c": {"d": "x"}}), ("~a.c.d=x", {"b": 1, "c": {}})]
)
def test_a_deletion_removes_the_key(text: str, left: Any) -> None:
    assert ours(TREE, text)["a"] == left
    assert hydras(TREE, text)["a"] == left


def test_a_null_and_a_list_element_can_be_deleted() -> None:
    """Two deletions Hydra cannot do, and an infra file needs."""
    assert "n" not in ours(TREE, "~n")
    assert ours(TREE, "~l.0")["l"] == [2]


PLAIN_VALUES = st.one_of(
    st.from_regex(r"[-+]?[0-9][0-9_.eE+-]{0,6}", fullmatch=True),
    st.from_regex(r"[A-Za-z_/0-9.-]{0,8}", fullmatch=True),
    st.sampled_from(
        [
            "true",
            "FALSE",
            "Null",
            "inf",
            "-inf",
            "nan",
            "NaN",
            "0",
            "-0",
            "00",
            "1_0",
            "1.",
            ".5",
            "1e5",
            "1.5e-3",
            "None",
            "a/b-c.d",
        ]
    ),
)


@FUZZ
@given(st.sampled_from(["", "+", "++"]), st.from_regex(r"[A-Za-z_0-9.-]{1,8}", fullmatch=True), PLAIN_VALUES)
def test_the_short_way_around_hydra_reads_what_hydra_reads(mark: str, key: str, value: str) -> None:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    text = f"{mark}{key}={value}"
    plain = plain_override.read(text)
    if plain is not None:
        found = OverridesParser.create().parse_override(text)
        assert found.package is None
        assert (found.get_key_element(), found.value()) == (plain.mark + ".".join(plain.keys), plain.value)
        assert type(found.value()) is type(plain.value)


def test_the_plainest_overrides_are_read_without_hydra(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("a: {b: 1}\n")
    code = (
        "import sys; from kubectl_nrl.config import load; "
        "c = load('r.yaml', None, ['a.b=1e-4', '+a.c=/mnt/x', 'infra.image=x'], env={'NRL_K8S_USER': 'jo'}); "
        "print(c.recipe, sorted(sys.modules.keys() & {'omegaconf', 'hydra', 'antlr4'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "{'a': {'b': 0.0001, 'c': '/mnt/x'}} []\n"


KEYS = st.sampled_from(["a", "b", "c", "l", "0", "1", "new"])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(["x", "", "???", "a b"]))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=8,
)
WRITTEN = st.sampled_from(
    [
        "1",
        "x",
        "null",
        "",
        "true",
        "[1,2]",
        "[]",
        "{}",
        "{a:1}",
        "{b:{c:2}}",
        "{new:1}",
        "'q,r'",
        "???",
        "[{a:1}]",
        "1.5",
    ]
)
TEXTS = st.builds(
    lambda mark, keys, value: f"{mark}{'.'.join(keys)}={value}",
    st.sampled_from(["", "+", "++"]),
    st.lists(KEYS, min_size=1, max_size=3).filter(lambda keys: keys[0] not in "01"),
    WRITTEN,
)


@FUZZ
@given(
    st.dictionaries(st.sampled_from(["a", "b", "c", "l"]), VALUES, max_size=4), st.lists(TEXTS, min_size=1, max_size=3)
)
def test_any_override_of_any_tree_gives_hydras_result(tree: dict[str, Any], texts: list[str]) -> None:
    assert ours(tree, *texts) == hydras(tree, *texts)


def test_an_unknown_key_names_the_nearest_real_one_and_how_to_add(files: ConfigFiles) -> None:
    problem = files.only_problem("cluster.num_node=4")
    assert problem.message == '"cluster" has no key "num_node"'
    assert "did you mean cluster.num_nodes?" in problem.hint
    assert "+cluster.num_node=4" in problem.hint
    assert str(problem.origin) == "command line: cluster.num_node=4"


def test_a_sweep_is_refused_and_the_list_spelling_shown(files: ConfigFiles) -> None:
    problem = files.only_problem("cluster.num_nodes=1,2")
    assert "sweep" in problem.message
    assert "[1,2]" in problem.hint


def test_all_bad_overrides_are_reported_at_once(files: ConfigFiles) -> None:
    origins = [
        str(problem.origin)
        for problem in files.problems("a=b=c", "nope=1", "cluster.num_nodes=1,2", "cluster.num_nodes=4")
    ]
    assert origins == ["command line: a=b=c", "command line: cluster.num_nodes=1,2", "command line: nope=1"]


def test_overrides_apply_in_order_and_feed_what_refers_to_them(files: ConfigFiles) -> None:
    config = files.recipe("n: 1\ntwice: ${mul:${n},2}\n", "n=2", "n=5")
    assert config.recipe_value("twice") == 10
    assert config.overrides == ("n=2", "n=5")


def test_the_origin_of_an_overridden_value_is_the_command_line(files: ConfigFiles) -> None:
    config = files.load("cluster.num_nodes=4")
    assert str(config.recipe_origins.get("cluster.num_nodes")) == "command line: cluster.num_nodes=4"
    assert str(config.recipe_origins.get("cluster.gpus_per_node")) == "r.yaml:1:40"


def test_infra_overrides_need_no_plus_and_keep_their_text(files: ConfigFiles) -> None:
    config = files.infra(
        "launch: {env: {A: x}}\n", "infra.launch.env.NEW=1", "infra.scheduler.queue=q", "infra.launch.env.F=1e-4"
    )
    assert config.infra == {"launch": {"env": {"A": "x", "NEW": 1, "F": 1e-4}}, "scheduler": {"queue": "q"}}
    assert config.infra_origins.text("launch.env.F") == "1e-4"
    assert config.overrides == ()
    assert config.user_wrote("scheduler.queue")


def test_infra_overrides_reach_list_elements_and_delete(files: ConfigFiles) -> None:
    text = "kuberay: {training: {spec: {workerGroupSpecs: [{replicas: 1}, {replicas: 2}]}}}\nimage: x\n"
    config = files.infra(text, "infra.kuberay.training.spec.workerGroupSpecs.1.replicas=7", "~infra.image")
    assert config.infra == {"kuberay": {"training": {"spec": {"workerGroupSpecs": [{"replicas": 1}, {"replicas": 7}]}}}}


def test_deleting_an_absent_infra_key_names_the_nearest(files: ConfigFiles) -> None:
    files.write({"i.yaml": "image: x\n"})
    assert files.only_problem("~infra.imag").hint == "did you mean ~infra.image?"


@pytest.mark.parametrize("text", ["infra=x", "~infra", "infra=[1]"])
def test_the_whole_infra_cannot_be_replaced(files: ConfigFiles, text: str) -> None:
    assert "whole infra" in files.only_problem(text).message


def test_a_mapping_for_the_whole_infra_merges(files: ConfigFiles) -> None:
    assert files.infra("image: x\n", "infra={namespace: ns}").infra == {"image": "x", "namespace": "ns"}


def test_a_key_that_only_begins_like_infra_is_the_recipes(files: ConfigFiles) -> None:
    config = files.load("+infrared.x=1")
    assert config.recipe["infrared"] == {"x": 1}
    assert config.overrides == ("+infrared.x=1",)


@pytest.mark.parametrize(
    "text",
    ["infra.launch.env.HF_TOKEN=hf_demo_123", "infra.launch.env={HF_TOKEN:hf_demo_123}", "HF_TOKEN=hf_demo_123;x"],
)
def test_a_credential_on_the_command_line_is_never_repeated(files: ConfigFiles, text: str) -> None:
    problems = files.problems(text)
    assert not any("hf_demo_123" in str(problem) + problem.hint for problem in problems)


@pytest.mark.parametrize(
    "text",
    [
        "a=" + "[" * 400,
        "a=" + "{a:" * 60 + "1" + "}" * 60,
        "a=" + "1," * 100_000,
        "a=\udcff",
        "a" * 300_000,
        "a=" + "b" * 300_000,
        "+a=" + "TOKEN" * 60_000,
        "a=[" + "1," * 4000 + "1]",
        "\0=1",
        "a=\0",
    ],
)
def test_monstrous_overrides_are_refused_quickly(files: ConfigFiles, text: str) -> None:
    assert files.problems(text)


@FUZZ
@given(st.one_of(st.text(max_size=60), st.text(alphabet="ab.+~=[]{}(),:'\"\\$ 0159-", max_size=40)))
def test_no_override_text_raises_anything_but_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    files = ConfigFiles(tmp_path_factory.getbasetemp())
    try:
        files.load(text)
    except ConfigError as error:
        assert error.problems


def test_an_override_may_not_hold_null_as_a_key(files: ConfigFiles) -> None:
    assert "key" in files.only_problem("+x={null: 1}").message


def test_a_key_below_a_reference_is_refused_and_nothing_is_lost(files: ConfigFiles) -> None:
    """Hydra would replace the reference by a mapping of the one key."""
    files.write({"i.yaml": "_p: {a: 1}\nplacement: ${_p}\n"})
    problem = files.only_problem("infra.placement.b=2")
    assert problem.message == '"infra.placement" is the reference ${_p}'
    assert problem.hint == "override the key it refers to"


def test_a_key_of_very_many_parts_is_refused(files: ConfigFiles) -> None:
    assert "parts" in files.only_problem("+" + "a." * 1000 + "b=1").message
