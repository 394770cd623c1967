"""The training command of an entrypoint reads the composed recipe, and the script is otherwise the person's, byte for byte."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from config_project import FUZZ, ConfigFiles
from hypothesis import given
from hypothesis import strategies as st

from kubectl_nrl.config.entrypoint import Rewritten, config_commands, rewrite

NRL = '"$NRL_RECIPE"'


@pytest.fixture
def files(tmp_path: Path) -> ConfigFiles:
    return ConfigFiles(tmp_path)


def inline(text: str, *overrides: str) -> Rewritten:
    return rewrite(text, recipe_source="inline", overrides=overrides)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("python run.py --config r.yaml", f"python run.py --config {NRL}"),
        ("python run.py --config=r.yaml a=1", f"python run.py --config={NRL} a=1"),
        ("python run.py --config 'a b/r.yml'", f"python run.py --config {NRL}"),
        ('python run.py --config="r.yaml"', f"python run.py --config={NRL}"),
        ("python run.py --config \\\n   r.yaml \\\n   a=1", f"python run.py --config \\\n   {NRL} \\\n   a=1"),
        ("cd /x && python a.py --config r.yaml | tee log; python b.py --config=s.yaml",
         f"cd /x && python a.py --config {NRL} | tee log; python b.py --config={NRL}"),
        ("OUT=$(python run.py --config r.yaml)", f"OUT=$(python run.py --config {NRL})"),
        ("bash -c 'python run.py --config r.yaml'", f"bash -c 'python run.py --config {NRL}'"),
        ('bash -c "python run.py --config r.yaml"', 'bash -c "python run.py --config \\"\\$NRL_RECIPE\\""'),
        ("python run.py --config r.yaml>log 2>&1 &", f"python run.py --config {NRL}>log 2>&1 &"),
        ("cat <<EOF > x\nit's --config a\nEOF\npython run.py --config r.yaml",
         f"cat <<EOF > x\nit's --config a\nEOF\npython run.py --config {NRL}"),
        ("bash <<'E'\npython run.py --config r.yaml\nE\n", f"bash <<'E'\npython run.py --config {NRL}\nE\n"),
        ("if true; then python run.py --config r.yaml; fi", f"if true; then python run.py --config {NRL}; fi"),
    ],
)  # fmt: skip
def test_a_literal_config_points_at_the_composed_recipe(text: str, expected: str) -> None:
    found = inline(text)
    assert found.text == expected
    assert found.uses_config


@pytest.mark.parametrize(
    "text",
    [
        "python run.py --config-name r.yaml",
        "python run.py --config-path=x --config-name=r.yaml",
        "# python run.py --config r.yaml",
        "python run.py --config r.json",
        "echo --configs r.yaml",
        "echo --config",
        "python run.py x#--config r.yaml",
    ],
)
def test_everything_else_stays_byte_for_byte(text: str) -> None:
    assert inline(text).text == text


def test_a_script_that_reads_no_recipe_is_told_apart() -> None:
    assert not inline("python run.py").uses_config
    assert inline('python run.py "$NRL_RECIPE"').uses_config
    assert inline("python run.py --config $X").uses_config


def test_a_config_path_that_the_shell_makes_is_left_with_a_warning() -> None:
    found = inline("python run.py --config $DIR/r.yaml a=1")
    assert found.text == "python run.py --config $DIR/r.yaml a=1"
    assert [note.severity for note in found.notes] == ["warning"]
    assert "NRL_RECIPE" in found.notes[0].hint


def test_with_recipe_source_pod_the_path_stays_with_a_warning() -> None:
    found = rewrite("python run.py --config r.yaml a=1", recipe_source="pod", overrides=())
    assert found.text == "python run.py --config r.yaml a=1"
    assert [note.severity for note in found.notes] == ["warning"]
    assert "the copy of r.yaml on the pod decides" in found.notes[0].message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("python run.py --config r.yaml a.b=1 +c=2 ++d=3", ("a.b=1", "+c=2", "++d=3")),
        ("python run.py a=1 --config r.yaml", ("a=1",)),
        ("SEED=1 python run.py --config r.yaml a=1", ("a=1",)),
        ("env SEED=1 python -m pkg --config r.yaml a=1", ("a=1",)),
        ("uv run env X=1 python -u run.py --config r.yaml a=1", ("a=1",)),
        ("python run.py --config r.yaml a=$X b=1 c=`x` d=${Y} e='${a}'", ("b=1",)),
        ("python run.py --config r.yaml 'a=[1,2]' \"b=x y\" c='q'", ("a=[1,2]", "b=x y", "c=q")),
        ("python run.py --config r.yaml \\\n  a=1 \\\n  b=2\necho c=3", ("a=1", "b=2")),
        ("python run.py --config r.yaml a=1 2>x=1 >y=2 | tee z=3", ("a=1",)),
        ("python run.py --config r.yaml a=1 # b=2", ("a=1",)),
        ("python run.py --config r.yaml --seed=3 ./x=1", ()),
        ("python run.py --config r.yaml ~a.b.c ~a=1 ~someone ~/x.yaml", ("~a.b.c", "~a=1")),
        ("python run.py --config a=1.yaml", ()),
        ("A=1; python run.py --config r.yaml; B=2", ()),
    ],
)
def test_the_words_beside_config_are_found(text: str, words: tuple[str, ...]) -> None:
    assert inline(text).words == words


@pytest.mark.parametrize(
    ("text", "overrides", "expected"),
    [
        ("p.py --config $C a=1 b=2", ("a=9",), "p.py --config $C a=9 b=2"),
        ("p.py --config $C +a=1", ("+a=9",), "p.py --config $C ++a=9"),
        ("p.py --config $C a=1", ("a=8", "a=9"), "p.py --config $C a=9"),
        ("p.py --config $C a=1 b=2", ("~a",), "p.py --config $C  b=2"),
        ("p.py --config $C a.b=1", ("a={b:2}",), "p.py --config $C 'a={b:2}'"),
        ("p.py --config $C a={b:1}", ("~a.b",), "p.py --config $C '++a={b:1}' '~a.b'"),
        ("p.py --config $C a={b:1}", ("a.b=2",), "p.py --config $C 'a={b:1}' a.b=2"),
        ("p.py --config $C a=1", ("a='x y'",), "p.py --config $C 'a='\"'\"'x y'\"'\"''"),
        ("p.py --config $C a=1", ("ab=2", "b.a=3"), "p.py --config $C a=1"),
        ("p.py --config $C a.b=${X}/y b=$Y", ("a.b=/z",), "p.py --config $C a.b=/z b=$Y"),
        ("p.py --config $C ++a.b=$X", ("++a.b=1",), "p.py --config $C ++a.b=1"),
        ('p.py --config $C "a.b=$(date) x"', ("a={b:2}",), "p.py --config $C 'a={b:2}'"),
        ("p.py --config $C +a=$X", ("~a",), "p.py --config $C "),
        ("p.py --config $C a=$X", ("b=2",), "p.py --config $C a=$X"),
        ("p.py --config $C ~a.b", ("++a.b=1",), "p.py --config $C ++a.b=1"),
        ("bash -c 'p.py --config r.yaml a=1'", ("a=[1, 2]",), f"bash -c 'p.py --config {NRL} '\\''a=[1, 2]'\\'''"),
    ],
)
def test_a_word_the_command_line_sets_too_gives_way_to_it(text: str, overrides: tuple[str, ...], expected: str) -> None:
    found = inline(text, *overrides)
    assert found.text == expected
    assert [note.severity for note in found.notes if "gives way" in note.message] == (
        ["note"] if text != expected and "ab=2" not in overrides else []
    )


def test_a_credential_is_not_repeated_in_a_note() -> None:
    found = inline("p.py --config r.yaml x.HF_TOKEN=abc123", "x.HF_TOKEN=def456")
    assert not any(secret in note.message for note in found.notes for secret in ("abc123", "def456"))


def arguments(script: str, tmp_path: Path) -> list[list[str]]:
    """What each `p.py` of a script is called with, as a real shell calls it."""
    program = tmp_path / "p.py"
    program.write_text('#!/bin/sh\nprintf "%s\\0" "$@" >> "$CALLS"; printf "\\n" >> "$CALLS"\n')
    program.chmod(0o755)
    calls = tmp_path / "calls"
    calls.write_text("")
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CALLS": str(calls), "NRL_RECIPE": "/tmp/the recipe.yaml"}
    subprocess.run(["bash", "-c", script], env=env, cwd=tmp_path, check=True, capture_output=True)
    return [line.split("\0")[:-1] for line in calls.read_text().splitlines()]


@pytest.mark.parametrize(
    "script",
    [
        "p.py --config r.yaml a=1",
        "p.py --config=r.yaml a=1",
        "bash -c 'p.py --config r.yaml a=1'",
        'bash -c "p.py --config r.yaml a=1"',
        "X=$(p.py --config r.yaml a=1)",
        "X=`p.py --config r.yaml a=1`",
        "p.py \\\n  --config r.yaml \\\n  a=1 | cat",
        "bash -c \"bash -c 'p.py --config r.yaml a=1'\"",
        "(p.py --config r.yaml a=1) && true",
        "p.py --config r.yaml a=1 > /dev/null 2>&1",
        "cat <<-EOF >/dev/null\n\tit's\n\tEOF\np.py --config r.yaml a=1",
        "bash <<'END'\np.py --config r.yaml a=1\nEND\n",
    ],
)
@pytest.mark.parametrize("value", ["2", "'x y'", '"q"', "[1,'b c']", '{k:"it\'s"}', "\\$HOME", "`x`"])
def test_a_shell_runs_the_rewritten_script_as_meant(script: str, value: str, tmp_path: Path) -> None:
    text = inline(script, f"a={value}").text
    (call,) = arguments(text, tmp_path)
    assert call[-1] == f"a={value}"
    assert call[:-1] in (["--config", "/tmp/the recipe.yaml"], ["--config=/tmp/the recipe.yaml"])


def test_words_rank_between_recipe_and_command_line(files: ConfigFiles) -> None:
    files.write({"i.yaml": "launch: {entrypoint: 'python x.py --config r.yaml a=2 b=2'}\n"})
    config = files.recipe("a: 1\nb: 1\nc: 1\n", "b=3")
    assert config.recipe == {"a": 2, "b": 3, "c": 1}
    assert config.entrypoint_words == ("a=2", "b=2")
    assert [str(config.recipe_origins.get(key)) for key in "abc"] == ["i.yaml:1:51", "command line: b=3", "r.yaml:3:4"]


@pytest.mark.parametrize(("word", "typed"), [("~a.b", "++a.b=1"), ("x=1", "+x=2"), ("x.y=1", "+x={y: 2}")])
def test_a_word_that_gives_way_is_not_judged(files: ConfigFiles, word: str, typed: str) -> None:
    files.write({"i.yaml": f"launch: {{entrypoint: 'python x.py --config r.yaml {word}'}}\n"})
    assert not [p for p in files.recipe("a: {c: 1}\n", typed).problems if p.severity == "error"]


def test_nrl_recipe_leaves_the_words_to_the_program(files: ConfigFiles) -> None:
    """`+new=1` may be applied only once, and the words stay in the entrypoint."""
    files.write({"i.yaml": "launch: {entrypoint: 'python x.py --config r.yaml +new=1'}\n"})
    config = files.recipe("a: 1\n", "a=5")
    assert config.recipe == {"a": 5, "new": 1}
    assert config.recipe_yaml() == "a: 5\n"


def test_a_plus_on_the_command_line_may_name_what_a_word_adds(files: ConfigFiles) -> None:
    files.write({"i.yaml": "launch: {entrypoint: 'python x.py --config r.yaml +new=1'}\n"})
    assert files.recipe("a: 1\n", "+new=2").recipe == {"a": 1, "new": 2}


def test_a_word_the_program_would_refuse_is_an_error_at_its_place(files: ConfigFiles) -> None:
    files.write(
        {"r.yaml": "lr: 1\n", "i.yaml": "launch:\n  entrypoint: |\n    python x.py --config r.yaml \\\n      lrr=2\n"}
    )
    problem = files.only_problem()
    assert problem.message == 'the entrypoint\'s words: the recipe has no key "lrr"'
    assert str(problem.origin) == "i.yaml:4:7"
    assert "did you mean lr?" in problem.hint


def test_with_recipe_source_pod_such_a_word_is_a_warning(files: ConfigFiles) -> None:
    config = files.infra("launch: {recipeSource: pod, entrypoint: 'python x.py --config r.yaml nope=2'}\n")
    assert [problem.severity for problem in config.problems] == ["warning"]


PIECES = st.sampled_from(
    [
        "python x.py ",
        "--config ",
        "r.yaml",
        "--config=r.yaml ",
        " a=1",
        "'",
        '"',
        "$(",
        ")",
        "`",
        "\\",
        "\n",
        "$X",
        "${",
        "}",
        ";",
        "|",
        ">",
        "<<",
        "<<E\n",
        "E\n",
        "&",
        "#",
        " ",
        "b='c d'",
    ]
)


@FUZZ
@given(
    st.lists(PIECES, max_size=25).map("".join),
    st.lists(st.sampled_from(["a=2", "~a", "+a=3", "a.b=1", "b=q"]), max_size=3),
)
def test_no_script_breaks_the_reader_and_only_words_change(text: str, overrides: list[str]) -> None:
    found = rewrite(text, recipe_source="inline", overrides=overrides)
    if not config_commands(text):
        assert found.text == text
    assert len(found.words) <= text.count("=")


def test_a_large_script_and_a_hostile_one_are_read_to_the_end() -> None:
    text = "echo \"it's $(date)\" 'x'\n" * 20_000 + "python x.py --config r.yaml a=1\n"
    assert inline(text).words == ("a=1",)
    hostile = "$(" * 50_000 + "--config"  # work that grows with the square of the length would take hours
    assert inline(hostile).text == hostile


def test_a_word_made_by_the_shell_that_sets_more_than_the_command_line_is_warned_of() -> None:
    found = inline("p.py --config r.yaml a=$X", "a.b=1")
    assert found.text == f"p.py --config {NRL} a=$X"
    (said,) = found.notes
    assert said.severity == "warning"
    assert said.message == "the entrypoint's word a=$X sets all of a, after the command line's a.b=1"
