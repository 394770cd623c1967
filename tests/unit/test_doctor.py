"""`doctor`: each thing that can be wrong with this machine is found, with its fix, and nothing is waited for."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripted_server import Asked, Server, answer

from kubectl_nrl.commands import doctor, doctor_machine
from kubectl_nrl.commands.doctor_finding import Finding, Probe, examine
from kubectl_nrl.commands.session import Session
from kubectl_nrl.commands.verbs import VERBS
from kubectl_nrl.errors import ClusterError
from kubectl_nrl.output import Output
from kubectl_nrl.testing import Project

#: Any name that `find_spec` finds will do for an import that a stub interpreter carries out.
PRESENT = importlib.util.find_spec("pluggy")


def program(directory: Path, name: str, script: str = "") -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


def only(findings: Iterator[Finding]) -> Finding:
    (finding,) = findings
    return finding


def kubeconfig(project: Project, server: str) -> Path:
    return project.write(
        "kubeconfig",
        {
            "current-context": "lab",
            "contexts": [{"name": "lab", "context": {"cluster": "c", "user": "u", "namespace": "rl"}}],
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {"token": "0123456789abcdef"}}],
        },
    )


def api(*groups: str) -> Any:
    def reply(asked: Asked) -> bytes:
        if asked.target == "/version":
            return answer(200, {"gitVersion": "v1.34.4"})
        if asked.target == "/apis":
            entries = [{"name": group, "versions": [{"version": "v1"}]} for group in groups]
            return answer(200, {"groups": entries})
        if "accessreviews" in asked.target:
            return answer(201, {"status": {"allowed": True}})
        return answer(200, {"items": []})

    return reply


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A machine where all is well, but for a cluster."""
    monkeypatch.setattr(doctor, "PATIENCE", 60)
    monkeypatch.setattr(doctor, "PROGRAM_PATIENCE", 50)
    tools = tmp_path / "tools"
    own = program(tools, "kubectl-nrl")
    program(tools, "kubectl_complete-nrl")
    program(tools, "kubectl", """echo '{"clientVersion": {"gitVersion": "v1.34.0"}}'""")
    monkeypatch.setattr(doctor_machine, "_own_script", lambda: own)
    return Project(path=tmp_path, env={"PATH": f"{tools}:/usr/bin:/bin"})


def items(project: Project, words: str = "", *, failed: int) -> dict[str, dict[str, str]]:
    outcome = project.run(f"doctor -o json {words}")
    data = outcome.result("doctor")
    assert (outcome.exit, data["failed"]) == (1 if failed else 0, failed), outcome
    return {item["name"]: item for item in data["items"]}


def test_a_machine_where_all_is_well(project: Project) -> None:
    with Server(api("apps", "ray.io")) as server:
        kubeconfig(project, server.url)
        found = items(project, "--kubeconfig kubeconfig", failed=0)
        text = project.run("doctor --kubeconfig kubeconfig").ok().out
    assert {name for name, item in found.items() if item["status"] == "ok"} >= set(found) - {"ray", "dra", "operator"}
    assert found["cluster"]["message"] == f"{server.url} answers: Kubernetes v1.34.4"
    assert found["kubeconfig"]["message"] == "context lab, namespace rl"
    assert found["kubectl"]["message"].startswith("v1.34.0 (")
    assert found["user"]["message"] == "rl-user"
    assert text.endswith("nothing is wrong\n")
    assert "0123456789abcdef" not in text


def test_a_cluster_without_kuberay_fails_with_its_fix(project: Project) -> None:
    with Server(api("apps")) as server:
        kubeconfig(project, server.url)
        found = items(project, "--kubeconfig kubeconfig", failed=1)
    assert found["kuberay"]["fix"].startswith("helm install kuberay-operator")


def test_a_cluster_that_cannot_be_reached(project: Project) -> None:
    with Server(api()) as server:
        pass
    kubeconfig(project, server.url)
    found = items(project, "--kubeconfig kubeconfig", failed=1)
    assert found["kubeconfig"]["status"] == "ok"
    assert "cannot reach the API server" in found["cluster"]["message"]
    assert found["cluster"]["fix"]
    assert "kuberay" not in found


