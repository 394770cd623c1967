"""Runs on this machine, with real supervisors and a Ray that only looks like one: every end, and that nothing stays."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from local_case import PATIENCE, RUN_ID, Local, environment_of, lives
from terminal import Terminal
from waiting import wait_until

from kubectl_nrl.local import clusters, record, requests, runs, sessions
from kubectl_nrl.run_directory import directory


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Local]:
    made = Local(tmp_path, monkeypatch)
    yield made
    made.end()


def test_a_run_shows_its_log_and_result_and_leaves_nothing(local: Local) -> None:
    done = local.run("echo step 1/2 reward 0.1\necho step 2/2 reward 0.8").ok()
    assert done.out == "step 1/2 reward 0.1\nstep 2/2 reward 0.8\n"
    assert f"local run {RUN_ID}: SUCCEEDED" in done.err
    assert "0.8 ┤" in done.err
    assert f"log: {local.record.log}" in done.err
    assert local.record.log.read_bytes() == done.raw
    assert local.record.torn_down
    assert local.left() == {}
    assert sorted(p.name for p in local.record.folder.iterdir()) == [
        "driver.log", "local.json", "ray-training.log", "supervisor.lock", "supervisor.log",
    ]  # fmt: skip
    assert (local.record.folder / "supervisor.log").read_text() == ""


def test_json_is_one_object_and_the_log_goes_to_stderr(local: Local) -> None:
    done = local.run("echo step 1 reward 0.5", "-o json").ok()
    result = done.result("local_run")
    assert (result["state"], result["exitStatus"], result["exitCode"], result["tornDown"]) == ("SUCCEEDED", 0, 0, True)
    assert result["rewards"] == [{"step": 1, "reward": 0.5}]
    assert "step 1 reward 0.5" in done.err


def test_a_failing_entrypoint_fails_the_run(local: Local) -> None:
    done = local.run("echo so far\nexit 7")
    assert done.exit == 1
    assert "FAILED (AppFailed)" in done.err
    assert "the driver ended with exit status 7" in done.err
    assert local.left() == {}


def test_a_failed_run_says_what_it_died_of(local: Local) -> None:
    done = local.run("python3 -c 'import torch_of_another_machine'", "-o json")
    failure = done.result("local_run")["failure"]
    assert failure["lines"][-1] == "ModuleNotFoundError: No module named 'torch_of_another_machine'"
    assert [hint["id"] for hint in failure["hints"]] == ["module-not-found"]
    assert "likely cause: Python code is not on the pod" in done.err


def test_a_driver_that_was_killed_without_a_word_has_a_hint_by_its_exit_status(local: Local) -> None:
    done = local.run("kill -9 $$", "-o json")
    failure = done.result("local_run")["failure"]
    assert [hint["id"] for hint in failure["hints"]] == ["killed"]


def test_a_failure_before_a_pipe_fails_the_run(local: Local) -> None:
    assert local.run("false | tee /dev/null").exit == 1


def test_the_drivers_environment_leads_to_its_ray(local: Local) -> None:
    done = local.run("env", RAY_ADDRESS="elsewhere:1", RAY_AUTH_TOKEN="other", MINE="kept").ok()
    env = environment_of(done.out)
    ports = local.record.roles["training"].ports
    assert env["RAY_ADDRESS"] == f"127.0.0.1:{ports['port']}"
    assert env["RAY_API_SERVER_ADDRESS"] == f"http://127.0.0.1:{ports['dashboard-port']}"
    assert env["RAY_JOB_SUBMISSION_ID"] == env["NRL_K8S_RUN_ID"] == RUN_ID
    assert env["MINE"] == "kept"
    assert "RAY_AUTH_TOKEN" not in env
    assert env["TMPDIR"].startswith(local.record.session)
    assert env["PATH"].split(":")[0] == str(Path(sys.executable).parent)


def test_the_recipe_on_the_command_line_is_what_runs(local: Local) -> None:
    assert "num_nodes: 7" in local.run("cat $NRL_RECIPE", "cluster.num_nodes=7").ok().out


def test_it_runs_in_the_checkout(local: Local, tmp_path: Path) -> None:
    (tmp_path / "else where").mkdir()
    assert local.run("pwd").out == f"{local.project.path}\n"
    flags = f"--run-id b --repo-root '{tmp_path}/else where'"
    assert local.run("pwd", flags).out == f"{tmp_path}/else where\n"
    assert local.run("pwd", "--repo-root nowhere").exit == 2


def test_the_log_is_kept_byte_by_byte(local: Local) -> None:
    script = "import sys; w = sys.stdout.buffer.write; w(b'50%\\r100%\\n\\xff\\xfe\\0\\n'); w(b'x' * 10_000_000); w(b'\\nend')"
    done = local.run(f'{sys.executable} -c "{script}"').ok()
    wanted = b"50%\r100%\n\xff\xfe\0\n" + b"x" * 10_000_000 + b"\nend"
    assert done.raw == wanted
    assert local.record.log.read_bytes() == wanted


def test_what_the_driver_left_in_the_background_goes_with_it(local: Local) -> None:
    escaped = "import os, time; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); time.sleep(600)"
    pid = local.project.path / "pid"
    local.run(
        f"sleep 600 &\nenv -i setsid {sys.executable} -c '{escaped}'\nenv -i setsid sh -c 'echo $$ > {pid}; sleep 600' &\n"
        f"until [ -s {pid} ]; do sleep 0.05; done"
    ).ok()
    assert local.left() == {}
    assert not lives(pid.read_text().strip())


def test_a_driver_that_ignores_sigterm_is_stopped_all_the_same(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = local.begin("trap '' TERM\necho up\nwhile :; do sleep 0.1; done")
    local.until(lambda run: run.log.exists() and run.log.read_text() == "up\n")
    stopped = local.project.run(f"job stop {RUN_ID}").ok()
    assert f"local run {RUN_ID}: STOPPED" in stopped.out
    assert local.left() == {}
    assert sessions.owned(begun.session, begun.folder) == ""
    again = local.project.run(f"job stop {RUN_ID}").ok()
    assert "was over already" in again.err


def test_a_stopped_run_exits_5_for_who_follows_it(local: Local) -> None:
    local.begin("echo up; sleep 600")
    follower = local.command("job", "logs", RUN_ID, "-f", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert follower.stdout is not None
    assert follower.stdout.readline() == b"up\n"
    local.project.run(f"job stop {RUN_ID}").ok()
    assert follower.wait(PATIENCE) == 5
    follower.stdout.close()


def test_a_killed_command_changes_nothing(local: Local) -> None:
    local.infra("sleep 1; echo done")
    command = local.command(
        "run", "recipe.yaml", "--infra", "infra.yaml", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_until(lambda: list(local.project.home.glob(".local/state/kubectl-nrl/runs/*/driver.log")), "the driver's log")
    command.send_signal(signal.SIGKILL)
    command.wait()
    assert local.over().state == "SUCCEEDED"
    assert local.record.log.read_text() == "done\n"
    assert local.left() == {}


def test_ctrl_c_leaves_the_run_alone_and_says_how_to_come_back(local: Local) -> None:
    go_on = local.project.path / "go-on"
    local.infra(f"until [ -e {go_on} ]; do sleep 0.1; done; echo done")
    words = ("run", "recipe.yaml", "--infra", "infra.yaml", "--run-id", "c")
    command = local.command(*words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert command.stderr is not None
    with command.stderr:
        for line in command.stderr:
            if line.startswith(b"local run c in "):  # said once a supervisor has it
                break
        command.send_signal(signal.SIGINT)
        said = command.stderr.read().decode()
    assert command.wait() == 130
    assert "interrupted; the run goes on\n  follow it again: kubectl nrl job logs c -f" in said
    go_on.touch()
    assert local.over().state == "SUCCEEDED"


@pytest.mark.parametrize("place", ["sessions.make", "record.write", "spawn", "requests._start"])
@pytest.mark.parametrize("mode", ["", "--raycluster"])
def test_ctrl_c_before_there_is_a_supervisor_leaves_nothing_and_says_so(
    local: Local, monkeypatch: pytest.MonkeyPatch, place: str, mode: str
) -> None:
    places = {"spawn": "kubectl_nrl.local.connection.spawn" if not mode else "kubectl_nrl.local.requests.spawn"}
    monkeypatch.setattr(places.get(place, f"kubectl_nrl.local.{place}"), _interrupt)
    done = local.run("true", mode)
    assert done.exit == 130
    assert "goes on" not in done.err
    assert ("interrupted; nothing was started" in done.err) is (not mode)
    assert not [*runs(local.env), *clusters(local.env), *_sessions(local)]


def test_ctrl_c_while_the_supervisor_starts_leaves_the_run_to_it(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    real = requests._start

    def start(*words: Any) -> None:
        real(*words)
        _interrupt()

    monkeypatch.setattr(requests, "_start", start)
    done = local.run("echo done")
    assert done.exit == 130
    assert f"interrupted; the run goes on\n  follow it again: kubectl nrl job logs {RUN_ID} -f" in done.err
    assert local.over().state == "SUCCEEDED"


def test_a_supervisor_that_cannot_be_started_leaves_nothing(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(requests, "_start", refuse)
    done = local.run("true")
    assert done.exit == 3
    assert "supervisor cannot be started: Resource temporarily unavailable" in done.err
    assert not [*runs(local.env), *_sessions(local)]


def _interrupt(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def _sessions(local: Local) -> list[Path]:
    """Session directories of this project's runs."""
    homes = [sessions.owner_of(path) for path in sessions.existing()]
    return [home for home in homes if home is not None and home.is_relative_to(local.project.home)]


