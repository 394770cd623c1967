"""What is printed: where, in which form, and never a secret."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest
import yaml

from kubectl_nrl.cells import obeyed
from kubectl_nrl.errors import ConfigError, ExitCode, NrlError, Origin, Problem
from kubectl_nrl.output import Output
from kubectl_nrl.redaction import is_credential, redact, secrets_of
from kubectl_nrl.testing import check_result

PROBLEMS = [
    Problem("unknown key", Origin("infra.yaml", 3, 5), "did you mean queue?"),
    Problem("looks odd", Origin("infra.yaml", 9), severity="warning"),
    Problem("by the way", severity="note"),
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Answer:
    schema = "answer"

    def text(self) -> str:
        return "forty-two"

    def data(self) -> Any:
        return {"answer": 42, "z": "é"}


@pytest.mark.parametrize("form", ["text", "json", "yaml"])
def test_a_result_in_three_forms(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    Output(form, env={}).result(Answer())
    out = capsys.readouterr().out
    read = {"text": str.strip, "json": json.loads, "yaml": yaml.safe_load}[form]
    assert read(out) == ("forty-two" if form == "text" else {"answer": 42, "z": "é"})
    assert out.endswith("\n")


def test_problems_are_one_line_each_with_their_hint_below(capsys: pytest.CaptureFixture[str]) -> None:
    Output(env={}).problems(PROBLEMS)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "infra.yaml:3:5: error: unknown key",
        "hint: did you mean queue?",
        "infra.yaml:9: warning: looks odd",
        "note: by the way",
    ]


def test_quiet_keeps_warnings_and_drops_notes(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(env={}, quiet=True)
    output.problems(PROBLEMS[1:])
    output.note("n")
    output.progress("p")
    output.debug("d")
    output.warn("w")
    assert capsys.readouterr().err.splitlines() == ["infra.yaml:9: warning: looks odd", "warning: w"]


def test_an_error_as_data_only_while_stdout_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    error = ConfigError(PROBLEMS)
    Output("json", env={}).failure(error)
    captured = capsys.readouterr()
    data = json.loads(captured.out)
    check_result("error", data)
    assert [p["line"] for p in data["problems"]] == [3, 9, 0]
    assert "infra.yaml:3:5: error: unknown key" in captured.err
    output = Output("yaml", env={})
    output.line("some data")
    output.failure(NrlError("late", "wait", exit_code=ExitCode.CLUSTER))
    assert capsys.readouterr().out == "some data\n"
    Output("text", env={}).failure(error)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("env", "color", "terminal", "coloured"),
    [
        ({}, None, True, True),
        ({}, None, False, False),
        ({"NO_COLOR": "1"}, None, True, False),
        ({"NO_COLOR": ""}, None, True, True),
        ({"TERM": "dumb"}, None, True, False),
        ({}, False, True, False),
    ],
)
def test_colours_only_where_they_are_wanted(
    env: dict[str, str], color: bool | None, terminal: bool, coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    Output(env=env, color=color).error("x")
    assert ("\033[" in stream.getvalue()) is coloured
    assert "error:" in stream.getvalue()


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("HF_TOKEN", "hf_abc", True),
        ("WANDB_API_KEY", "x1", True),
        ("WANDB_APIKEY", "x1", True),
        ("DB_PASSWORD", "pw", True),
        ("AWS_SECRET_ACCESS_KEY", "a/b", True),
        ("hf_token", "abc", True),
        ("TOKEN", "abc", True),
        ("AWS_ACCESS_KEY", "AKIA", True),
        ("SSH_PRIVATE_KEY", "x", True),
        ("HF_TOKEN", "", False),
        ("MAX_TOKEN", "4096", False),
        ("USE_TOKEN", "true", False),
        ("HF_TOKEN_PATH", "/x", False),
        ("TOKENIZER", "abc", False),
        ("SECRETARY", "bob", False),
        ("HF_TOKEN", None, False),
    ],
)
def test_which_names_hold_credentials(name: str, value: object, secret: bool) -> None:
    assert is_credential(name, value) is secret


def test_secrets_of_the_environment_are_never_printed(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    env = {"HF_TOKEN": "hf_0123456789", "HOME": "/home/visible", "PIN_TOKEN": "12345678", "S_SECRET": "short"}
    assert secrets_of(env) == ("hf_0123456789",)
    output = Output(env=env, verbose=True)
    output.line("value hf_0123456789 /home/visible short 12345678")
    output.bytes(b"log hf_0123456789\xff\n")
    for say in (
        output.note,
        output.warn,
        output.debug,
        output.progress,
        output.plain,
        output.trace,
        output.error,
        output.hint,
    ):
        say("hf_0123456789")
    output.problems([Problem("got hf_0123456789", hint="hf_0123456789")])
    output.failure(NrlError("hf_0123456789", "hf_0123456789"))
    captured = capsysbinary.readouterr()
    assert b"hf_0123" not in captured.out + captured.err
    assert captured.out == b"value *** /home/visible short 12345678\nlog ***\xff\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("export HF_TOKEN=hf_abc; python", "export HF_TOKEN=***; python"),
        ('WANDB_API_KEY: "x y"', 'WANDB_API_KEY: "***"'),
        ("HF_TOKEN=$HF_TOKEN", "HF_TOKEN=$HF_TOKEN"),
        ('HF_TOKEN="$OTHER"', 'HF_TOKEN="$OTHER"'),
        ("MAX_TOKEN=4096", "MAX_TOKEN=4096"),
        ("a: 1\n  HF_TOKEN: abc\nb: 2", "a: 1\n  HF_TOKEN: ***\nb: 2"),
        ('  "HF_TOKEN": "abc",', '  "HF_TOKEN": "***",'),
        (
            "error: launch.env.HF_TOKEN: the value would be visible",
            "error: launch.env.HF_TOKEN: the value would be visible",
        ),
        ("tokenizer: abc", "tokenizer: abc"),
    ],
)
def test_literals_under_a_credentials_name(text: str, shown: str) -> None:
    assert redact(text) == shown


def test_what_a_terminal_cannot_show_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, "ascii", write_through=True))
    Output(env={}).line("é \udcff")
    assert raw.getvalue() == b"\\xe9 \\udcff\n"


def test_a_transfer_is_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Output(env={"TERM": "xterm"}).transfer("uploading", 2048) as told:
        told(1024)
        told(2048)
    assert "uploading" in sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert "2.0/2.0 KiB" in sys.stderr.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(("tty", "quiet", "total"), [(False, False, 10), (True, True, 10), (True, False, 0)])
def test_a_transfer_is_silent_elsewhere(monkeypatch: pytest.MonkeyPatch, tty: bool, quiet: bool, total: int) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal() if tty else io.StringIO())
    with Output(quiet=quiet).transfer("uploading", total) as told:
        told(5)
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]


#: Clears the screen, writes to the clipboard, moves the cursor by C1, turns text around.
NASTY = "a\x1b[2J\x1b]52;c;ZWNobw==\x07b\x9b2Jc\x7fd\u202ee\u2028f\rg"


@pytest.mark.parametrize("say", ["note", "warn", "error", "hint", "progress", "plain", "debug", "line"])
def test_a_terminal_obeys_nothing_of_what_other_people_wrote(say: str, capsys: pytest.CaptureFixture[str]) -> None:
    getattr(Output(env={}, verbose=True), say)(NASTY)
    captured = capsys.readouterr()
    shown = captured.out + captured.err
    assert not obeyed(shown)
    assert r"\x1b[2J" in shown
    assert r"\u202e" in shown


def test_colours_of_this_program_are_written_and_no_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = Output(env={}, color=True)
    output.warn("a \x1b[8mhidden\x1b[0m word")
    assert capsys.readouterr().err == "\x1b[33mwarning:\x1b[0m a \\x1b[8mhidden\x1b[0m word\n"


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_data_keeps_every_character_and_a_terminal_obeys_none(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    class Odd(Answer):
        def data(self) -> Any:
            return {"text": NASTY, "plain": "é"}

    Output(form, env={}).result(Odd())
    out = capsys.readouterr().out
    assert not obeyed(out)
    assert {"json": json.loads, "yaml": yaml.safe_load}[form](out) == {"text": NASTY, "plain": "é"}
