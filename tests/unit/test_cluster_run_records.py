"""A run on a long-lived cluster found again by its record, from a machine that knows nothing of it."""

from __future__ import annotations

from typing import Any

import pytest
from long_lived_case import LongLivedWorld

from kubectl_nrl.errors import ClusterError
from kubectl_nrl.testing import USER

RUN = "run recipe.yaml --infra infra.yaml --raycluster"
RESTARTED = {
    "state": {"running": {"startedAt": "2026-01-02T03:00:05Z"}},
    "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}},
}


class World(LongLivedWorld):
    def forget_jobs(self) -> None:
        """A head that restarted: Ray knows no job, the pod says why."""
        self.ray.jobs.clear()
        labels = {"ray.io/cluster": "t", "ray.io/node-type": "head"}
        status = {"containerStatuses": [{"name": "ray", **RESTARTED}]}
        pod = {"kind": "Pod", "metadata": {"name": "t-head", "labels": labels}, "status": status}
        self.cluster.put({**pod, "spec": {"containers": [{"name": "ray"}]}})

    def elsewhere(self, line: str) -> Any:
        """From another laptop."""
        home = self.project.root / "elsewhere"
        home.mkdir(exist_ok=True)
        return self.run(line, env={"HOME": str(home)})

    def record(self, run_id: str) -> dict[str, str]:
        data: dict[str, str] = self.cluster.objects["ConfigMap", "default", f"nrl-run-{run_id}"]["data"]
        return data


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr("kubectl_nrl.watch.job_follow.POLL", 0.02)
    made = World(monkeypatch)
    made.ray.ends = "RUNNING"
    made.run(f"{RUN} --run-id one --no-wait").ok()
    return made


def test_runs_lists_it_beside_rayjobs_with_what_ray_says_now(world: World) -> None:
    (listed,) = world.elsewhere("runs -o json").ok().result("runs")
    assert (listed["id"], listed["rayCluster"], listed["state"], listed["final"]) == ("one", "t", "RUNNING", False)
    assert (listed["owner"], listed["submitter"], listed["recipe"]) == (USER, "portForward", "recipe.yaml")
    text = world.elsewhere("runs").ok().out
    assert "RAYCLUSTER" in text
    assert "RUNNING" in text


def test_the_log_is_read_and_its_end_is_written_down(world: World) -> None:
    assert world.elsewhere("job logs one").ok().out == "step 1\nstep 2\n"
    assert "state" not in world.record("one")
    world.ray.put("one", "FAILED")
    assert world.elsewhere("job logs one -f").exit == 1
    assert world.record("one")["state"] == "FAILED"


def test_stopping_needs_the_id_alone_and_asks_one_cluster(world: World) -> None:
    world.forget()
    world.ray.jobs["one"]["metadata"] = {"user": USER}
    world.elsewhere("job stop one").ok()
    assert world.ray.jobs["one"]["status"] == "STOPPED"
    assert world.record("one")["state"] == "STOPPED"
    assert "list" not in world.ray.asked


def test_a_head_that_forgot_it_is_said_with_when_and_why(world: World) -> None:
    world.forget_jobs()
    (listed,) = world.elsewhere("runs -o json").ok().result("runs")
    assert (listed["state"], listed["reason"], listed["final"]) == ("UNKNOWN", "HeadRestarted", False)
    assert "restarted" in listed["message"]
    for line in ("job logs one", "job logs one -f", "job stop one"):
        done = world.elsewhere(line)
        assert done.exit != 0
        assert "run one is unknown to Ray: the head of raycluster/t restarted" in done.err
        assert "(OOMKilled); the history of its jobs is lost" in done.err


def test_an_end_that_was_seen_outlives_the_head(world: World) -> None:
    world.ray.put("one", "SUCCEEDED")
    world.elsewhere("job logs one -f").ok()
    world.forget_jobs()
    (listed,) = world.elsewhere("runs -o json").ok().result("runs")
    assert (listed["state"], listed["final"]) == ("SUCCEEDED", True)
    done = world.elsewhere("job logs one")
    assert (done.exit, "its record says SUCCEEDED" in done.err) == (3, True), done.err


def test_the_copy_of_the_log_on_this_machine_outlives_the_head(world: World) -> None:
    world.ray.ends = "SUCCEEDED"
    world.run(f"{RUN} --run-id two").ok()
    world.forget_jobs()
    done = world.run("job logs two").ok()
    assert done.out == "step 1\nstep 2\n"
    assert "this is the copy on this machine" in done.err


def test_a_cluster_that_cannot_be_asked_leaves_its_runs_unknown(world: World) -> None:
    world.ray.down = ClusterError("the head is away", reason="PortClosed")
    (listed,) = world.elsewhere("runs -o json").ok().result("runs")
    assert (listed["state"], listed["message"]) == ("UNKNOWN", "the head is away")
    world.ray.down = None
    world.run(f"{RUN} --run-id two --no-wait").ok()
    world.ray.down = ClusterError("the head is away", reason="PortClosed")
    said = world.elsewhere("runs").ok().err
    assert said.count("the head is away") == 1
    assert "one" in said
    assert "two" in said


def test_records_that_may_not_be_read_are_a_note(world: World) -> None:
    world.cluster.faults["list", "ConfigMap"] = ClusterError("forbidden", status=403)
    done = world.elsewhere("runs").ok()
    assert "runs on long-lived clusters are not listed" in done.err


def test_status_of_a_runs_id_is_its_cluster(world: World) -> None:
    done = world.elsewhere("status one")
    assert "raycluster/t" in done.out, done
