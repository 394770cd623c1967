"""Whose code is compared with this machine's commit, and the code's directory in every launch line."""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path
from typing import Any

import pytest
from plan_case import CPU, SHORT, Case

from kubectl_nrl.checkout import Checkout, comparison
from kubectl_nrl.commands.planning import add_launch_arguments, add_plan_arguments, load_plan
from kubectl_nrl.commands.session import Session
from kubectl_nrl.output import Output
from kubectl_nrl.parser import Parser
from kubectl_nrl.plan import Options

HERE = Checkout("1" * 40, "org/name")
ATTACHED = "profile: generic\nimage: reg.example/ray:1\nlaunch: {attach: {training: t}, codePath: /c, entrypoint: 'true', %s}\n"


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


@pytest.mark.parametrize("source", ["image", "lustre"])
@pytest.mark.parametrize(
    ("mode", "submitter", "how"),
    [("rayjob", None, "line"), ("raycluster", "portForward", "line"), ("raycluster", "exec", "script")],
)
def test_a_code_path_that_is_not_there_is_named_by_what_is_submitted(
    case: Case, source: str, mode: Any, submitter: str | None, how: str
) -> None:
    written = f"codeSource: {source}, codePath: /mnt/nemo-rl/no/code"
    infra = SHORT.replace("codeSource: image, codePath: /opt/code", written)
    workspace = "workspace: {kind: lustre, pvcName: shared}\n"
    plan = case.plan(infra + workspace, options=Options(mode=mode, submitter=submitter))
    done = subprocess.run(["sh", "-c", getattr(plan.launch, how)], capture_output=True, text=True, check=False)
    said = "the working directory /mnt/nemo-rl/no/code (launch.codePath) does not exist in this container"
    assert (done.returncode, done.stderr) == (1, f"kubectl nrl: {said}\n")


@pytest.mark.parametrize("mode", ["rayjob", "raycluster"])
def test_a_checkout_adds_the_comparison_and_nothing_else(case: Case, mode: Any) -> None:
    infra = SHORT + "submit: {submitter: portForward}\n"
    told = case.plan(infra, options=Options(mode=mode, checkout=HERE)).launch.script
    plain = case.plan(infra, options=Options(mode=mode)).launch.script
    assert told.replace(comparison(HERE, "/opt/code") + "\n", "") == plain != told


def planned(folder: Path, infra: str, *words: str) -> str:
    """The launch script of a command line in that directory."""
    (folder / "r.yaml").write_text(CPU)
    (folder / "i.yaml").write_text(infra)
    parser = Parser("kubectl nrl run")
    add_plan_arguments(parser)
    add_launch_arguments(parser)
    env = {"NRL_K8S_USER": "ada", "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder)}
    session = Session(Output(env={}), env=env, cwd=folder)
    args = parser.parse_words(["r.yaml", "--infra", "i.yaml", *words], argparse.Namespace())
    _, plan = load_plan(args, session)
    return plan.launch.script


@pytest.fixture
def checkout(tmp_path: Path) -> str:
    """A checkout in the current directory; its commit."""
    run = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in ("init -q", "remote add origin https://u:hidden-token@h/org/name", "commit -q --allow-empty -m one"):
        subprocess.run([*run, *words.split()], check=True)
    return subprocess.run([*run, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


LONG = ATTACHED % "peerWatcher: false"


@pytest.mark.parametrize(
    ("infra", "words", "compared"),
    [
        (SHORT, "", True),
        (
            SHORT.replace("image, ", "lustre, ") + "workspace: {kind: lustre, pvcName: shared, mountPath: /opt}\n",
            "",
            True,
        ),
        (SHORT, "--raycluster", True),
        (SHORT, "--code-source upload", False),
        (SHORT, "--mode interactive", False),
        (SHORT.replace("codeSource: image, ", ""), "", False),
        (SHORT, "--local", False),
        (LONG, "--code-source image", True),
        (LONG, "", False),
    ],
)
def test_code_on_the_pods_is_compared_and_code_from_here_is_not(
    tmp_path: Path, checkout: str, infra: str, words: str, compared: bool
) -> None:
    script = planned(tmp_path, infra, *words.split())
    assert (checkout in script) is compared
    assert "hidden-token" not in script


def test_repo_root_says_which_checkout_is_meant(tmp_path: Path, checkout: str) -> None:
    elsewhere = tmp_path / "files"
    (tmp_path / ".git").rename(tmp_path.parent / f"{tmp_path.name}.git")
    elsewhere.mkdir()
    (elsewhere / ".git").write_text(f"gitdir: {tmp_path.parent / tmp_path.name}.git\n")
    assert checkout not in planned(tmp_path, SHORT)
    assert checkout in planned(tmp_path, SHORT, "--repo-root", "files")