def test_a_killed_supervisor_is_an_orphan_until_it_is_cleared(local: Local) -> None:
    begun = local.begin("sleep 600")
    os.kill(begun.supervisor, signal.SIGKILL)
    local.until(lambda run: not run.alive)
    status = local.project.run("status").ok()
    assert "ORPHANED" in status.out
    assert "kubectl nrl clean" in status.err
    assert local.project.run(f"job logs {RUN_ID} -f").exit == 6
    asked = local.project.run("clean")
    assert (asked.exit, bool(local.left())) == (2, True)
    cleaned = local.project.run("clean --yes -o json").ok().result("clean")
    assert [f["id"] for f in cleaned["found"]] == [RUN_ID]
    assert len(cleaned["found"][0]["processes"]) >= 3
    assert local.left() == {}
    assert (local.record.state, local.record.reason) == ("FAILED", "Orphaned")
    assert local.project.run("clean").ok().out == "nothing was left behind on this machine\n"


def test_a_session_whose_run_is_forgotten_is_cleared(local: Local) -> None:
    begun = local.begin("sleep 600")
    os.kill(begun.supervisor, signal.SIGKILL)
    local.until(lambda run: not run.alive)
    record.change(begun.folder)
    (begun.folder / record.FILE).unlink()
    local.project.run("clean --yes").ok()
    assert sessions.owned(begun.session, begun.folder) == ""


