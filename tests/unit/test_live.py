"""Lines that move at the foot of a terminal: nothing else is torn by them, and nothing of them stays behind."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from terminal import Terminal

from kubectl_nrl import live
from kubectl_nrl.live import Live
from kubectl_nrl.output import Output


def drawn(terminal: Terminal, *texts: str) -> Live:
    panel = Live(terminal.write, terminal.size, lambda text, colour: text)
    panel.show(lambda columns, rows: [[(text[: columns - 1], "")] for text in texts][: rows - 1])
    return panel


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """No drawing but that of the test itself."""
    monkeypatch.setattr(live, "TICK", 3600.0)


def test_a_frame_takes_the_place_of_the_one_before() -> None:
    terminal = Terminal()
    panel = drawn(terminal, "one", "two", "three")
    panel.show(lambda columns, rows: [[("four", "")]])
    assert terminal.screen == ["four"]
    panel.close()
    assert terminal.screen == []


def test_what_is_said_meanwhile_stands_above_in_whole_lines() -> None:
    terminal = Terminal()
    terminal.write("before\n")
    panel = drawn(terminal, "panel 1", "panel 2")
    for word in ("first", "second"):
        with panel.aside():
            terminal.write(f"{word}\n")
    assert terminal.screen == ["before", "first", "second", "panel 1", "panel 2"]
    panel.close()
    assert terminal.screen == ["before", "first", "second"]


@pytest.mark.parametrize("columns", [200, 79, 41, 40, 13])
def test_a_resized_terminal_keeps_no_copy_of_a_frame(columns: int) -> None:
    terminal = Terminal(80)
    terminal.write("before\n")
    panel = drawn(terminal, "x" * 200, "short", "y" * 100)
    terminal.resize(columns)
    panel.show(lambda columns, rows: [[("after", "")]])
    assert terminal.screen == ["before", "after"]
    terminal.resize(5)
    panel.close()
    assert terminal.screen == ["befor", "e"]


def test_a_terminal_made_narrow_and_wide_again_loses_nothing() -> None:
    terminal = Terminal(80)
    terminal.write("before 1\nbefore 2\nbefore 3\n")
    panel = drawn(terminal, "x" * 79, "y" * 79)
    for columns in (30, 120, 25, 80):
        terminal.resize(columns)
        for text in ("first", "second"):
            panel.show(lambda columns, rows, text=text: [[(text * 4, "")] for _ in range(6)])  # type: ignore[misc]
        assert terminal.screen == ["before 1", "before 2", "before 3", *["second" * 4] * 6]


@pytest.mark.parametrize("columns", [80, 50, 200])
def test_a_frame_at_the_top_of_the_screen_is_not_kept_above_it(columns: int) -> None:
    terminal = Terminal(80, 4)
    terminal.write("before\n")
    panel = drawn(terminal, "x" * 79, "y" * 79, "z")
    terminal.resize(columns)
    panel.show(lambda columns, rows: [[(text, "")] for text in ("one", "two", "three")])
    if columns >= 80:  # else some of it stands above the screen, where no program gets at it
        assert terminal.screen == ["before", "one", "two", "three"]
    panel.close(["last"])
    assert terminal.screen[-1] == "last"
    assert "one" not in terminal.screen


def test_nothing_is_drawn_after_the_end() -> None:
    terminal = Terminal()
    panel = drawn(terminal, "one")
    panel.close()
    panel.show(lambda columns, rows: [[("two", "")]])
    with panel.aside():
        terminal.write("said\n")
    assert terminal.screen == ["said"]


def test_a_terminal_that_went_away_ends_the_drawing_without_an_error() -> None:
    def gone(text: str) -> None:
        raise BrokenPipeError

    panel = Live(gone, lambda: (80, 24), lambda text, colour: text)
    panel.show(lambda columns, rows: [[("one", "")]])
    panel.show(lambda columns, rows: [[("two", "")]])
    panel.close()


def test_the_picture_follows_the_clock_and_the_size_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "TICK", 0.001)
    terminal, told, seen = Terminal(), ["one"], threading.Event()

    def view(columns: int, rows: int) -> list[list[tuple[str, str]]]:
        if (told[0], columns) == ("two", 30):
            seen.set()
        return [[(told[0], "")]]

    panel = Live(terminal.write, terminal.size, lambda text, colour: text)
    panel.show(view)
    told[0] = "two"
    with panel.aside():
        terminal.resize(30)
    assert seen.wait(60)
    panel.close()
    assert terminal.screen == []


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Both streams on one terminal."""
    terminal = Terminal(40, 10)
    # Not sys.stderr itself: pytest puts its own there between a fixture and its test.
    for module in ("output", "streams"):
        monkeypatch.setattr(f"kubectl_nrl.{module}.sys", SimpleNamespace(stdout=terminal, stderr=terminal))
    monkeypatch.setattr("kubectl_nrl.output._size", lambda stream=None: terminal.size())
    return terminal


