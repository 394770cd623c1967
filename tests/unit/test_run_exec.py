"""`run --raycluster --submitter exec`, and what other commands make of such a run: the head is a directory where commands really run."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from head_shell import LOST, HeadShell
from long_lived_case import LongLivedWorld
from waiting import wait_until

from kubectl_nrl.errors import ClusterError
from kubectl_nrl.exec_jobs import HeadDriver, head_driver
from kubectl_nrl.testing import RUN_ID, USER, Outcome

RECORD = f"nrl-run-{RUN_ID}"


class World(LongLivedWorld):
    """A long-lived cluster whose head runs commands in `head`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, head: HeadShell) -> None:
        super().__init__(monkeypatch)
        self.head, self.entered = head, list[Sequence[str]]()
        self.refused: ClusterError | None = None
        self.broken, self.flaky = 0, False
        self.ray.run = self.enter  # type: ignore[method-assign]
        self.up().ok()

    def enter(self, command: Sequence[str], stdin: bytes = b"", timeout: float = 30.0) -> tuple[int, bytes, bytes]:
        self.entered.append(command)
        if self.refused is not None:
            raise self.refused
        if self.broken or (self.flaky and len(self.entered) % 2):
            self.broken -= bool(self.broken)
            raise LOST
        return self.head.run(command, stdin, timeout)

    def start(self, entrypoint: str, more: str = "", **words: Any) -> Outcome:
        launch = {"codeSource": "image", "codePath": str(self.head.folder), "entrypoint": entrypoint}
        self.infra(launch=launch, submit={"submitter": "exec", "execTmpDir": str(self.head.folder / "tmp")})
        return self.run(f"run recipe.yaml --infra infra.yaml --raycluster {more}", **words)

    def said(self, log: bytes) -> None:
        """Wait until that is the driver's log: it begins in its own time."""
        file = self.place() / "log"
        wait_until(lambda: file.read_bytes() == log, lambda: f"{log!r}, there is {file.read_bytes()!r}")

    def place(self, run_id: str = RUN_ID) -> Path:
        return self.head.folder / "tmp" / f"nrl-{USER}" / run_id

    def record(self) -> dict[str, str]:
        found: dict[str, str] = self.cluster.objects["ConfigMap", "default", RECORD]["data"]
        return found


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[World]:
    monkeypatch.setattr("kubectl_nrl.watch.job_follow.POLL", 0.02)
    monkeypatch.setattr(head_driver, "PAUSE", 0.0)
    head = HeadShell(tmp_path)
    made = World(monkeypatch, head)
    yield made
    for folder in made.place().parent.glob("*"):
        HeadDriver(head.run, str(folder)).stop(grace=0)


@pytest.mark.parametrize(("ends", "state", "code"), [("true", "SUCCEEDED", 0), ("exit 3", "FAILED", 1)])
def test_the_run_ends_as_its_driver_does_and_every_line_is_shown(
    world: World, ends: str, state: str, code: int
) -> None:
    done = world.start(f'echo one; echo "$NRL_K8S_RUN_ID"; printf two; {ends}')
    assert (done.exit, done.out) == (code, f"one\n{RUN_ID}\ntwo"), done.err
    assert f"run {RUN_ID} on raycluster/t: {state}" in done.err
    record = world.record()
    assert (record["submitter"], record["state"], record["pod"]) == ("exec", state, "t-head")
    assert record["place"] == str(world.place())
    assert "exit status 3" in done.err or not code


def test_connections_that_break_lose_nothing_and_start_nothing_twice(world: World) -> None:
    os.mkfifo(world.head.folder / "gate")
    world.flaky = True
    world.start("echo ran; cat gate; echo end; exit 3", "--no-wait").ok()
    opener = threading.Thread(target=(world.head.folder / "gate").write_text, args=("gate\n",))
    opener.start()
    followed = world.run(f"job logs {RUN_ID} -f")
    opener.join()
    assert (followed.exit, followed.out) == (1, "ran\ngate\nend\n"), followed.err
    copy = world.project.home / f".local/state/kubectl-nrl/runs/{RUN_ID}/driver.log"
    assert copy.read_bytes() == followed.out.encode()
    again = world.run(f"job logs {RUN_ID}").ok()
    assert (again.out, copy.read_bytes()) == (followed.out, followed.out.encode())


def test_a_refused_exec_is_said_before_anything_is_started_with_the_way_out(world: World) -> None:
    world.cluster.denied |= {("create", "pods/exec"), ("get", "pods/exec")}
    done = world.start("echo ran")
    assert (done.exit, world.entered) == (3, []), done.err
    assert 'needs "create" on pods/exec' in done.err
    assert "--submitter portForward" in done.err
    assert world.names("ConfigMap") == []


