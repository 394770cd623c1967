"""install.sh where it cannot work: it says which step and why, and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from install.machine import PYTHON, Machine


def refused(machine: Machine, *words: str, code: int = 1, env: dict[str, str] | None = None) -> str:
    """What it said when it ended with that code, and left nothing."""
    found, said = machine.attempt(*words, env=env)
    assert found == code, said
    assert "error: " in said
    assert "hint: " in said
    assert machine.left() == []
    return said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--no-rya"], 'unrecognized argument "--no-rya"'),
        (["--prefix"], "--prefix needs a value"),
        (["--prefix="], "--prefix needs a value"),
        (["--python", ""], "--python needs a value"),
    ],
)
def test_wrong_words(words: list[str], said: str, machine: Machine) -> None:
    assert said in refused(machine, *words, code=2)


def test_help_is_the_head_of_the_script(machine: Machine) -> None:
    done = subprocess.run(
        [machine.checkout / "install.sh", "--help"], env=machine.env, capture_output=True, text=True, check=True
    )
    for flag in ("--uninstall", "--no-ray", "--prefix DIR", "--dev", "--python FILE"):
        assert flag in done.stdout
    assert machine.left() == []


def test_an_old_python_is_named(machine: Machine) -> None:
    machine.put("python3", "echo 3.8 0\n")
    said = refused(machine)
    assert f"no Python 3.10 or newer: {machine.tools}/python3 is 3.8" in said
    (machine.tools / "python3").unlink()
    assert "error: no Python 3.10 or newer\n" in refused(machine)
    assert "there is no pythonx" in refused(machine, "--python", "pythonx")


def test_a_newer_python_beside_an_old_one_is_found(machine: Machine) -> None:
    os.rename(machine.tools / "python3", machine.tools / "python3.11")
    machine.put("python3", "echo 3.8 0\n")
    # The next thing it does with it is to make an environment: enough to see which was chosen.
    machine.put("df", "echo head; echo x 1 1 1024 1 /\n")
    assert "MB are free" in refused(machine)


def test_a_python_that_makes_no_environments(machine: Machine) -> None:
    machine.put("python3", "case $2 in *ensurepip*) exit 1 ;; *version_info*) echo 3.12 1 ;; esac\n")
    said = refused(machine)
    assert f"{machine.tools}/python3 makes no virtual environments" in said
    assert "apt-get install python3-venv" in said


def test_no_network(machine: Machine) -> None:
    machine.without_help()
    env = {
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "1", "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_CACHE_DIR": "1", "PIP_FIND_LINKS": "", "PIP_EXTRA_INDEX_URL": "",
    }  # fmt: skip
    said = refused(machine, "--no-ray", env=env)
    assert "kubectl nrl and its libraries failed (1): pip cannot reach its package index" in said


def test_no_space_is_told_before_anything_is_built_and_in_the_middle(machine: Machine) -> None:
    machine.put("df", "echo Filesystem 1024-blocks Used Available Capacity Mounted; echo disk 9 9 204800 99% /\n")
    said = refused(machine)
    assert "200 MB are free" in said
    assert "1200 MB are needed" in said
    assert "300 MB are needed" in refused(machine, "--no-ray")
    (machine.tools / "df").unlink()
    full = f"""[ "$1 $2" != "-m venv" ] || {{ echo "OSError: [Errno 28] No space left on device" >&2; exit 1; }}
exec {PYTHON} "$@"
"""
    machine.put("python3", full)
    assert "Python environment failed (1): no space is left on the disk" in refused(machine, "--no-ray")


def test_a_home_that_cannot_be_written(new_machine: Callable[[], Machine]) -> None:
    """As a user who may not: root may write anywhere."""
    machine = new_machine()
    place = Path(tempfile.mkdtemp())
    try:
        os.chmod(place, 0o755)
        shutil.copytree(machine.checkout, place / "checkout")
        machine.checkout = place / "checkout"
        home = place / "home"
        home.mkdir(mode=0o555)
        user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        interpreter = shutil.which("python3", path="/usr/bin:/usr/local/bin")
        if not interpreter:
            pytest.skip("no python3 that another user may run")
        env = {"HOME": str(home), "PATH": "/usr/bin:/bin:/usr/local/bin", "TMPDIR": "/tmp"}
        process = machine.start(env=env, **user)
        said = process.communicate(timeout=60)[1]
        assert process.returncode == 1, said
        assert "Permission denied" in said or "makes no virtual environments" in said
        assert "hint: " in said
        assert list(home.iterdir()) == []
    finally:
        shutil.rmtree(place)


def test_without_a_home(machine: Machine) -> None:
    assert "HOME is not set" in refused(machine, env={"HOME": ""})


def read_until(process: subprocess.Popen[str], words: str) -> str:
    """The lines said until one begins with those words."""
    assert process.stderr
    said = ""
    for line in process.stderr:
        said += line
        if line.startswith(words):
            return said
    raise AssertionError(f"ended without {words!r}:\n{said}")


def _started(process: subprocess.Popen[str], machine: Machine) -> int:
    """The id of the step's process that wrote it to `started`."""
    file = machine.root / "started"
    while not (file.exists() and file.read_text().endswith("\n")):
        assert process.poll() is None
    return int(file.read_text())


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_stopped_in_the_middle_it_leaves_nothing(how: signal.Signals, machine: Machine) -> None:
    machine.put(
        "python3",
        f'[ "$1 $2" != "-m venv" ] || {{ echo $$ >"$TMPDIR/started"; exec sleep 300; }}\nexec {PYTHON} "$@"\n',
    )
    process = machine.start("--no-ray", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    read_until(process, "Python environment")
    pid = _started(process, machine)
    process.send_signal(how)
    process.communicate(timeout=60)
    assert process.returncode == 128 + how
    assert machine.left() == []
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_two_at_once_make_one_installation(machine: Machine) -> None:
    until = '[ "$1 $2" != "-m venv" ] || until [ -e "$TMPDIR/go" ]; do sleep 0.1; done\n'
    machine.put("python3", until + (machine.tools / "python3").read_text())
    first = machine.start("--no-ray")
    said = read_until(first, "Python environment")
    second = machine.start("--no-ray")
    waited = read_until(second, "another install is running")
    assert f"(process {first.pid})" in waited
    (machine.root / "go").touch()
    rest: list[str] = []
    reader = threading.Thread(target=lambda: rest.append(first.communicate(timeout=300)[1]))
    reader.start()
    waited += second.communicate(timeout=300)[1]
    reader.join()
    assert (first.returncode, second.returncode) == (0, 0), said + rest[0] + waited
    assert "already installed" in waited
    assert len(machine.environments()) == 1
    assert machine.run("kubectl-nrl", "version")


def test_killed_outright_the_next_one_clears_up_without_waiting(machine: Machine) -> None:
    helped = (machine.tools / "python3").read_text()
    machine.put(
        "python3",
        f'{PYTHON} "$@" || exit\n[ "$1 $2" != "-m venv" ] || {{ echo $$ >"$TMPDIR/started"; exec sleep 300; }}\n',
    )
    process = machine.start("--no-ray")
    pid = _started(process, machine)
    try:
        process.kill()
        process.communicate(timeout=60)
        assert not machine.bin.joinpath("kubectl-nrl").exists()
        assert len(machine.environments()) == 1
        (machine.tools / "python3").write_text(helped)
        assert "another install" not in machine.install()
        assert len(machine.environments()) == 1
        assert not list(machine.data.glob("stage-*"))
        assert machine.run("kubectl-nrl", "version")
    finally:
        os.kill(pid, signal.SIGKILL)
