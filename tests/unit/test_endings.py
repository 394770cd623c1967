"""The ends that others make: SIGTERM, a terminal that is closed, a reader that goes, a full disk behind a stream."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kubectl_nrl.errors import NrlError
from kubectl_nrl.output import Output

#: A command that waits, and takes back what it began in three steps with a word after each.
_PROGRAM = """
import os, signal, sys, time
from kubectl_nrl import app
from kubectl_nrl.output import Output

def main(argv):
    output = Output()
    try:
        os.write(int(argv[0]), b"waits")
        while True:  # for ever: pause() would miss a signal that comes just before it
            time.sleep(0.05)
    except KeyboardInterrupt:
        if "again" in argv:
            os.kill(os.getpid(), signal.SIGHUP)
        for step in range(3):
            output.progress(f"step {step}")
            os.write(int(argv[0]), b".")
        return 130
    return 0

app.main = main
app.entry()
"""


def waiting(*words: str, **how: Any) -> tuple[subprocess.Popen[bytes], int]:
    """The command, and what to read its steps from."""
    read, write = os.pipe()
    process = subprocess.Popen([sys.executable, "-c", _PROGRAM, str(write), *words], pass_fds=(write,), **how)
    os.close(write)
    assert os.read(read, 5) == b"waits"
    return process, read


def ended(process: subprocess.Popen[bytes], read: int) -> tuple[bytes, int, bytes | None]:
    """Its steps, exit code and stderr (None where that is no pipe)."""
    with os.fdopen(read, "rb") as file:
        steps = file.read()
    _, err = process.communicate(timeout=60)
    return steps, process.returncode, err


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["int", "term", "hup"]
)
def test_what_was_begun_is_taken_back_whichever_signal_asks_for_the_end(number: signal.Signals, code: int) -> None:
    process, read = waiting(stderr=subprocess.PIPE)
    process.send_signal(number)
    assert ended(process, read) == (b"...", code, b"step 0\nstep 1\nstep 2\n")


def test_the_second_signal_of_one_end_cuts_nothing_short() -> None:
    process, read = waiting("again", stderr=subprocess.DEVNULL)
    process.send_signal(signal.SIGHUP)
    assert ended(process, read) == (b"...", 129, None)


def test_nohup_is_obeyed() -> None:
    process, read = waiting(stderr=subprocess.DEVNULL, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    assert ended(process, read) == (b"...", 143, None)


def test_a_terminal_that_is_closed_does_not_cut_short_what_is_taken_back() -> None:
    master, slave = pty.openpty()
    process, read = waiting(
        stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(slave)
    os.close(master)
    assert ended(process, read) == (b"...", 129, None)


def shell(line: str) -> subprocess.CompletedProcess[bytes]:
    program = f"{sys.executable} -c 'from kubectl_nrl.app import entry; entry()'"
    return subprocess.run(["sh", "-c", f"{program} {line}"], capture_output=True, check=False, timeout=60)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    ("line", "code", "err"),
    [
        ("version >/dev/full", 1, b"error: standard output cannot be written: No space left on device\n"),
        ("version -o json >/dev/full", 1, b"error: standard output cannot be written: No space left on device\n"),
        ("version 2>/dev/full", 0, b""),
        ("nonsense 2>/dev/full", 2, b""),
    ],
)
def test_a_full_disk_behind_a_stream(line: str, code: int, err: bytes) -> None:
    done = shell(line)
    assert (done.returncode, done.stderr) == (code, err)


class Full(io.StringIO):
    """A stream onto a full disk."""

    def __init__(self, error: type[OSError] = OSError) -> None:
        super().__init__()
        self._error = error

    def write(self, text: str) -> int:
        raise self._error(28, "No space left on device")


@pytest.fixture
def onto(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put streams in the place of stdout or stderr."""

    def put(**streams: Any) -> None:
        for name, stream in streams.items():
            monkeypatch.setattr(f"sys.{name}", stream)

    return put


def test_a_log_that_cannot_be_shown_is_said_and_the_run_followed_all_the_same(
    onto: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    onto(stdout=Full())
    output = Output(env={})
    output.log(b"step 1\n")
    assert capsys.readouterr().err == (
        "warning: standard output cannot be written: No space left on device; the log goes on unseen\n"
    )
    output.log(b"step 2\n")
    assert capsys.readouterr().err == ""
    with pytest.raises(NrlError, match="standard output cannot be written"):
        output.require_seen()


def test_words_that_nobody_can_read_end_nothing_but_for_a_reader_who_left(onto: Callable[..., None]) -> None:
    onto(stderr=Full())
    Output(env={}).warn("careful")
    onto(stderr=Full(BrokenPipeError))
    with pytest.raises(BrokenPipeError):
        Output(env={}).warn("careful")


def test_the_signals_are_left_as_they_were_in_a_program_that_only_imports_this(tmp_path: Path) -> None:
    code = "import signal, kubectl_nrl.app; assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, timeout=60)