def test_a_refusal_that_only_the_exec_itself_tells_leaves_no_record(world: World) -> None:
    world.refused = ClusterError("cannot exec in pods t-head: forbidden", status=403, reason="Forbidden")
    done = world.start("echo ran")
    assert (done.exit, "--submitter portForward" in done.err) == (3, True), done.err
    assert world.names("ConfigMap") == []


def test_a_head_without_room_starts_nothing_and_leaves_no_record(world: World) -> None:
    world.head.full = True
    done = world.start("echo ran")
    world.head.full = False
    assert (done.exit, "nothing was started" in done.err) == (3, True), done.err
    assert world.names("ConfigMap") == []


def test_a_start_of_which_nothing_is_known_keeps_its_record_and_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head_driver, "PATIENCE", -1.0)
    world.broken = 1
    done = world.start("echo ran")
    assert (done.exit, world.names("ConfigMap")) == (6, [RECORD]), done.err
    assert f"kubectl nrl job logs {RUN_ID} -f" in done.err


def test_uploaded_code_is_refused_before_anything_is_sent(world: World) -> None:
    done = world.start("echo ran", "--code-source upload")
    assert (done.exit, world.entered) == (2, []), done.err
    assert "--code-source image or lustre" in done.err


def test_a_relative_directory_is_refused(world: World) -> None:
    launch = {"codeSource": "image", "codePath": "/opt", "entrypoint": "true"}
    world.infra(launch=launch, submit={"submitter": "exec", "execTmpDir": "tmp"})
    done = world.run("run recipe.yaml --infra infra.yaml --raycluster")
    assert (done.exit, 'submit.execTmpDir "tmp" is no absolute path' in done.err) == (2, True), done.err


def test_a_script_too_long_for_a_line_is_no_problem(world: World) -> None:
    import random

    noise = random.Random(1).randbytes(120_000).hex()
    done = world.start(f": {noise}\necho ran")
    assert (done.exit, done.out) == (0, "ran\n"), done.err[-400:]


def test_other_commands_know_the_run_while_it_goes_on(world: World) -> None:
    done = world.start("echo up; while :; do sleep 0.1; done", "--no-wait").ok()
    assert f"kept in {world.place()} on its head" in done.err
    listed = json.loads(world.run("job list -o json").ok().out)
    assert [(j["id"], j["state"], j["owner"], j["rayCluster"]) for j in listed] == [(RUN_ID, "RUNNING", USER, "t")]
    runs = json.loads(world.run("runs -o json").ok().out)
    assert [(r["id"], r["state"], r["submitter"]) for r in runs] == [(RUN_ID, "RUNNING", "exec")]
    world.said(b"up\n")
    assert world.run(f"job logs {RUN_ID}").ok().out == "up\n"
    busy = world.run("cluster down t")
    assert (busy.exit, f"running jobs: {RUN_ID}" in busy.err) == (2, True), busy.err
    stopped = world.run(f"job stop {RUN_ID}").ok()
    assert "STOPPED" in stopped.out
    assert world.record()["state"] == "STOPPED"
    assert [j["state"] for j in json.loads(world.run("job list -o json").ok().out)] == ["STOPPED"]
    assert world.run(f"job logs {RUN_ID} -f").exit == 5


def test_verify_asks_the_drivers_own_directory(world: World) -> None:
    world.start("echo 'Mean Generation Length: 512'").ok()
    told = world.run(f"verify {RUN_ID} -o json").ok().result("verify")
    assert {item["title"]: item["ok"] for item in told["items"]} == {
        "objects": True, "job": True, "log": True, "wandb": None, "generation": True, "teardown": True
    }  # fmt: skip
    world.place().rename(world.head.folder / "lost")
    world.record().pop("state")
    done = world.run(f"verify {RUN_ID}")
    assert (done.exit, "the head does not know this driver: the head of raycluster/t restarted" in done.out) == (
        6,
        True,
    )


def test_verify_names_what_the_driver_left_running_until_it_is_stopped(world: World) -> None:
    world.start("sleep 600 </dev/null >/dev/null 2>&1 & echo done").ok()
    told = world.run(f"verify {RUN_ID} -o json")
    item = told.result("verify")["items"][-1]
    assert (told.exit, item["ok"]) == (1, False)
    assert item["detail"] == "still running on raycluster/t: 1 of the processes that its driver started"
    assert item["fix"] == f"kubectl nrl job stop {RUN_ID} -n default"
    world.run(f"job stop {RUN_ID}").ok()
    world.run(f"verify {RUN_ID}").ok()


def test_verify_of_who_may_not_exec_says_what_the_record_has(world: World) -> None:
    world.start("true").ok()
    world.refused = ClusterError("pods/exec is forbidden", status=403, reason="Forbidden")
    told = world.run(f"verify {RUN_ID} -o json").ok().result("verify")
    assert told["state"] == "SUCCEEDED"
    assert told["items"][-1]["detail"] == "whether anything of it still runs is not known: pods/exec is forbidden"