def test_ray_that_does_not_start_says_why(local: Local) -> None:
    done = local.run("true", FAKE_RAY="fail")
    assert done.exit == 1
    assert "FAILED (RayNotStarted)" in done.err
    assert "ValueError: no room for an object store" in done.err
    assert local.left() == {}


def test_ray_that_dies_ends_the_run(local: Local) -> None:
    done = local.run("touch $(dirname $TMPDIR)/die\nsleep 600", FAKE_RAY="die")
    assert done.exit == 1
    assert "FAILED (RayDied)" in done.err
    assert "raylet" in done.err
    assert local.left() == {}


def test_a_port_that_somebody_took_meanwhile_is_not_the_end(local: Local) -> None:
    done = local.run("echo ran", FAKE_RAY="busy").ok()
    assert done.out == "ran\n"
    assert local.left() == {}


def test_a_machine_without_ports_is_named(local: Local) -> None:
    # Whatever session has claimed a port counts.
    hoard = sessions.make("hoard", local.project.path)
    (hoard / "ports.json").write_text(json.dumps({"x": {str(p): p for p in range(20000, 32768)}}))
    done = local.run("true")
    assert done.exit == 1
    assert "FAILED (NoPorts)" in done.err
    assert "no free ports are left between 20000 and 32767" in done.err
    assert local.left() == {}


