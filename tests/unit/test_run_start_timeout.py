"""A start that cannot succeed, from the command line: given up, deleted, and the cause and what helps are said."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from fake_cluster import FakeCluster, FakeJobs
from run_files import files

from kubectl_nrl.errors import ClusterError
from kubectl_nrl.facts import OFFLINE
from kubectl_nrl.testing import RUN_ID, Outcome, Project

JOB = "t-test"
WAITING = {"reason": "ErrImagePull", "message": "failed to resolve reference: x:typo: not found"}
TYPO = {"phase": "Pending", "containerStatuses": [{"name": "ray", "image": "x:typo", "state": {"waiting": WAITING}}]}
FULL = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}


class World:
    """A run whose worker waits; its pods go with its RayJob."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster, self.worker = FakeCluster(), TYPO
        self.launch: dict[str, Any] = {}
        self.starter: threading.Thread | None = None
        self.cluster.after["create", "RayJob"] = self._start
        self.cluster.after["delete", "RayJob"] = self._gone
        facts = replace(OFFLINE, source="cluster")
        monkeypatch.setattr("kubectl_nrl.cluster.Cluster.connect", lambda **words: self.cluster)
        monkeypatch.setattr("kubectl_nrl.facts.discover", lambda cluster: facts)
        monkeypatch.setattr("kubectl_nrl.ray_jobs.connect", lambda cluster, raycluster: FakeJobs())

    def _start(self) -> None:
        self.starter = threading.Thread(target=self._act, daemon=True)
        self.starter.start()

    def _act(self) -> None:
        for name, node_type, status in (("head", "head", {"phase": "Running"}), ("w0", "worker", self.worker)):
            labels = {"ray.io/cluster": "t-x1", "ray.io/node-type": node_type, "ray.io/group": "w"}
            self.cluster.put({"kind": "Pod", "metadata": {"name": name, "labels": labels}, "status": status})
        self.cluster.set_status("RayJob", JOB, jobDeploymentStatus="Initializing", rayClusterName="t-x1")

    def _gone(self) -> None:
        for name in ("head", "w0"):
            self.cluster.remove("Pod", name)

    def run(self, more: str = "") -> Outcome:
        return Project(files(**self.launch)).run(f"run recipe.yaml --infra infra.yaml -n default {more}")

    @property
    def left(self) -> list[str]:
        return sorted(name for kind, _, name in self.cluster.objects if kind in ("RayJob", "Pod"))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(monkeypatch)
    yield made
    if made.starter is not None:
        made.starter.join(60)


def test_it_exits_4_names_the_cause_and_what_helps_and_leaves_nothing(world: World) -> None:
    done = world.run("--start-timeout 1")
    assert done.exit == 4
    assert "error: gave up: it cannot start after " in done.err
    assert 's: 1/1 workers of w: ImagePullBackOff, image "x:typo" not found\n' in done.err
    assert "hint: set infra.image=REGISTRY/NAME:TAG" in done.err
    assert f"rayjob/{JOB} is gone, and so are its pods" in done.err
    assert world.left == []


def test_as_data_it_is_the_runs_result(world: World) -> None:
    done = world.run("--start-timeout 1 -o json")
    result = done.result("run")
    assert (result["id"], result["state"], result["reason"]) == (RUN_ID, "Initializing", "ImagePullBackOff")
    assert (result["exitCode"], result["notGone"]) == (4, [])
    assert result["message"] == '1/1 workers of w: ImagePullBackOff, image "x:typo" not found'
    json.loads(done.out)


def test_a_run_whose_code_would_be_uploaded_is_given_up_as_well(world: World) -> None:
    world.launch = {"codeSource": "upload"}
    done = world.run("--start-timeout 1")
    assert done.exit == 4
    assert "gave up: it cannot start" in done.err
    assert world.left == []


@pytest.mark.parametrize("flag", ["--start-timeout 0", "--start-timeout 60", ""])
def test_within_its_time_nothing_is_given_up(world: World, flag: str) -> None:
    done = world.run(f"--timeout 2 {flag}")
    assert "gave up waiting" in done.err
    assert world.left == ["head", JOB, "w0"]


def test_a_full_cluster_is_waited_for_whatever_the_limit(world: World) -> None:
    world.worker = FULL
    done = world.run("--timeout 3 --start-timeout 1")
    assert "gave up waiting" in done.err
    assert world.left == ["head", JOB, "w0"]


def test_what_cannot_be_deleted_is_said_and_stays_named(world: World) -> None:
    world.cluster.faults["delete", "RayJob"] = ClusterError("you may not delete rayjobs", status=403)
    done = world.run("--start-timeout 1 -o json")
    assert done.exit == 4
    assert f"rayjob/{JOB} may still hold what it has: you may not delete rayjobs" in done.err
    assert done.result("run")["notGone"] == ["head", "w0"]


@pytest.mark.parametrize("word", ["-1", "x", "1m"])
def test_only_seconds_are_taken(world: World, word: str) -> None:
    done = world.run(f"--start-timeout {word}")
    assert done.exit == 2
    assert "--start-timeout" in done.err


def test_ctrl_c_while_it_is_deleted_says_so(world: World) -> None:
    world.cluster.faults["delete", "RayJob"] = KeyboardInterrupt()
    done = world.run("--start-timeout 1")
    assert done.exit == 130
    assert f"interrupted; rayjob/{JOB} is being deleted" in done.err


def test_where_it_has_no_meaning_it_is_said(world: World) -> None:
    assert "a run that nobody waits for" in world.run("--no-wait --start-timeout 5").err
    done = world.run("--local --start-timeout 5")
    assert done.exit == 2
    assert "--start-timeout is for a run on a cluster" in done.err