def test_no_kubeconfig_and_a_wrong_context(project: Project) -> None:
    assert "no Kubernetes configuration" in items(project, failed=1)["kubeconfig"]["message"]
    kubeconfig(project, "http://127.0.0.1:1")
    wrong = items(project, "--kubeconfig kubeconfig --context lap", failed=1)["kubeconfig"]
    assert "did you mean lab?" in wrong["message"]
    assert "kubectl config get-contexts" in wrong["fix"]


def test_the_text_shows_each_fix_below_its_item(project: Project) -> None:
    outcome = project.run("doctor")
    lines = outcome.out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("FAILED   kubeconfig"))
    assert lines[at + 1].strip().startswith("fix: ")
    assert lines[-1] == "1 failed"
    assert outcome.err == ""


def test_the_installation_alone_asks_neither_kubectl_nor_a_cluster(project: Project) -> None:
    found = items(project, "--install", failed=0)
    assert set(found) == {"python", "libraries", "plugins", "path", "shadows"}


def test_a_broken_plugin_and_a_shared_name(tmp_path: Path, project: Project) -> None:
    file = project.write("broken.py", "1 / 0\n")
    found = items(project, f"--install -p {file}", failed=1)
    assert "ZeroDivisionError" in found["plugins"]["message"]
    assert "-p no:broken" in found["plugins"]["fix"]
    outcome = project.run("doctor -o json", env={"NRL_K8S_USER": "", "USER": "root", "LOGNAME": "root"})
    (user,) = (item for item in outcome.json["items"] if item["name"] == "user")
    assert (user["status"], user["fix"]) == ("warning", "export KUBECTL_NRL_USER=your-name")


@pytest.mark.parametrize(
    ("script", "words"),
    [(None, "not on PATH"), ("echo nonsense", "does not say its version"), ("exit 3", "does not say its version")],
)
def test_kubectl_absent_or_not_itself(script: str | None, words: str, tmp_path: Path, project: Project) -> None:
    tools = tmp_path / "others"
    for name in ("kubectl-nrl", "kubectl_complete-nrl"):
        program(tools, name)
    if script is not None:
        program(tools, "kubectl", script)
    outcome = project.run("doctor -o json", env={"PATH": str(tools)})
    (found,) = (item for item in outcome.json["items"] if item["name"] == "kubectl")
    assert found["status"] == "failed"
    assert words in found["message"]
    assert found["fix"]


def test_a_directory_that_is_not_on_path_is_named_with_the_line_for_the_shell(tmp_path: Path) -> None:
    own = program(tmp_path / "bin", "kubectl-nrl")
    for shell, line in {
        "/bin/zsh": ">> ~/.zshrc",
        "/usr/bin/fish": f"fish_add_path {tmp_path}/bin",
        "/bin/bash": ">> ~/.bash",
    }.items():
        env = {"PATH": "/nowhere", "SHELL": shell}
        found = only(doctor_machine.program(env, own, str(own)))
        assert found.status == "failed"
        assert f"{tmp_path}/bin is not on PATH" in found.message
        assert line in found.fix


def test_another_copy_that_path_finds_first_fails_and_one_behind_warns(tmp_path: Path) -> None:
    own, other = program(tmp_path / "own", "kubectl-nrl"), program(tmp_path / "other", "kubectl-nrl")
    link = tmp_path / "links" / "kubectl-nrl"
    link.parent.mkdir()
    link.symlink_to(own)
    program(tmp_path / "links", "kubectl_complete-nrl")
    first = only(doctor_machine.program({"PATH": f"{other.parent}:{own.parent}"}, own, str(own)))
    assert first.status == "failed"
    assert str(other) in first.message
    behind = only(doctor_machine.program({"PATH": f"{link.parent}:{other.parent}"}, own, str(own)))
    assert behind.status == "warning"
    assert behind.fix == f"rm {other}"
    # The same program twice, by a link and by itself, is one.
    assert (
        only(doctor_machine.program({"PATH": f"{link.parent}:{own.parent}:{link.parent}"}, own, str(own))).status
        == "ok"
    )


def test_a_missing_completion_is_a_note(tmp_path: Path) -> None:
    own = program(tmp_path / "bin", "kubectl-nrl")
    _, completion = doctor_machine.program({"PATH": str(own.parent)}, own, str(own))
    assert (completion.name, completion.status) == ("completion", "note")


