"""install.sh over an installation: nothing to do, newer sources, a step that fails, other places, foreign files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from install.machine import Machine


@pytest.fixture(scope="module")
def installed(new_machine: Callable[[], Machine]) -> Machine:
    machine = new_machine()
    machine.install()
    return machine


def test_a_kubectl_that_is_there_is_left_alone(installed: Machine) -> None:
    assert sorted(os.listdir(installed.bin)) == ["kubectl-nrl", "kubectl_complete-nrl"]
    assert not (installed.data / "venv" / "bin" / "kubectl").exists()


def test_a_second_run_changes_nothing(installed: Machine) -> None:
    before = installed.environments()
    said = installed.install()
    assert "already installed" in said
    assert installed.environments() == before
    assert installed.run("kubectl-nrl", "version")


def test_a_link_that_was_lost_is_put_back(installed: Machine) -> None:
    (installed.bin / "kubectl-nrl").unlink()
    assert "already installed" in installed.install()
    assert installed.run("kubectl-nrl", "version")


def test_newer_sources_take_the_place_of_the_old(installed: Machine) -> None:
    before = installed.environments()
    with open(installed.checkout / "kubectl_nrl" / "__init__.py", "a") as file:
        file.write('\n__version__ = "9.9.9"\n')
    installed.install()
    assert len(installed.environments()) == 1
    assert installed.environments() != before
    assert installed.run("kubectl-nrl", "version").startswith("kubectl-nrl 9.9.9 ")


def test_a_step_that_fails_leaves_the_installation_as_it_was(installed: Machine) -> None:
    before, listed = installed.environments(), sorted(os.listdir(installed.data))
    with open(installed.checkout / "setup.cfg") as file:
        text = file.read()
    (installed.checkout / "setup.cfg").write_text(text.replace("    pluggy", "    no-such-package-zz\n    pluggy", 1))
    code, said = installed.attempt("--no-ray", env={"PIP_NO_INDEX": "1"})
    (installed.checkout / "setup.cfg").write_text(text)
    assert code == 1, said
    assert "error: kubectl nrl and its libraries failed (1): " in said
    assert "no-such-package-zz" in said
    assert (installed.environments(), sorted(os.listdir(installed.data))) == (before, listed)
    assert installed.run("kubectl-nrl", "version")


def test_what_still_runs_is_not_pulled_away(installed: Machine) -> None:
    runs = subprocess.Popen([installed.data / "venvs" / installed.environments()[0] / "bin" / "python", "-c", "input()"],
                            stdin=subprocess.PIPE)  # fmt: skip
    try:
        code, said = installed.attempt("--uninstall")
        assert (code, f"process {runs.pid}" in said) == (1, True), said
        assert installed.run("kubectl-nrl", "version")
    finally:
        runs.communicate(b"\n", timeout=30)


def test_uninstall_leaves_what_it_did_not_make(installed: Machine) -> None:
    (installed.bin / "mine").write_text("mine")
    (installed.bin / "kubectl-nrl").unlink()
    (installed.bin / "kubectl-nrl").write_text("mine too")
    assert installed.attempt("--uninstall")[0] == 0
    assert installed.left() == [".local", ".local/bin", ".local/bin/kubectl-nrl", ".local/bin/mine"]


def test_a_foreign_file_is_not_replaced(machine: Machine) -> None:
    machine.bin.mkdir(parents=True)
    (machine.bin / "kubectl-nrl").write_text("mine")
    code, said = machine.attempt("--no-ray")
    assert code == 1
    assert f"{machine.bin}/kubectl-nrl is there already and was not made by this script" in said
    assert "hint: " in said
    assert machine.left() == [".local", ".local/bin", ".local/bin/kubectl-nrl"]
    assert (machine.bin / "kubectl-nrl").read_text() == "mine"


def test_editable_with_the_test_tools_in_another_prefix(machine: Machine) -> None:
    said = machine.install("--dev", "--prefix", "here", env={"SHELL": "/usr/bin/fish"})
    prefix = machine.root / "here" / "bin"
    assert f"fish_add_path '{prefix}'" in said
    assert not machine.bin.exists()
    program = str(prefix / "kubectl-nrl")
    with open(machine.checkout / "kubectl_nrl" / "__init__.py", "a") as file:
        file.write('\n__version__ = "8.8.8"\n')
    assert machine.run(program, "version").startswith("kubectl-nrl 8.8.8 ")
    assert "already installed" in machine.install(
        "--dev", "--prefix=here", env={"PATH": f"{prefix}:{machine.env['PATH']}"}
    )
    python = machine.data / "venv" / "bin" / "python"
    subprocess.run([python, "-c", "import pytest, hypothesis, kubectl_nrl"], check=True, env={}, cwd="/")
    assert machine.attempt("--uninstall")[0] == 0
    assert machine.left() == []
    assert not (machine.root / "here").exists()
    assert not list(Path(machine.checkout).glob("*.egg-info"))
