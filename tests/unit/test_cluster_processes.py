"""The test cluster's processes: known again by more than a pid, started once, stopped whole."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cluster import processes
from cluster.errors import ClusterError
from cluster.lifecycle import stop_order
from cluster.state import State
from waiting import wait_until

SLEEP = ["sleep", "60"]


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    state = State(tmp_path / "state", "api")
    state.root.mkdir()
    yield state
    for name in processes.names(state):
        processes.stop(state, name)


def test_started_once_and_stopped(state: State) -> None:
    first = processes.start(state, "a", SLEEP)
    assert processes.start(state, "a", SLEEP) == first
    assert processes.running(state, "a") == first
    processes.stop(state, "a")
    assert not first.alive()
    assert processes.names(state) == []
    processes.stop(state, "a")


def test_another_command_line_replaces_the_process(state: State) -> None:
    first = processes.start(state, "a", SLEEP)
    second = processes.start(state, "a", ["sleep", "61"])
    assert not first.alive()
    assert second.alive()


@pytest.mark.parametrize("change", [{"started": 1}, {"boot": "another"}])
def test_a_pid_of_somebody_else_is_left_alone(state: State, change: dict[str, object]) -> None:
    with subprocess.Popen(SLEEP) as other:
        real = processes.Process(other.pid, processes._start_time(other.pid) or 0, processes.boot_id(), SLEEP)
        assert real.alive()
        stranger = replace(real, **change)  # type: ignore[arg-type]
        state.write("pids/a.json", json.dumps(vars(stranger)))
        assert processes.running(state, "a") is None
        processes.stop(state, "a")
        assert other.poll() is None
        other.kill()


def test_a_zombie_is_dead(state: State) -> None:
    with subprocess.Popen(["true"]) as child:
        wait_until(lambda: processes._start_time(child.pid) is None, "its end")
        assert os.path.exists(f"/proc/{child.pid}")


def test_one_that_ignores_the_polite_signal_is_killed(state: State) -> None:
    stubborn = processes.start(state, "a", ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"])
    processes.wait_until(state, "a", lambda: "ready" in processes.log_tail(state, "a"))
    stubborn.stop(grace=0.3)
    assert not stubborn.alive()


def test_what_dies_while_it_is_awaited_is_reported_with_its_log(state: State) -> None:
    processes.start(state, "a", ["sh", "-c", "echo the port is taken; exit 1"])
    with pytest.raises(ClusterError, match="a ended while it was awaited") as caught:
        processes.wait_until(state, "a", lambda: False)
    assert "the port is taken" in str(caught.value)


def test_a_cut_pid_file_is_no_process(state: State) -> None:
    state.write("pids/a.json", '{"pid": 1')
    assert processes.running(state, "a") is None


def test_the_environment_of_the_caller_does_not_reach_it(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/of/the/caller")
    processes.start(state, "a", ["sh", "-c", 'echo "[$KUBECONFIG]"; sleep 60'])
    processes.wait_until(state, "a", lambda: "[]" in processes.log_tail(state, "a"), timeout=60)


def test_what_needs_others_is_stopped_before_them() -> None:
    names = ["kubelet", "etcd", "containerd", "kuberay", "apiserver", "coredns"]
    order = stop_order(names)
    assert order[-4:] == ["kubelet", "containerd", "apiserver", "etcd"]
    assert set(order[:2]) == {"kuberay", "coredns"}
