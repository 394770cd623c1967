"""What a TAB answers: kubectl's protocol, and the three shells' scripts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kubectl_nrl.commands.completion import DEFAULT, FILE_EXTENSIONS, NO_FILES, SCRIPTS, complete
from kubectl_nrl.testing import Project


def names(words: list[str]) -> list[str]:
    return [line.split("\t")[0] for line in complete(words)[0]]


def test_verbs_with_their_summaries() -> None:
    verbs = "init check run job logs status cluster clean runs verify plugins doctor completion version"
    assert names([""]) == verbs.split()
    assert names(["-n", "rl", "ver"]) == ["verify", "version"]
    assert complete(["vers"]) == (["version\tprint the version"], NO_FILES)
    assert names([]) == names([""])


@pytest.mark.parametrize(
    ("words", "found", "directive"),
    [
        (["completion", ""], ["bash", "zsh", "fish"], NO_FILES),
        (["completion", "z"], ["zsh"], NO_FILES),
        (["completion", "bash", ""], [], NO_FILES),
        (["version", "-o", ""], ["text", "json", "yaml"], NO_FILES),
        (["-o", "j"], ["json"], NO_FILES),
        (["version", "--output=y"], ["--output=yaml"], NO_FILES),
        (["check", ""], ["yaml", "yml"], FILE_EXTENSIONS),
        (["check", "r.yaml", "--infra", ""], ["yaml", "yml"], FILE_EXTENSIONS),
        (["check", "--format", ""], ["yaml", "json"], NO_FILES),
        (["check", "--man"], ["--manifests-only"], NO_FILES),
        (["-p", ""], ["py"], FILE_EXTENSIONS),
        (["--kubeconfig", ""], [], DEFAULT),
        (["-n", ""], [], NO_FILES),
        (["nope", ""], [], NO_FILES),
        (["check", "--", ""], [], NO_FILES),
        (["--str"], ["--strict-plugins"], NO_FILES),
    ],
)
def test_values(words: list[str], found: list[str], directive: int) -> None:
    assert (names(words), complete(words)[1]) == (found, directive)


@pytest.fixture
def shell_env(tmp_path: Path) -> dict[str, str]:
    """PATH with both programs, and a directory with something to complete."""
    for name, target in {
        "kubectl-nrl": "from kubectl_nrl.app import entry as go",
        "kubectl_complete-nrl": "from kubectl_nrl.commands.completion import complete_entry as go",
    }.items():
        script = tmp_path / "bin" / name
        script.parent.mkdir(exist_ok=True)
        script.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{target}; go()' \"$@\"\n")
        script.chmod(0o755)
    for name in ("recipe.yaml", "notes.txt"):
        (tmp_path / name).touch()
    return {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "HOME": str(tmp_path)}


def shell(name: str, script: str, env: dict[str, str]) -> list[str]:
    if not shutil.which(name):
        pytest.skip(f"no {name} here")
    flags = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[name]
    done = subprocess.run(
        [name, *flags, "-c", script], env=env, cwd=env["HOME"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("''", "version"),
        ("che", "check"),
        ("check re", "recipe.yaml"),
        ("check --man", "--manifests-only"),
        ("-o y", "yaml"),
    ],
)
def test_bash(words: str, wanted: str, shell_env: dict[str, str]) -> None:
    script = f"""
        source <(kubectl-nrl completion bash)
        compopt() {{ :; }}
        COMP_WORDS=(kubectl-nrl {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        _kubectl_nrl; printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    found = shell("bash", script, shell_env)
    assert wanted in found
    assert "notes.txt" not in found


@pytest.mark.parametrize(("words", "wanted"), [("", "version"), ("che", "check"), ("check re", "recipe.yaml")])
def test_fish(words: str, wanted: str, shell_env: dict[str, str]) -> None:
    script = f'kubectl-nrl completion fish | source; complete -C "kubectl-nrl {words}"'
    assert wanted in shell("fish", script, shell_env)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [("''", "version:print the version"), ("check ''", "files: -g *.(yaml|yml)(-.)"), ("-o y", "yaml")],
)
def test_zsh(words: str, wanted: str, shell_env: dict[str, str]) -> None:
    # Completion widgets run inside a line editor only; the two functions that offer are replaced to see what they get.
    script = f"""
        autoload -Uz compinit && compinit -D
        source <(kubectl-nrl completion zsh)
        _describe() {{ print -l -- "${{(P@)2}}" }}
        _files() {{ print -- "files: $*" }}
        words=(kubectl-nrl {words}); CURRENT=$#words; _kubectl_nrl
    """
    assert wanted in shell("zsh", script, shell_env)


def test_the_verb_prints_the_script(tmp_path: Path) -> None:
    for name, script in SCRIPTS.items():
        assert Project(path=tmp_path).run(f"completion {name}").ok().out == script


def test_kubectl_finds_it(shell_env: dict[str, str]) -> None:
    if not shutil.which("kubectl"):
        pytest.skip("no kubectl here")
    done = subprocess.run(
        ["kubectl", "__complete", "nrl", "check", "--man"],
        env=shell_env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout.startswith("--manifests-only\t"), done
    assert done.stdout.endswith(":4\n")