def test_a_supervisor_that_cannot_begin_says_why(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubectl_nrl.local.requests._BOOT", "raise ImportError('no module named x')")
    done = local.run("true")
    assert done.exit == 6
    assert "the run's supervisor is gone: ImportError: no module named x" in done.err
    local.project.run("clean --yes").ok()
    assert local.left() == {}


def test_without_ray_it_says_what_to_install(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = local.run("true")
    assert done.exit == 2
    assert f"hint: {sys.executable} -m pip install 'ray[default]>=2.44'" in done.err


def test_two_runs_at_once_share_nothing(local: Local) -> None:
    go_on = local.project.path / "go-on"
    for name in ("one", "two"):
        local.run(f"until [ -e {go_on} ]; do sleep 0.1; done; echo $RAY_ADDRESS", f"--no-wait --run-id {name}").ok()
    wait_until(lambda: all(run.state == "RUNNING" for run in runs(local.env)), "both drivers")
    go_on.touch()
    logs = {local.project.run(f"job logs {name} -f").ok().out for name in ("one", "two")}
    assert len(logs) == 2
    assert local.left() == {}


def test_a_name_is_used_once(local: Local) -> None:
    local.run("true", "--run-id a").ok()
    assert local.run("true", "--run-id a").exit == 2


def test_gpus_are_pretended_for_those_who_ask(local: Local) -> None:
    local.run("true", "--gpus 4").ok()
    assert "--num-gpus=4" in (local.record.folder / "ray-training.log").read_text()
    local.run("true", "--run-id b").ok()
    assert "--num-gpus" not in (local.record.folder / "ray-training.log").read_text()


ROLES = (
    "kuberay:\n  training: {}\n  generation:\n    daemon: {entrypoint: 'echo serving $RAY_ADDRESS; exec sleep 600'}\n"
)


def test_each_role_has_a_ray_and_its_daemon(local: Local) -> None:
    log = directory(RUN_ID, local.env) / "daemon-generation.log"
    heard = f"until [ -s {log} ]; do sleep 0.05; done\n"  # a daemon without a health URL is not waited for
    done = local.run(f"{heard}echo $RAY_ADDRESS $NRL_RAY_ADDRESS_GENERATION", more=ROLES).ok()
    own, other = done.out.split()
    assert own != other
    # What follows is the shell's word for its end.
    said = log.read_text()
    assert said.startswith(f"serving {other}\n")
    assert local.left() == {}
    shown = local.project.run("logs recipe.yaml --role generation --source daemon").ok()
    assert shown.out == said


def test_a_daemon_that_ends_ends_the_run(local: Local) -> None:
    done = local.run("sleep 600", more=ROLES.replace("exec sleep 600", "exit 3"))
    assert done.exit == 1
    assert "the daemon of generation has ended: it ended with exit status 3" in done.err


def test_a_cluster_stays_and_is_used_again(local: Local) -> None:
    first = local.run("echo $RAY_ADDRESS", "--raycluster").ok()
    cluster = local.project.run("cluster list --local -o json").ok().result("cluster_list")
    assert [(c["state"], c["form"]) for c in cluster] == [("READY", "cluster")]
    assert cluster[0]["roles"][0]["address"] == first.out.strip()
    second = local.run("echo $RAY_ADDRESS", "--raycluster --run-id second --gpus 2").ok()
    assert second.out == first.out
    assert "it is kept (--recreate makes it anew)" in second.err
    third = local.run("echo $RAY_ADDRESS", "--raycluster --run-id third --gpus 2 --recreate").ok()
    assert third.exit == 0
    down = local.project.run("cluster down recipe.yaml --infra infra.yaml").ok()
    assert "is down" in down.out
    assert local.left() == {}
    assert local.project.run("cluster list --local").ok().out == "no Ray cluster is up on this machine\n"


def test_cluster_up_and_down_by_name(local: Local) -> None:
    local.infra("true")
    up = local.project.run("cluster up recipe.yaml --infra infra.yaml -o json").ok().result("local_list")
    assert up[0]["state"] == "READY"
    status = local.project.run("status -o json").ok().result("status")["local"]
    assert status[0]["processes"] >= 2
    assert local.project.run(f"cluster down {up[0]['id']} --dry-run").exit == 2, "a dry run deletes nothing"
    local.project.run(f"cluster down {up[0]['id']}").ok()
    assert local.left() == {}
    assert local.project.run(f"cluster down {up[0]['id']}").exit == 2


def test_lists_hold_what_ran(local: Local) -> None:
    local.run("true").ok()
    assert [r["id"] for r in local.project.run("runs --local -o json").ok().result("runs")] == [RUN_ID]
    assert [r["id"] for r in local.project.run("job list -o json").ok().result("local_list")] == [RUN_ID]
    without_a_cluster = local.project.run("runs").ok()
    assert RUN_ID in without_a_cluster.out
    assert "the runs of this machine only" in without_a_cluster.err
    assert local.project.run("status").ok().out == "nothing runs on this machine\n"
    assert "SUCCEEDED" in local.project.run("status recipe.yaml").ok().out
    assert local.project.run("status nothing").exit == 2
    (local.project.path / "recipe.yaml").unlink()
    assert "SUCCEEDED" in local.project.run("status recipe.yaml").ok().out


def test_watching_one_run_ends_with_it(local: Local) -> None:
    local.begin("sleep 1", "--run-id watched")
    lines = local.project.run("status watched -w").ok().out.splitlines()
    assert lines[-1] == "watched: SUCCEEDED, this machine"


def test_logs_shows_the_last_lines(local: Local) -> None:
    local.run("seq 1 500").ok()
    assert local.project.run("logs recipe.yaml").ok().out.splitlines()[0] == "301"
    assert local.project.run(f"job logs {RUN_ID} --tail 2").ok().out == "499\n500\n"
    assert local.project.run(f"logs {RUN_ID} --source head --tail 1").ok().out.startswith("ray start --head --block")
    assert local.project.run("logs nothing").exit == 2


def test_a_dry_run_prints_the_script_and_starts_nothing(local: Local) -> None:
    done = local.run("echo hello", "--dry-run").ok()
    assert "echo hello" in done.out
    assert local.run("echo hello", "--dry-run=server").exit == 2
    assert not (local.project.home / ".local").exists()


def test_giving_up_leaves_the_run_alone(local: Local) -> None:
    go_on = local.project.path / "go-on"
    done = local.run(f"until [ -e {go_on} ]; do sleep 0.1; done", "--timeout 0")
    assert done.exit == 4
    assert "the run goes on" in done.err
    go_on.touch()
    assert local.over().state == "SUCCEEDED"


def test_a_terminal_sees_a_panel_until_the_log_begins(local: Local) -> None:
    started, go_on = local.project.path / "started", local.project.path / "go-on"
    local.infra(f"until [ -e {go_on} ]; do sleep 0.1; done; echo step 1 reward 1")
    local.env |= {"TERM": "xterm", "FAKE_RAY": f"after {started}"}
    master, slave = os.openpty()
    command = local.command("run", "recipe.yaml", "--infra", "infra.yaml", stdout=slave, stderr=slave)
    os.close(slave)
    said = b""
    with contextlib.suppress(OSError):  # on Linux the end of a terminal is an error
        while data := os.read(master, 65536):
            said += data
            for words, gate in ((b"starting Ray", started), (b"running;", go_on)):
                if words in said:
                    gate.touch()
    os.close(master)
    assert command.wait() == 0
    before, _, after = said.partition(b"step 1 reward 1\r\n")
    assert b"starting Ray" in before
    assert b"running; Ray's dashboard: http://127.0.0.1:" in before
    terminal = Terminal(80)
    terminal.write(before.decode())
    assert not [
        row for row in terminal.screen if "running;" in row or "starting Ray" in row
    ]  # the panel's line is gone
    assert b"SUCCEEDED" in after
    assert b"\x1b[?25l" not in said  # the cursor is never hidden
