"""Runs on a real Ray of this machine. Each test starts one, and counts what it leaves."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest
from local_case import RUN_ID, Local
from waiting import wait_until

from kubectl_nrl.commands import cluster_dashboard
from kubectl_nrl.local import LocalRecord

pytestmark = pytest.mark.local

CHECKOUT = Path(__file__).resolve().parents[2]
QUICKSTART = CHECKOUT / "examples" / "01-quickstart"
DISAGGREGATED = CHECKOUT / "examples" / "04-disaggregated"

#: A driver with an actor that would run for ever; it says when the actor does.
BUSY = """
import os, ray, time
ray.init(logging_level="warning")

@ray.remote
class Busy:
    def run(self):
        print("actor", os.getpid(), flush=True)
        time.sleep(600)

ray.get(Busy.remote().run.remote())
"""


def nothing_left(local: Local, run: LocalRecord) -> None:
    """No process, session, port or claim of the run is there."""
    assert local.left() == {}
    assert run.torn_down
    for role in run.roles.values():
        for port in role.ports.values():
            with socket.socket() as probe:
                probe.settimeout(1)
                assert probe.connect_ex(("127.0.0.1", port)), f"port {port} still answers"


def test_the_quickstart_learns(local: Local, tmp_path: Path) -> None:
    words = [
        "run", str(QUICKSTART / "recipe.yaml"), "--infra", str(QUICKSTART / "local.infra.yaml"), "--repo-root", str(CHECKOUT),
        "grpo.max_num_steps=6", f"checkpointing.checkpoint_dir={tmp_path}/ckpt", f"logger.log_dir={tmp_path}/logs", "-o", "json",
    ]  # fmt: skip
    done = local.project.run(words).ok()
    result = done.result("local_run")
    assert (result["state"], result["exitCode"]) == ("SUCCEEDED", 0)
    rewards = [point["reward"] for point in result["rewards"]]
    assert len(rewards) == 6
    assert rewards[-1] > rewards[0]
    assert result["results"] == {"metrics": f"{tmp_path}/logs", "checkpoints": f"{tmp_path}/ckpt"}
    assert (tmp_path / "ckpt" / "step_6").is_dir()
    assert "step 6/6 reward" in Path(result["log"]).read_text()
    nothing_left(local, local.record)


def test_three_roles_work_together_and_end_together(local: Local) -> None:
    words = [
        "run", str(DISAGGREGATED / "recipe.yaml"), "--infra", str(DISAGGREGATED / "local.infra.yaml"),
        "--repo-root", str(DISAGGREGATED), "-o", "json",
    ]  # fmt: skip
    result = local.project.run(words).ok().result("local_run")
    assert result["state"] == "SUCCEEDED"
    assert "result: the right sum with a chance of 0.9" in Path(result["log"]).read_text()
    assert "POST /rollouts from 127.0.0.1" in (local.record.folder / "daemon-gym.log").read_text()
    assert set(local.record.roles) == {"training", "generation", "gym"}
    nothing_left(local, local.record)


def test_a_failing_run_keeps_every_byte_of_its_log(local: Local) -> None:
    script = (
        "import sys, ray; ray.init(logging_level='error', log_to_driver=False)\n"
        "w = sys.stdout.buffer.write; w(b'50%\\r100%\\n\\xff\\xfe\\0\\n'); w(b'x' * 10_000_000); w(b'\\nend\\n')\n"
        "sys.stdout.flush(); sys.exit(3)\n"
    )
    local.project.write("bytes.py", script)
    done = local.run("python bytes.py")
    assert done.exit == 1, done.err
    assert "the driver ended with exit status 3" in done.err
    wanted = b"50%\r100%\n\xff\xfe\0\n" + b"x" * 10_000_000 + b"\nend\n"
    assert wanted in done.raw
    assert local.record.log.read_bytes() == done.raw
    nothing_left(local, local.record)


def test_a_stopped_run_ends_with_all_its_actors(local: Local) -> None:
    local.project.write("busy.py", BUSY)
    local.begin("trap '' TERM\npython busy.py & wait; wait; sleep 600")
    local.until(lambda run: b"actor" in run.log.read_bytes())
    status = local.project.run("status -o json").ok().result("status")["local"]
    assert status[0]["processes"] > 8
    stopped = local.project.run(f"job stop {RUN_ID}").ok()
    assert "STOPPED" in stopped.out
    nothing_left(local, local.record)


def test_a_killed_command_changes_nothing(local: Local) -> None:
    local.infra("python -c 'import ray; ray.init(); print(ray.cluster_resources()[\"CPU\"] > 0)'")
    words = ("run", "recipe.yaml", "--infra", "infra.yaml", "--gpus", "3")
    command = local.command(*words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    home = local.project.home / ".local/state/kubectl-nrl/runs"
    wait_until(lambda: list(home.glob("*/ray-training.log")), "Ray's log")
    command.send_signal(signal.SIGKILL)
    command.wait()
    run = local.over()
    assert run.state == "SUCCEEDED", run
    assert "True" in run.log.read_text()
    nothing_left(local, run)


def test_a_killed_supervisor_is_cleared(local: Local) -> None:
    local.project.write("busy.py", BUSY)
    begun = local.begin("python busy.py")
    local.until(lambda run: b"actor" in run.log.read_bytes())
    os.kill(begun.supervisor, signal.SIGKILL)
    local.until(lambda run: not run.alive)
    assert "ORPHANED" in local.project.run("status").ok().out
    local.project.run("clean --yes").ok()
    nothing_left(local, local.record)


def test_a_cluster_serves_one_run_after_another_and_its_dashboard(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    show = 'import ray; ray.init(); print(ray.cluster_resources()["GPU"])'
    first = local.run(f"python -c '{show}'", "--raycluster --gpus 2").ok()
    second = local.run(f"python -c '{show}'", "--raycluster --gpus 2 --run-id second").ok()
    assert "2.0" in first.out.split()
    assert "2.0" in second.out.split()
    assert "is up already" in second.err
    cluster = local.project.run("cluster list --local -o json").ok().result("cluster_list")[0]
    monkeypatch.setattr(cluster_dashboard, "between_looks", _press_ctrl_c)
    opened = local.project.run(f"cluster dashboard {cluster['id']} --port 0 -o json").ok().result("cluster_dashboard")
    assert opened["rayVersion"] == version("ray")
    local.project.run(f"cluster down {cluster['id']}").ok()
    assert local.left() == {}


def _press_ctrl_c() -> None:
    raise KeyboardInterrupt
