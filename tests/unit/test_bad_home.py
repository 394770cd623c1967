"""A home that is somebody else's, is no directory, or is none at all: every command answers, and nothing lands in the working directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kubectl_nrl.run_directory import any_local, directory

COMMANDS = ["runs --local", "status", "status abc", "job logs abc", "clean --local", "cluster list", "logs x -n y"]
_PROGRAM = """
import sys
from kubectl_nrl.app import main
for line in sys.argv[1:]:
    print(line, main(line.split()), file=sys.stderr)
"""


def answers(home: str | None, cwd: Path, *before: str) -> dict[str, int]:
    """The exit codes of `COMMANDS` with that HOME, run by way of the words `before`."""
    # The last is of a pod that runs the tests.
    of_ours = ("HOME", "KUBECONFIG", "XDG_STATE_HOME", "KUBERNETES_SERVICE_HOST")
    env = {name: value for name, value in os.environ.items() if name not in of_ours}
    env |= {} if home is None else {"HOME": home}
    words = [*before, sys.executable, "-c", _PROGRAM, *COMMANDS]
    done = subprocess.run(words, env=env, cwd=cwd, capture_output=True, text=True, check=True, timeout=120)
    ended = [line.rpartition(" ") for line in done.stderr.splitlines() if line.rpartition(" ")[0] in COMMANDS]
    assert "this is a bug" not in done.stderr
    return {line: int(code) for line, _, code in ended}


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    made = tmp_path / "cwd"
    made.mkdir()
    return made


def test_a_home_of_another_user_ends_no_command_as_a_bug(tmp_path: Path, cwd: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    if os.geteuid():
        home.chmod(0)
        found = answers(str(home), cwd)
    else:  # root reads everything, unless it is told not to
        os.chown(home, 1000, 1000)
        found = answers(str(home), cwd, "setpriv", "--bounding-set=-dac_override,-dac_read_search")
    assert list(found) == COMMANDS
    assert {found["runs --local"], found["status"], found["clean --local"]} == {0}
    assert 70 not in found.values()


def test_a_home_that_is_no_directory_ends_no_command_as_a_bug(cwd: Path) -> None:
    assert 70 not in answers(os.devnull, cwd).values()


@pytest.mark.parametrize("home", ["", "relative"])
def test_without_a_home_nothing_is_kept_and_nothing_made_in_the_working_directory(
    cwd: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    monkeypatch.chdir(cwd)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # as without HOME and an entry in /etc/passwd
    with pytest.raises(OSError, match="HOME is not set"):
        directory("run-1", {"HOME": home}).mkdir(parents=True)
    assert not any_local({"HOME": home})
    assert list(cwd.iterdir()) == []