SAID: list[tuple[Callable[[Output], None], list[str]]] = [
    (lambda output: output.progress("on its way"), ["on its way"]),
    (lambda output: output.warn("careful"), ["warning: careful"]),
    (lambda output: output.line("data"), ["data"]),
    (lambda output: output.error("no", "do"), ["error: no", "hint: do"]),
]


@pytest.mark.parametrize(("say", "lines"), SAID)
def test_every_kind_of_line_goes_above_the_panel(
    terminal: Terminal, say: Callable[[Output], None], lines: list[str]
) -> None:
    output = Output(env={"NO_COLOR": "1"})
    panel = output.panel()
    panel.draw(lambda columns, rows: [[("panel", "red")]])
    say(output)
    assert terminal.screen == [*lines, "panel"]
    panel.close()
    assert terminal.screen == lines


def test_the_first_byte_of_a_log_ends_the_panel_for_good(terminal: Terminal) -> None:
    output = Output(env={"NO_COLOR": "1"})
    panel = output.panel()
    panel.draw(lambda columns, rows: [[("panel", "")]], lambda: ["ready after 3s"])
    output.log(b"step 1")
    panel.draw(lambda columns, rows: [[("again", "")]])
    output.log(b"/60\n")
    assert terminal.screen == ["ready after 3s", "step 1/60"]
    assert not panel.live


def test_a_panel_may_stay_as_lines_among_others(terminal: Terminal) -> None:
    output = Output(env={"NO_COLOR": "1"})
    panel = output.panel()
    panel.draw(lambda columns, rows: [[("waits for a GPU", "")]], lambda: ["ready"])
    panel.close(keep=True)
    output.progress("interrupted")
    assert terminal.screen == ["waits for a GPU", "interrupted"]


def test_what_is_sent_meanwhile_is_a_line_of_the_panel_and_does_not_end_it(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = Output(env={"NO_COLOR": "1"})
    panel = output.panel()
    panel.draw(lambda columns, rows: [[("waits", "")]])
    with output.transfer("uploading", 40 * 2**20) as sent:
        sent(10 * 2**20)
        panel.draw(lambda columns, rows: [[("waits", "")]] * min(rows - 1, 30))
        assert terminal.screen == [*["waits"] * 8, "uploading 10.0/40.0 MiB"]
    panel.draw(lambda columns, rows: [[("still waits", "")]])
    assert terminal.screen == ["still waits"]
    panel.close()


def test_secrets_are_not_drawn(terminal: Terminal) -> None:
    output = Output(env={"NO_COLOR": "1", "HF_TOKEN": "hf_0123456789"})
    panel = output.panel()
    panel.draw(lambda columns, rows: [[("env hf_0123456789 end", "")]])
    assert terminal.screen == ["env *** end"]
    panel.close()


@pytest.mark.parametrize(
    ("env", "quiet", "live"),
    [({}, False, True), ({"TERM": "dumb"}, False, False), ({}, True, False), ({"NO_COLOR": "1"}, False, True)],
)
def test_where_a_panel_is_drawn(terminal: Terminal, env: dict[str, str], quiet: bool, live: bool) -> None:
    assert Output(env=env, quiet=quiet).panel().live is live


def test_no_colour_means_no_colour_sequence(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(terminal, "write", lambda text: written.append(text) or len(text))
    panel = Output(env={}, color=False).panel()
    panel.draw(lambda columns, rows: [[("panel", "red")]])
    panel.close()
    assert "panel" in "".join(written)
    assert not [text for text in written if "m" in text.replace("panel", "")]


def test_a_panel_leaves_the_cursor_alone_and_a_pipe_without_a_sequence() -> None:
    program = (
        "from kubectl_nrl.output import Output\n"
        "output = Output()\npanel = output.panel()\n"
        "panel.draw(lambda columns, rows: [[('panel', 'red')]])\noutput.progress('said')\nraise SystemExit(3)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "said\n")
