r"""`${...}` means what OmegaConf makes of it; in an infra file what a shell meant by it is an error that shows the escape."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from config_project import FUZZ, ConfigFiles
from hypothesis import given
from hypothesis import strategies as st

from kubectl_nrl.config.bounds import Unresolved
from kubectl_nrl.config.interpolation import Resolver
from kubectl_nrl.config.nodes import from_plain, to_plain
from kubectl_nrl.errors import ConfigError

ENV = {"HF_HOME": "/hf", "EMPTY": "", "NUMBER": "12"}


@pytest.fixture
def files(tmp_path: Path) -> ConfigFiles:
    return ConfigFiles(tmp_path)


def ours(tree: dict[str, Any], key: str) -> Any:
    root = from_plain(tree, None)
    resolver = Resolver(root, ENV, "jo")
    try:
        found = resolver.find((key,))
        assert found is not None
        return to_plain(resolver.resolved(*found))
    except Unresolved:
        return "unresolved"


def omegaconfs(tree: dict[str, Any], key: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The value by OmegaConf, with NeMo-RL's resolvers registered."""
    from omegaconf import Container, OmegaConf

    for name, value in ENV.items():
        monkeypatch.setenv(name, value)
    OmegaConf.register_new_resolver("add", lambda *args: sum(args), replace=True)
    OmegaConf.register_new_resolver("mul", lambda a, b: a * b, replace=True)
    OmegaConf.register_new_resolver("div", lambda a, b: a / b, replace=True)
    OmegaConf.register_new_resolver("max", max, replace=True)
    OmegaConf.register_new_resolver("user", lambda: "jo", replace=True)
    try:
        config = OmegaConf.create(tree)
        value = config[key]
        return OmegaConf.to_container(value, resolve=True) if isinstance(value, Container) else value
    except Exception:
        return "unresolved"
    finally:
        OmegaConf.clear_resolvers()


TREE = {
    "n": 4,
    "f": 0.5,
    "s": "text",
    "t": True,
    "z": None,
    "l": [7, "${n}"],
    "d": {"x": 1, "y": "${.x}", "k-b": 3},
    "which": "s",
    "deep": {"groups": [{"n": 5}, {"n": "${..0.n}"}]},
}

CASES = [
    "${n}", "x${n}y", "${ n }", "${d}", "${d.y}", "${d.k-b}", "${l}", "${l.1}", "${l[0]}", "${d[x]}",
    "${deep.groups[1].n}", "${deep[groups][0][n]}",
    "${.n}", "${t}", "a ${t} ${z}",
    "${${which}}", "${add:1,2}", "${mul:${n},${f}}", "${div:8,2}", "${max:${n},9}", "${oc.env:HF_HOME}", "${oc.env:NOPE,dflt}",
    "${oc.env:NOPE,null}", "${oc.env:EMPTY}", "${user:}", "${user:}-secrets", "${oc.decode:${oc.env:NUMBER}}", "${oc.select:nope,5}",
    "${oc.select:n}", "${oc.dict.keys:d}", "${oc.dict.values:d}", "${oc.create:{a:1}}", r"\${HOME}", r"\${n} ${n}", r"\\${n}",
    r"\\\${n}", r"a\b ${n} \n\\", r"${n}\\", "it's ${n} 'and'", 'a ${oc.env:NOPE,"}"} b', "${n}}", "${oc.env:NOPE,a b}", "$${n}", "$n $(x)",
    "no dollar \\ here",
]  # fmt: skip


