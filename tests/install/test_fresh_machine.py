"""install.sh as a newcomer runs it: everything from the package index, into an empty home, and gone again.

The tests share one installation; the last one removes it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable

import pytest

from install.machine import EXAMPLES, Machine


@pytest.fixture(scope="module")
def fresh(new_machine: Callable[[], Machine]) -> Machine:
    machine = new_machine()
    machine.without_help()
    machine.env["SHELL"] = "/bin/zsh"
    before = sorted(path.relative_to(machine.checkout) for path in machine.checkout.rglob("*"))
    machine.said = machine.install()  # type: ignore[attr-defined]
    after = sorted(path.relative_to(machine.checkout) for path in machine.checkout.rglob("*"))
    assert after == before, "the checkout was changed"
    return machine


def test_the_programs_are_linked_and_work(fresh: Machine) -> None:
    assert sorted(os.listdir(fresh.bin)) == ["kubectl", "kubectl-nrl", "kubectl_complete-nrl"]
    assert fresh.run("kubectl-nrl", "version").startswith("kubectl-nrl 0.")
    assert fresh.run("kubectl_complete-nrl", "che").startswith("check\t")


def test_kubectl_is_brought_and_finds_the_plugin(fresh: Machine) -> None:
    assert "gitVersion" in fresh.run("kubectl", "version", "--client", "-o", "json")
    assert fresh.run("kubectl", "nrl", "version") == fresh.run("kubectl-nrl", "version")


def test_check_works_outside_the_checkout(fresh: Machine) -> None:
    shutil.copytree(EXAMPLES, fresh.root / "work")
    words = ["check", "work/03-gb300/grpo-4n.yaml", "--infra", "work/03-gb300/gb300.infra.yaml", "-o", "json"]
    assert json.loads(fresh.run("kubectl-nrl", *words))


def test_every_step_and_the_way_onto_path_are_said(fresh: Machine) -> None:
    said = fresh.said  # type: ignore[attr-defined]
    steps = ["Python environment ...", "kubectl nrl and its libraries ...", "kubectl ...", "first start ..."]
    assert [line for line in said.splitlines() if line.endswith(" ...")] == steps
    assert f"{fresh.bin} is not on your PATH" in said
    assert f"""echo 'export PATH="{fresh.bin}:$PATH"' >> ~/.zshrc""" in said


def test_the_doctor_agrees(fresh: Machine) -> None:
    data = json.loads(fresh.run("kubectl-nrl", "doctor", "--install", "-o", "json"))
    assert data["failed"] == 0
    assert {item["status"] for item in data["items"]} == {"ok"}


def test_uninstall_leaves_nothing(fresh: Machine) -> None:
    assert fresh.attempt("--uninstall") == (0, "removed\n")
    assert fresh.left() == []
    assert fresh.attempt("--uninstall") == (0, f"nothing is installed in {fresh.data}\n")
    assert fresh.left() == []
