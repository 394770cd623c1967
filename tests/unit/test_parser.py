"""Words of a command line: flags anywhere, overrides told from recipes, nothing abbreviated."""

from __future__ import annotations

import argparse

import pytest

from kubectl_nrl.errors import UsageError
from kubectl_nrl.parser import Parser, add_globals, did_you_mean, is_override, nearest, recipe_and_overrides, split_verb


def run_parser() -> Parser:
    parser = Parser("kubectl nrl run")
    parser.add_argument("words", nargs="*")
    parser.add_argument("--infra")
    parser.add_argument("--replace", action="store_true")
    parser.add_argument("--run-id")
    parser.add_argument("--wait", action=argparse.BooleanOptionalAction)
    parser.add_argument("--dry-run", action="store_const", const="client")
    parser.add_argument("--dry-run=server", dest="dry_run", action="store_const", const="server")
    add_globals(parser)
    return parser


def parse(*words: str, **before: object) -> argparse.Namespace:
    return run_parser().parse_words(words, argparse.Namespace(**before))


@pytest.mark.parametrize(
    "words",
    [
        ["r.yaml", "--infra", "i.yaml", "a.b=1", "c.d=2", "e=3"],
        ["r.yaml", "a.b=1", "--infra", "i.yaml", "c.d=2", "--", "e=3"],
        ["--infra=i.yaml", "r.yaml", "a.b=1", "c.d=2", "e=3"],
        ["r.yaml", "a.b=1", "c.d=2", "e=3", "--infra", "i.yaml"],
        ["--infra", "i.yaml", "--", "r.yaml", "a.b=1", "c.d=2", "e=3"],
    ],
)
def test_flags_stand_before_between_and_after_overrides(words: list[str]) -> None:
    args = parse(*words)
    assert args.infra == "i.yaml"
    assert recipe_and_overrides(args.words, "p") == ("r.yaml", ["a.b=1", "c.d=2", "e=3"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rep", "r.yaml"], 'unrecognized argument "--rep" (did you mean --replace?)'),
        (["r.yaml", "--run", "x"], 'unrecognized argument "--run" (did you mean --run-id?)'),
        (["r.yaml", "--run=x"], 'unrecognized argument "--run=x" (did you mean --run-id?)'),
        (["r.yaml", "--no-w"], 'unrecognized argument "--no-w" (did you mean --no-wait?)'),
        (["r.yaml", "-x=1"], 'unrecognized argument "-x=1"'),
        (["r.yaml", "--zzzzzz"], 'unrecognized argument "--zzzzzz"'),
        (["r.yaml", "--infra"], "argument --infra: expected one argument"),
        (["r.yaml", "--dry-run=client"], "argument --dry-run: ignored explicit argument 'client'"),
    ],
)
def test_what_is_no_flag_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(*words)
    assert caught.value.message == message
    assert caught.value.hint == "kubectl nrl run --help"


def test_values_with_dashes() -> None:
    assert parse("r.yaml", "lr=-1e-4", "-1").words == ["r.yaml", "lr=-1e-4", "-1"]
    assert parse("r.yaml", "--", "-x=1", "--infra", "--").words == ["r.yaml", "-x=1", "--infra", "--"]
    assert parse("--run-id=-5", "r.yaml").run_id == "-5"


def test_dry_run_never_eats_the_recipe() -> None:
    assert (parse("--dry-run", "r.yaml").dry_run, parse("--dry-run", "r.yaml").words) == ("client", ["r.yaml"])
    assert parse("--dry-run=server", "r.yaml").dry_run == "server"
    assert parse("r.yaml").dry_run is None


def test_globals_before_and_after_the_verb() -> None:
    top = Parser("kubectl nrl")
    add_globals(top, default=None)
    before, verb, rest = split_verb(["-n", "rl", "-v", "run", "r.yaml", "--context=c"], top)
    assert (before, verb, rest) == (["-n", "rl", "-v"], "run", ["r.yaml", "--context=c"])
    args = argparse.Namespace()
    top.parse_words(before, args)
    run_parser().parse_words(rest, args)
    assert (args.namespace, args.context, args.verbose, args.output) == ("rl", "c", True, "text")
    run_parser().parse_words(["-n", "after", "-p", "b.py"], args)
    assert args.namespace == "after"


def test_repeated_plugins_add_up_over_the_verb() -> None:
    args = argparse.Namespace(plugins=["a.py"])
    assert run_parser().parse_words(["-p", "b.py", "r.yaml"], args).plugins == ["a.py", "b.py"]


@pytest.mark.parametrize(
    ("argv", "split"),
    [
        ([], ([], None, [])),
        (["-n"], (["-n"], None, [])),
        (["-n", "run"], (["-n", "run"], None, [])),
        (["-nrun", "check"], (["-nrun"], "check", [])),
        (["--", "run", "x"], ([], "run", ["x"])),
        (["--"], ([], None, [])),
        (["run", "--", "x"], ([], "run", ["--", "x"])),
    ],
)
def test_the_verb_is_the_first_word_that_is_no_flag(argv: list[str], split: object) -> None:
    top = Parser("kubectl nrl")
    add_globals(top, default=None)
    assert split_verb(argv, top) == split


@pytest.mark.parametrize(
    "word",
    ["a=1", "a.b=1", "+a=1", "++a.b=[1,2]", "~a", "~a.b=1", "lr=-1e-4", "a='x y'", "a=", "a=b=c", "a={x:1}", "a=1\n2", "a-b=1",
     "infra.launch.env.NEW=1", "a[0]=1"],
)  # fmt: skip
def test_overrides(word: str) -> None:
    assert is_override(word)


@pytest.mark.parametrize(
    "word", ["r.yaml", "out/lr=1e-4/r.yaml", "./a=1", "=1", "", "+a", "a", "-x=1", "/a=1", "a b=1", "~", "+=1"]
)
def test_words_that_are_no_overrides(word: str) -> None:
    assert not is_override(word)


def test_a_second_recipe_is_refused() -> None:
    with pytest.raises(UsageError, match=r'unrecognized argument "b": the recipe is "r.yaml"'):
        recipe_and_overrides(["r.yaml", "a=1", "b"], "kubectl nrl run")
    assert recipe_and_overrides(["a=1"], "p") == (None, ["a=1"])


def test_nearest() -> None:
    assert nearest("rnu", ["run", "runs", "check"]) == "run"
    assert nearest("zzz", ["run"]) is None
    assert did_you_mean("--wai", ["--wait"]) == " (did you mean --wait?)"
    assert did_you_mean("x", []) == ""
