"""`verify`, and `status`, of one run on this machine: its state, its log, and that no process, port or session directory is left."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from local_case import RUN_ID, Local
from waiting import wait_until

from kubectl_nrl.local import LocalRecord, Role, processes, record
from kubectl_nrl.run_directory import directory
from kubectl_nrl.testing import Project

ENDED = {"state": "SUCCEEDED", "exit_status": 0, "torn_down": True}
EXPECTS = {"wandbEnabled": "true", "generationBackend": "vllm"}


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Local]:
    made = Local(tmp_path, monkeypatch)
    yield made
    made.end()


class Here:
    """A run `one` of this machine as its record has it; no process runs it."""

    def __init__(self) -> None:
        self.project = Project()
        self.folder = directory("one", self.project.env)
        self.folder.mkdir(parents=True)

    def put(self, log: str | None = None, **values: Any) -> None:
        record.write(LocalRecord("one", "run", folder=self.folder, **values))
        if log is not None:
            (self.folder / record.LOG).write_text(log)

    def items(self, code: int = 0) -> dict[str, Any]:
        done = self.project.run("verify one -o json")
        assert done.exit == code, done
        told = done.result("verify")
        assert (told["local"], told["namespace"], told["rayjob"], told["rayCluster"]) == (True, "", "", "")
        return {item["title"]: item for item in told["items"]} | {"state": told["state"]}


@pytest.fixture
def here() -> Here:
    return Here()


def test_a_run_that_ended_well_passes_every_item(local: Local) -> None:
    local.project.write(
        "recipe.yaml", {"logger": {"wandb_enabled": True}, "policy": {"generation": {"backend": "vllm"}}}
    )
    entrypoint = f"""
        {sys.executable} -c pass --config r.yaml
        echo wandb: View run at https://wandb.ai/t/p/runs/abc
        echo 'Processed prompts: 100%|####| 32/32'"""
    local.run(entrypoint).ok()
    local.over()
    done = local.project.run(f"verify {RUN_ID}").ok()
    assert done.out == (
        f"local run {RUN_ID}\n"
        "ok      job         SUCCEEDED\n"
        "ok      log         read to its end\n"
        "ok      wandb       https://wandb.ai/t/p/runs/abc\n"
        "ok      generation  Processed prompts: 100%|####| 32/32\n"
        "ok      teardown    no process, no port and no session directory is left\n"
        "nothing is wrong\n"
    )
    assert local.project.run("verify recipe.yaml").ok().out == done.out
    assert local.record.expects == {"wandbEnabled": "true", "generationBackend": "vllm"}


def test_a_run_that_goes_on_and_one_whose_supervisor_was_killed(local: Local) -> None:
    local.begin("echo up; sleep 600")
    done = local.project.run(f"verify {RUN_ID}")
    assert (done.exit, "it is not over: RUNNING" in done.out, "the run is not over" in done.out) == (1, True, True), (
        done
    )
    os.kill(local.record.supervisor, signal.SIGKILL)
    local.until(lambda run: not run.alive)
    told = local.project.run(f"verify {RUN_ID} -o json").result("verify")
    items = {item["title"]: item for item in told["items"]}
    assert (told["state"], told["final"], items["job"]["ok"]) == ("ORPHANED", None, None)
    assert items["teardown"]["detail"].startswith("still there: ")
    assert "processes (" in items["teardown"]["detail"]
    assert items["teardown"]["fix"] == "kubectl nrl clean"
    local.project.run("clean --yes").ok()
    done = local.project.run(f"verify {RUN_ID}")
    assert (done.exit, "FAILED (Orphaned: the run's supervisor was killed)" in done.out, "no process" in done.out) == (
        1,
        True,
        True,
    )


def test_what_the_log_lacks_fails_once_the_run_is_over(here: Here) -> None:
    here.put("nothing of it\n", expects=EXPECTS, **ENDED)
    items = here.items(1)
    assert (items["wandb"]["ok"], items["generation"]["ok"], items["teardown"]["ok"]) == (False, False, True)
    assert items["wandb"]["fix"] == "kubectl nrl job logs one"


def test_a_run_that_failed_says_with_what(here: Here) -> None:
    here.put("", state="FAILED", reason="AppFailed", message="exit status 7", torn_down=True)
    assert here.items(1)["job"]["detail"] == "FAILED (AppFailed: exit status 7)"


def test_a_run_without_a_driver_has_no_log(here: Here) -> None:
    here.put(state="FAILED", reason="RayNotStarted", torn_down=True)
    assert here.items(1)["log"] == {"title": "log", "ok": None, "detail": "there was no driver", "fix": ""}


def test_a_process_that_a_run_left_fails(here: Here) -> None:
    here.put("", **ENDED)
    left = subprocess.Popen(["sleep", "600"], env={**os.environ, processes.MARK: str(here.folder)})
    try:
        wait_until(lambda: processes.of_run(str(here.folder), ""), "its environment")
        item = here.items(1)["teardown"]
    finally:
        left.kill()
        left.wait()
    assert (item["detail"], item["fix"]) == (f"still there: process {left.pid}", "kubectl nrl clean")
    assert here.items()["teardown"]["ok"] is True


def test_a_session_directory_that_a_run_left_fails_and_anothers_of_its_name_does_not(
    here: Here, tmp_path: Path
) -> None:
    session = tmp_path / "session"
    session.mkdir()
    here.put("", session=str(session), **ENDED)
    (session / "owner").write_text(str(here.folder / "another"))
    assert here.items()["teardown"]["ok"] is True
    (session / "owner").write_text(str(here.folder))
    assert here.items(1)["teardown"]["detail"] == f"still there: {session}"


def test_a_port_that_is_in_use_again_is_a_note(here: Here) -> None:
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        port = other.getsockname()[1]
        here.put("", roles={"training": Role("a", "d", {"port": port})}, **ENDED)
        item = here.items()["teardown"]
    assert (item["ok"], item["detail"].endswith(f"in use again, by another program: port {port}")) == (None, True)


def test_processes_that_did_not_end_for_the_supervisor_fail(here: Here) -> None:
    here.put("", left=(12, 13), **{**ENDED, "torn_down": False})
    items = here.items(1)
    assert (items["job"]["ok"], items["teardown"]["detail"]) == (True, "still there: 2 processes (12, 13)")


def test_a_job_of_a_cluster_leaves_the_cluster_up(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    made = LocalRecord(
        "one", "job", cluster="mine", folder=here.folder, roles={"training": Role("a", "d", {"port": 1})}
    )
    record.write(replace(made, **ENDED))
    cluster = replace(made, id="mine", form="cluster", state="READY")
    monkeypatch.setattr("kubectl_nrl.local.find_cluster", lambda name, env: cluster)
    monkeypatch.setattr(LocalRecord, "alive", True)
    item = here.items()["teardown"]
    assert item["detail"] == "no process and no session directory is left; cluster mine, on which it ran, stays up"
    assert item["fix"] == "kubectl nrl cluster down mine"


def test_status_of_a_run_that_was_named_says_why_it_failed_and_where_its_log_is(here: Here) -> None:
    here.put("log\n", state="FAILED", reason="AppFailed", message="exit status 7\x1b[31m\nmore", torn_down=True)
    told = here.project.run("status one").ok().out.splitlines()
    assert told[2:] == [
        "  message    exit status 7 [31m",
        "             more",
        f"  log        {here.folder / record.LOG}",
        "  read it    kubectl nrl job logs one",
    ]
    here.put("log\n", state="RUNNING")
    assert "  stop it    kubectl nrl job stop one" in here.project.run("status one").out.splitlines()