@pytest.mark.parametrize("text", CASES)
def test_a_text_has_the_value_omegaconf_gives(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = {**TREE, "it": text}
    expected = omegaconfs(tree, "it", monkeypatch)
    assert expected != "unresolved"
    assert ours(tree, "it") == expected


@pytest.mark.parametrize(
    "text",
    ["${HOME}", "${RANK:-0}", "${arr[@]}", "${x%.yaml}", "${#a}", "${n", "${nope.x}", "${n.x}", "${oc.env:NOPE}", "${div:1,0}",
     "${mul:s,2}",
     "${user:x}", "${it}", "${..n}", "${max:x,1}", "${oc.env:}"],
)  # fmt: skip
def test_what_omegaconf_cannot_resolve_is_not_resolved(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = {**TREE, "it": text}
    assert ours(tree, "it") == "unresolved"
    if text != "${mul:s,2}":  # text times a number: Python can, nobody means it
        assert omegaconfs(tree, "it", monkeypatch) == "unresolved"


PARTS = st.sampled_from(
    [
        "${n}",
        "${d.y}",
        "${.s}",
        "${user:}",
        "${oc.env:HF_HOME}",
        "\\",
        "\\\\",
        "$",
        "{",
        "}",
        "a",
        " ",
        "\n",
        "'",
        '"',
        "\\${",
        "${l.0}",
    ]
)


@FUZZ
@given(st.lists(PARTS, min_size=1, max_size=7).map("".join))
def test_any_mixture_of_escapes_and_references_gives_omegaconfs_text(text: str) -> None:
    tree = {**TREE, "it": text}
    with pytest.MonkeyPatch.context() as patch:
        assert ours(tree, "it") == omegaconfs(tree, "it", patch)


def test_relative_references_start_at_the_mapping_they_stand_in(files: ConfigFiles) -> None:
    config = files.infra("groups: [{replicas: 3, minReplicas: '${.replicas}', up: '${...top}'}]\ntop: 1\n")
    assert config.infra["groups"] == [{"replicas": 3, "minReplicas": 3, "up": 1}]


def test_a_referenced_mapping_keeps_its_own_relative_references(files: ConfigFiles) -> None:
    config = files.infra("a: {x: 1, y: '${.x}'}\nb: {x: 2, copy: '${a}'}\n")
    assert config.infra["b"]["copy"] == {"x": 1, "y": 1}


def test_a_recipe_is_resolved_only_where_it_is_read(files: ConfigFiles) -> None:
    config = files.recipe("hf: ${oc.env:HF_HOME}\nn: 2\nlate: '???'\n")
    assert config.recipe["hf"] == "${oc.env:HF_HOME}"
    assert config.recipe_value("n") == 2
    with pytest.raises(
        ConfigError, match=r"r\.yaml:1:5: error: hf: oc\.env: the environment variable HF_HOME is not set"
    ):
        config.recipe_value("hf")
    with pytest.raises(ConfigError, match=r"r\.yaml:3:7: error: late must be set"):
        config.recipe_value("late")


def test_a_recipe_value_that_is_absent_or_null_is_the_default(files: ConfigFiles) -> None:
    config = files.recipe("a: {b: null}\n")
    assert config.recipe_value("a.b", 3) == 3
    assert config.recipe_value("a.c.d", 4) == 4
    assert config.recipe_value("a.b") is None


def test_the_environment_is_the_one_given_not_the_processs(files: ConfigFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONLY_PROCESS", "x")
    config = files.recipe("a: ${oc.env:ONLY_PROCESS}\nb: ${oc.env:ONLY_GIVEN}\n", ONLY_GIVEN="y")
    assert config.recipe_value("b") == "y"
    with pytest.raises(ConfigError):
        config.recipe_value("a")


SCRIPT = """launch:
  entrypoint: |
    # default is ${RANK:-0}
    image=mine; echo ${image} "$HOME" $(date) ${arr[@]} ${x%.yaml} \\${HOME}
    echo $${HOME} ${RANK:-0}
"""


def test_every_shell_form_in_an_entrypoint_is_an_error_at_its_place(files: ConfigFiles) -> None:
    files.write({"i.yaml": SCRIPT})
    found = [(str(problem.origin), problem.message, problem.hint) for problem in files.problems()]
    shell = '" is shell syntax, not a key or a resolver'
    key = '" names no key of the infra file'
    assert found == [
        ("i.yaml:3:18", 'launch.entrypoint: "${RANK:-0}' + shell, r"write \${RANK:-0} or $RANK"),
        ("i.yaml:4:22", 'launch.entrypoint: "${image}' + key, r"for the shell's own, write \${image} or $image"),
        ("i.yaml:4:47", 'launch.entrypoint: "${arr[@]}' + shell, r"write \${arr[@]}"),
        ("i.yaml:4:57", 'launch.entrypoint: "${x%.yaml}' + shell, r"write \${x%.yaml}"),
        ("i.yaml:5:11", 'launch.entrypoint: "${HOME}' + key, r"for the shell's own, write \${HOME} or $HOME"),
        ("i.yaml:5:19", 'launch.entrypoint: "${RANK:-0}' + shell, r"write \${RANK:-0} or $RANK"),
    ]


def test_escaped_shell_forms_reach_the_script_as_they_are(files: ConfigFiles) -> None:
    config = files.infra("launch:\n  entrypoint: |\n    echo \\${RANK:-0} \\${a[@]} $HOME ${user:} ${n}\nn: 4\n")
    assert config.infra["launch"]["entrypoint"] == "echo ${RANK:-0} ${a[@]} $HOME jo 4\n"


def test_the_escape_is_spelled_for_yamls_double_quotes(files: ConfigFiles) -> None:
    problem = files.write({"i.yaml": 'launch: {entrypoint: "echo ${RANK:-0}"}\n'}).only_problem()
    assert problem.hint == r"write \\${RANK:-0} or $RANK"
    assert (
        files.infra('launch: {entrypoint: "echo \\\\${RANK:-0}"}\n').infra["launch"]["entrypoint"] == "echo ${RANK:-0}"
    )


def test_a_mistyped_key_gets_the_nearest_real_one(files: ConfigFiles) -> None:
    text = "kuberay: {training: {segmentSize: 4}}\nn: ${kuberay.training.segmentsize}\n"
    assert "did you mean ${kuberay.training.segmentSize}?" in files.write({"i.yaml": text}).only_problem().hint


def test_a_mistyped_resolver_gets_the_nearest_real_one(files: ConfigFiles) -> None:
    problem = files.write({"i.yaml": "n: ${usr:}\n"}).only_problem()
    assert problem.message == 'n: "${usr:}": there is no resolver "usr"'
    assert problem.hint.startswith("did you mean user?")


def test_a_script_variable_that_a_key_replaces_draws_a_warning(files: ConfigFiles) -> None:
    config = files.infra("image: reg/x\nlaunch:\n  entrypoint: |\n    image=mine; echo ${image}\n")
    assert config.infra["launch"]["entrypoint"] == "image=mine; echo reg/x\n"
    assert [(problem.severity, str(problem.origin)) for problem in config.problems] == [("warning", "i.yaml:4:22")]


def test_a_recipe_keeps_omegaconfs_rules_for_shell_forms(files: ConfigFiles) -> None:
    assert files.recipe("cmd: 'echo ${RANK:-0}'\n").recipe["cmd"] == "echo ${RANK:-0}"


def test_a_circle_of_references_is_named(files: ConfigFiles) -> None:
    problems = files.write({"i.yaml": "a: ${b}\nb: ${c}\nc: ${a}\n"}).problems()
    assert any("a -> b -> c -> a" in problem.message for problem in problems)


def quoted(number: int) -> str:
    return '"${k' + str(number) + '}"'


MONSTERS = {
    "tree bomb": (
        "".join(f"k{i}: [{', '.join([quoted(i + 1)] * 9)}]\n" for i in range(12)) + "k12: 1\n",
        "expand to more than 200000 values",
    ),
    "text bomb": (
        "".join(f'k{i}: "${{k{i + 1}}}${{k{i + 1}}}"\n' for i in range(60)) + "k60: xx\n",
        "the text becomes longer than 1048576 characters",
    ),
    "long chain": (
        "".join(f"k{i}: ${{k{i + 1}}}\n" for i in range(2000)) + "k2000: 1\n",
        "too many references in a row",
    ),
    "inside itself": ("a: {b: '${a}'}\n", "it refers to itself"),
    "deep chain": (
        "".join(f"k{i}: {'{a: ' * 90}{quoted(i + 1)}{'}' * 90}\n" for i in range(30, -1, -1)) + "k31: 1\n",
        "expand to more than 150 levels",
    ),
    "many wrong values": ("".join(f"k{i}: '${{a:-{i}}}'\n" for i in range(20_000)), "is shell syntax"),
    "many wrong pieces": ("a: '" + "${x:-y} " * 50_000 + "'\n", "is shell syntax"),
    "many computed": (
        "".join(f"k{i}: ${{mul:{i},2}}\n" for i in range(20_000)),
        "more than 3000 interpolations to compute",
    ),
    "never closed": ("a: '" + "${" * 3000 + "'\n", "is shell syntax"),
    "deep calls": ("a: '" + "${mul:" * 200 + "1,2" + "}" * 200 + "'\n", "is shell syntax"),
    "huge number": (
        f"a: ${{mul:{'9' * 300},{'9' * 300}}}\n"
        + "".join(f"{key}: ${{mul:${{{of}}},${{{of}}}}}\n" for of, key in ("ab", "bc", "cd", "de")),
        "the result is too large",
    ),
}


@pytest.mark.parametrize(("text", "words"), MONSTERS.values(), ids=MONSTERS)
def test_monstrous_interpolations_end_in_errors(files: ConfigFiles, text: str, words: str) -> None:
    assert len(text) < 1 << 20
    problems = files.write({"i.yaml": text}).problems()
    assert words in problems[0].message
    assert len(problems) <= 101


def test_a_long_chain_in_a_recipe_is_an_error_when_it_is_read(files: ConfigFiles) -> None:
    for form in ("${{k{0}}}", "x${{k{0}}}"):
        config = files.recipe("".join(f"k{i}: {form.format(i + 1)}\n" for i in range(2000)) + "k2000: 1\n")
        with pytest.raises(ConfigError, match="too many references"):
            config.recipe_value("k0")


def test_an_interpolated_value_has_its_own_line_and_a_section_its_sources(files: ConfigFiles) -> None:
    config = files.infra("a: {x: 1}\nb: ${a}\nc: ${a.x}\n")
    origins = config.infra_origins
    assert [str(origins.get(path)) for path in ("b", "b.x", "c")] == ["i.yaml:2:4", "i.yaml:1:8", "i.yaml:3:4"]
    assert origins.text("c") == "1"


def test_plain_files_are_loaded_without_omegaconf_or_hydra(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("a: 1\n")
    (tmp_path / "r.yaml").write_text("defaults: base.yaml\nb: 1e-4\nc: ${a}\n")
    (tmp_path / "i.yaml").write_text('namespace: ${user:}\nlaunch: {entrypoint: "echo \\\\${X} ${namespace}"}\n')
    code = (
        "import sys; from kubectl_nrl.config import load; c = load('r.yaml', 'i.yaml', (), env={'NRL_K8S_USER': 'jo'}); "
        "c.recipe_value('c'); print(sorted(sys.modules.keys() & {'omegaconf', 'hydra', 'antlr4', 'kubernetes', 'ray', 'jsonschema'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env={**os.environ}, check=True
    )
    assert done.stdout == "[]\n"