def test_replace_ends_the_run_that_is_there_first(world: World) -> None:
    world.start("while :; do sleep 0.1; done", "--no-wait --run-id first").ok()
    said = world.start("echo ran", "--run-id second").ok()
    assert "running on raycluster/t already: first" in said.err
    done = world.start("echo ran", "--run-id third --replace").ok()
    assert "stopping first on raycluster/t" in done.err
    listed = {j["id"]: j["state"] for j in json.loads(world.run("job list -o json").ok().out)}
    assert listed == {"first": "STOPPED", "second": "SUCCEEDED", "third": "SUCCEEDED"}


def lose(world: World) -> None:
    """A run whose directory on the head goes."""
    world.start("echo ran; while :; do sleep 0.1; done", "--no-wait").ok()
    world.said(b"ran\n")
    assert world.run(f"job logs {RUN_ID}").ok().out == "ran\n"
    HeadDriver(world.head.run, str(world.place())).stop(grace=0)
    world.place().rename(world.head.folder / "lost")


def test_a_directory_that_is_gone_from_the_head_is_said_and_the_copy_shown(world: World) -> None:
    lose(world)
    done = world.run(f"job logs {RUN_ID}").ok()
    assert done.out == "ran\n"
    assert f"{world.place()} is not there any more, though the head of raycluster/t was not started again" in done.err
    assert "this is the copy on this machine, 4 bytes" in done.err
    (listed,) = json.loads(world.run("runs -o json").ok().out)
    assert (listed["state"], listed["reason"]) == ("UNKNOWN", "")
    assert world.run(f"job logs {RUN_ID} -f").exit == 6


@pytest.mark.parametrize("how", ["pod", "container"])
def test_a_head_that_was_started_anew_has_lost_the_run_and_that_is_said(world: World, how: str) -> None:
    lose(world)
    ended = {"lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}
    pod = world.cluster.objects["Pod", "default", "t-head"]
    if how == "pod":
        world.cluster.remove("Pod", "t-head")
        world.cluster.put({**pod, "metadata": {**pod["metadata"], "name": "t-head-2"}})
    else:
        world.cluster.put({**pod, "status": {"containerStatuses": [{"name": "ray", **ended}]}})
    done = world.run(f"job logs {RUN_ID} -f")
    assert (done.exit, "history of its jobs is lost" in done.err) == (6, True), done.err
    (listed,) = json.loads(world.run("runs -o json").ok().out)
    assert (listed["state"], listed["reason"]) == ("UNKNOWN", "HeadRestarted")


def test_an_id_that_the_head_has_is_an_error(world: World) -> None:
    world.start("echo ran", "--run-id mine").ok()
    world.cluster.remove("ConfigMap", "nrl-run-mine")
    done = world.start("echo ran", "--run-id mine")
    assert (done.exit, "holds a driver already" in done.err) == (3, True), done.err


def test_what_a_driver_leaves_is_named_at_its_end_and_ended_by_a_stop(world: World) -> None:
    done = world.start("setsid sleep 300 >/dev/null 2>&1 & echo ran").ok()
    assert "1 of the processes that it started still run" in done.err
    driver = HeadDriver(world.head.run, str(world.place()))
    assert len(driver.look().left) == 1
    stopped = world.run(f"job stop {RUN_ID}").ok()
    assert (driver.look().left, f"ending what {RUN_ID} left running" in stopped.err) == ((), True), stopped.err
    assert "SUCCEEDED" in stopped.out, "the run's end stays what it was"
    assert "ending" not in world.run(f"job stop {RUN_ID}").ok().err


def test_a_driver_that_may_not_be_asked_for_hides_no_other_and_stops_no_run(world: World) -> None:
    """A colleague without exec uses Ray's Jobs API on a cluster where somebody's driver runs by exec."""
    world.start("while :; do sleep 0.1; done", "--no-wait --run-id first").ok()
    world.ray.put("other", "RUNNING")
    world.refused = ClusterError("pods t-head is forbidden: cannot create pods/exec", status=403, reason="Forbidden")
    listed = {j["id"]: j["state"] for j in json.loads(world.run("job list -o json").ok().out)}
    assert listed == {"first": "UNKNOWN", "other": "RUNNING"}
    busy = world.run("cluster down t")
    assert (busy.exit, "running jobs: other, first" in busy.err) == (2, True), busy.err
    line = "run recipe.yaml --infra infra.yaml --raycluster --submitter portForward --run-id second"
    done = world.run(line).ok()
    assert "running on raycluster/t already: other, first" in done.err
    refused = world.run(f"{line[:-6]}third --replace --yes")
    assert (refused.exit, "cannot create pods/exec" in refused.err) == (3, True), refused.err
    assert "third" not in world.ray.jobs, "what may still run was not stopped"
    world.refused = None
