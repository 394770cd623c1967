"""Flags that shape a Plan, run ids, and manifests as text."""

from __future__ import annotations

import argparse
from datetime import datetime, timezone

import pytest
import yaml

from kubectl_nrl.commands.manifest_text import manifests_yaml
from kubectl_nrl.commands.planning import add_launch_arguments, add_plan_arguments, plan_options
from kubectl_nrl.commands.session import Session
from kubectl_nrl.errors import UsageError
from kubectl_nrl.output import Output
from kubectl_nrl.parser import Parser
from kubectl_nrl.plan.model import Options


def session(**how: object) -> Session:
    return Session(Output(env={}), env={"NRL_K8S_USER": "ada"}, **how)  # type: ignore[arg-type]


def options(*words: str, **how: object) -> Options:
    parser = Parser("kubectl nrl run")
    add_plan_arguments(parser)
    add_launch_arguments(parser)
    return plan_options(parser.parse_words(["r.yaml", *words], argparse.Namespace()), session(**how))


def test_a_flag_that_is_not_given_is_none() -> None:
    assert options() == Options()


def test_every_flag_has_its_option() -> None:
    words = (
        "--raycluster --mode batch --submitter exec --code-source image --code-path /x --rayjob-name j --ttl 0 --hold 60 "
        "--no-wait --shutdown --local --repo-root /"
    )
    assert options(*words.split(), namespace="rl") == Options(
        mode="raycluster", run_mode="batch", submitter="exec", code_source="image", code_path="/x", rayjob_name="j",
        ttl=0, hold=60, wait=False, shutdown=True, namespace="rl", local=True, repo_root="/",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--ttl -1", "argument --ttl:"),
        ("--hold=-5", "argument --hold:"),
        ("--ttl 1.5", "argument --ttl:"),
        ("--ttl 1h", "argument --ttl:"),
        ("--ttl ٣", "argument --ttl:"),
        ("--ttl 60 --no-shutdown", "--ttl says when things are deleted"),
        ("--hold 60 --no-shutdown", "--hold says when things are deleted"),
        ("--rayjob --raycluster", "not allowed with"),
        ("--mode fast", "invalid choice: 'fast'"),
        ("--loca", 'unrecognized argument "--loca"'),
        ("--repo-root /no/such/directory", "is no directory"),
    ],
)
def test_flags_that_make_no_sense(words: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        options(*words.split())
    assert message in caught.value.message


def test_a_generated_id_is_time_and_a_suffix() -> None:
    clock = datetime.fromisoformat("2026-11-30T13:45:01+01:00")
    run = session(clock=lambda: clock, suffix=lambda: "ab12").new_run()
    assert run.id == "20261130-124501-ab12"
    assert run.short == "ab12"
    assert run.time == clock
    assert run.user.name == "ada"
    ids = {session().new_run().id for _ in range(20)}
    assert len(ids) == 20


@pytest.mark.parametrize("run_id", ["train-1", "a", "A.b_c-9", "x" * 63])
def test_run_ids_that_are_fine(run_id: str) -> None:
    assert session(clock=lambda: datetime.now(timezone.utc)).new_run(run_id).id == run_id


@pytest.mark.parametrize("run_id", ["", "team/train", "x" * 64, "a b", "..", "-a", "a-", "a\n", "é", "a;b"])
def test_run_ids_that_no_label_holds(run_id: str) -> None:
    with pytest.raises(UsageError, match="may contain only"):
        session().new_run(run_id)


AMBIGUOUS = [
    "1e-4",
    "1E5",
    "12",
    "1.",
    ".5",
    "0x1f",
    "0o17",
    "y",
    "N",
    "yes",
    "on",
    "null",
    "~",
    "true",
    "1_000",
    "",
    " a ",
    "a: b",
    "#x",
]


def test_strings_stay_strings_for_every_reader() -> None:
    text = manifests_yaml([{"env": [{"name": "A", "value": value} for value in AMBIGUOUS]}])
    assert [e["value"] for e in yaml.safe_load(text)["env"]] == AMBIGUOUS
    for value in ("1e-4", "1E5", "y", "N", "0o17", "1.", ".5"):
        assert f"value: '{value}'\n" in text, "unquoted, Kubernetes would read no string"


def test_shared_values_have_no_anchors_and_long_lines_stay_whole() -> None:
    shared = {"a": "x " * 400}
    text = manifests_yaml([{"one": shared, "two": shared}])
    assert "&" not in text
    assert len(text.splitlines()) == 4


def test_an_encoded_line_is_followed_by_what_it_runs() -> None:
    line = "sh -c ': nrl x; it'"
    manifest = {"spec": {"entrypoint": line, "list": [line]}}
    text = manifests_yaml([manifest, {"b": 1}], {line: "set -e\n\n\tpython é \x1b[31m\u2028x\n"})
    assert list(yaml.safe_load_all(text)) == [manifest, {"b": 1}]
    comments = [c.strip() for c in text.splitlines() if c.strip().startswith("#")]
    assert comments[:3] == ["# which runs:", "#   set -e", "#"]
    assert "\x1b" not in text