def test_files_that_take_a_verb_away_are_named(tmp_path: Path) -> None:
    files = [program(tmp_path / "bin", name) for name in ("kubectl-nrl-run", "kubectl-nrl-job-logs")]
    for harmless in ("kubectl-nrl", "kubectl-nrl-runner", "kubectl-nrlrun"):
        program(tmp_path / "bin", harmless)
    (tmp_path / "bin" / "kubectl-nrl-check").write_text("not executable")
    found = list(doctor_machine.shadows({"PATH": f"/absent:{tmp_path / 'bin'}"}, VERBS))
    assert {item.status for item in found} == {"failed"}
    assert {item.message.split()[2] for item in found} == {str(file) for file in files}
    assert any("`kubectl nrl job logs`" in item.message for item in found)
    assert only(doctor_machine.shadows({"PATH": "/absent"}, VERBS)).status == "ok"


def test_missing_libraries_and_an_old_python() -> None:
    missing = only(doctor_machine.libraries({"no_such_module_here": "that-thing>=1"}))
    assert missing.status == "failed"
    assert missing.fix == f"{sys.executable} -m pip install 'that-thing>=1'"
    assert only(doctor_machine.libraries()).status == "ok"
    assert only(doctor_machine.python((3, 9, 2))).status == "failed"
    assert only(doctor_machine.python()).status == "ok"


def test_the_libraries_are_those_that_setup_cfg_asks_for() -> None:
    import configparser

    config = configparser.ConfigParser()
    config.read(Path(__file__).parents[2] / "setup.cfg")
    needs = config["options"]["install_requires"].split()
    assert {need.split("<")[0].split(">")[0].split("=")[0] for need in needs} == {
        need.split("<")[0].split("=")[0] for need in doctor_machine.LIBRARIES.values()
    }


@pytest.mark.parametrize(
    ("script", "status", "words"),
    [
        ("echo 2.52.0", "ok", "2.52.0"),
        ("echo 'ImportError: no psutil' >&2; exit 1", "failed", "cannot be imported: ImportError: no psutil"),
        ("exec sleep 30", "ok", "whose import takes longer than"),
    ],
)
def test_ray(script: str, status: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: PRESENT)
    interpreter = program(tmp_path, "python", script)
    found = only(doctor_machine.ray(0.3 if "sleep" in script else 50, str(interpreter)))
    assert found.status == status
    assert words in found.message


def test_no_ray_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = only(doctor_machine.ray(50))
    assert found.status == "note"
    assert "ray[default]" in found.fix


def test_a_cluster_that_is_late_fails_and_a_busy_machine_does_not(project: Project) -> None:
    session = Session(Output(), env=project.env)
    late = {probe.late.name: probe.late for probe in doctor._probes(session, install_only=False)}
    assert [name for name, finding in late.items() if finding.status == "failed"] == ["cluster"]
    assert all(finding.fix for finding in late.values())


def test_what_does_not_answer_is_said_with_what_did() -> None:
    end = threading.Event()

    def slow() -> Iterator[Finding]:
        yield Finding("kubeconfig", "ok", "context lab")
        end.wait(60)

    def refused() -> Iterator[Finding]:
        raise ClusterError("no", "do this")
        yield

    def broken() -> Iterator[Finding]:
        raise ValueError("odd")
        yield

    late = Finding("cluster", "failed", "no answer")
    probes = [
        Probe(slow, late),
        Probe(refused, Finding("kuberay", "failed", "late")),
        Probe(broken, Finding("ray", "failed", "late")),
        Probe(lambda: [Finding("user", "ok", "me")], Finding("user", "failed", "late")),
    ]
    found = examine(probes, 1)
    end.set()
    assert found == [
        Finding("kubeconfig", "ok", "context lab"),
        late,
        Finding("kuberay", "failed", "no", "do this"),
        Finding("ray", "failed", "could not be checked: ValueError: odd"),
        Finding("user", "ok", "me"),
    ]


def test_a_program_on_path_is_run_by_kubectl(project: Project) -> None:
    """The premise of `shadows`: kubectl does prefer the longer name. Skipped where there is no kubectl."""
    import shutil
    import subprocess

    real = shutil.which("kubectl", path=os.environ.get("PATH"))
    if real is None:
        pytest.skip("no kubectl here")
    tools = project.root / "shadowing"
    program(tools, "kubectl-nrl", "echo plain")
    program(tools, "kubectl-nrl-run", "echo shadow")
    env = {"PATH": f"{tools}:/usr/bin:/bin", "HOME": str(project.home)}
    done = subprocess.run([real, "nrl", "run", "x"], env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == "shadow\n"
