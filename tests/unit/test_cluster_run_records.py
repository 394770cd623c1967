"""A run on a long-lived cluster found again by its record, from a machine that knows nothing of it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from long_lived_case import LongLivedWorld

from kubectl_nrl.errors import ClusterError
from kubectl_nrl.testing import USER
from kubectl_nrl.watch.log_place import OVERLAP

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


def test_logs_says_so_too_and_still_shows_the_head(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert world.run("logs one").ok().out == "step 1\nstep 2\n"
    world.forget_jobs()
    done = world.elsewhere("logs one")
    assert (done.exit, "run one is unknown to Ray: the head of raycluster/t restarted" in done.err) == (6, True), done
    read: list[str] = []
    monkeypatch.setattr(
        "kubectl_nrl.watch.PodLog.read", lambda self, *, follow: read.append(self._pod["metadata"]["name"])
    )
    world.elsewhere("logs one --source head").ok()
    assert read == ["t-head"]


def test_an_end_that_was_seen_outlives_the_head(world: World) -> None:
    world.ray.put("one", "SUCCEEDED")
    world.run("job logs one -f").ok()
    world.forget_jobs()
    (listed,) = world.elsewhere("runs -o json").ok().result("runs")
    assert (listed["state"], listed["final"]) == ("SUCCEEDED", True)
    done = world.elsewhere("job logs one")
    assert (done.exit, "its record says SUCCEEDED" in done.err) == (3, True), done.err


@pytest.mark.parametrize("verb", ["job logs", "logs"])
@pytest.mark.parametrize(("state", "code"), [("SUCCEEDED", 0), ("FAILED", 1), ("STOPPED", 5)])
def test_the_copy_of_a_log_outlives_the_head_with_how_it_ended(world: World, verb: str, state: str, code: int) -> None:
    world.ray.put("one", state)
    assert world.run(f"{verb} one -f").exit == code
    world.forget_jobs()
    done = world.run(f"{verb} one").ok()
    assert done.out == "step 1\nstep 2\n"
    assert "the history of its jobs is lost; its record says" in done.err
    assert "this is the copy on this machine, and it is whole" in done.err
    followed = world.run(f"{verb} one -f")
    assert (followed.exit, followed.out) == (code, "step 1\nstep 2\n"), followed.err


@pytest.mark.parametrize("verb", ["job logs", "logs"])
def test_a_copy_that_is_not_whole_says_how_far_it_goes_and_is_no_end(world: World, verb: str) -> None:
    world.run("job logs one").ok()
    world.forget_jobs()
    done = world.run(f"{verb} one").ok()
    assert done.out == "step 1\nstep 2\n"
    assert "this is the copy on this machine, 14 bytes, the last of them read at 20" in done.err
    assert "its end may be missing" in done.err
    followed = world.run(f"{verb} one -f")
    assert (followed.exit, followed.out) == (6, "step 1\nstep 2\n"), followed.err


@pytest.mark.parametrize("verb", ["job logs", "logs"])
def test_the_copy_of_a_log_outlives_the_cluster(world: World, verb: str) -> None:
    world.ray.put("one", "SUCCEEDED")
    world.run("job logs one -f").ok()
    world.cluster.objects.clear()
    done = world.run(f"{verb} one").ok()
    assert done.out == "step 1\nstep 2\n"
    assert 'no run "one" in namespace "default"; this is the copy on this machine, and it is whole' in done.err
    followed = world.run(f"{verb} one -f")
    assert (followed.exit, "the same without -f shows it" in followed.err) == (2, True), followed.err
    assert world.elsewhere(f"{verb} one").exit == 2


def test_reading_goes_on_where_the_copy_ends_and_what_came_later_is_not_missed(world: World) -> None:
    world.ray.log = b"".join(b"step %d\n" % number for number in range(100))
    first = world.ray.log
    assert world.run("job logs one").ok().out.encode() == first
    world.ray.log += b"and more\n"
    world.ray.put("one", "SUCCEEDED")
    asked: list[int] = []
    chunk = world.ray.log_chunk
    world.ray.log_chunk = lambda run, at: (asked.append(at), chunk(run, at))[1]  # type: ignore[method-assign]
    assert world.run("job logs one").ok().out.encode() == world.ray.log
    assert asked[0] == len(first) - OVERLAP
    world.forget_jobs()
    assert world.run("job logs one").ok().out.encode() == world.ray.log


def test_a_log_of_which_nothing_is_left_on_the_head_is_shown_as_far_as_it_was_kept(world: World) -> None:
    world.run("job logs one").ok()
    world.ray.log = b""
    world.ray.put("one", "SUCCEEDED")
    done = world.run("job logs one").ok()
    assert done.out == "step 1\nstep 2\n"
    assert "its end may be missing: nothing is left of it on the head" in done.err
    assert world.elsewhere("job logs one").exit == 0


def test_the_pods_of_a_runs_cluster_are_found_by_its_id_whatever_ray_remembers(world: World) -> None:
    world.forget_jobs()
    world.cluster.pod_log_stream = lambda *words, **more: iter([b"2026-11-30T12:00:00Z raylet\n"])  # type: ignore
    assert world.elsewhere("logs one --source head").ok().out == "raylet\n"


def test_a_page_that_a_log_names_is_written_down_for_other_laptops(world: World) -> None:
    world.ray.log = b"wandb: View run at https://wandb.ai/t/p/runs/abc\n"
    world.elsewhere("job logs one").ok()
    (listed,) = world.run("runs -o json").ok().result("runs")
    assert listed["wandb"] == "https://wandb.ai/t/p/runs/abc"


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


def test_a_ray_cluster_that_may_not_be_read_leaves_its_runs_unknown_and_the_list_whole(world: World) -> None:
    world.cluster.faults["get", "RayCluster"] = ClusterError("cannot get rayclusters", status=403, reason="Forbidden")
    (listed,) = world.elsewhere("runs -o json").ok().result("runs")
    assert (listed["state"], listed["message"]) == ("UNKNOWN", "cannot get rayclusters")


def test_records_that_may_not_be_read_are_a_note(world: World) -> None:
    world.cluster.faults["list", "ConfigMap"] = ClusterError("forbidden", status=403)
    done = world.elsewhere("runs").ok()
    assert "runs on long-lived clusters are not listed" in done.err


def test_status_of_a_runs_id_is_its_cluster_with_the_run(world: World) -> None:
    world.ray.put("two", "RUNNING", metadata={"user": "anna"}, start_time=1)
    world.ray.put("old", "FAILED")
    world.ray.jobs["one"]["message"] = "Job is currently running."
    text = world.elsewhere("status one").ok().out
    assert "raycluster/t: ready" in text
    assert "run        one: RUNNING\n" in text, "and not what Ray says of each job that runs"
    assert "follow it  kubectl nrl job logs one -f -n default" in text
    assert "two: RUNNING" in text
    assert "old" not in text
    (item,) = world.elsewhere("status one -o json").ok().result("status")["items"]
    assert (item["kind"], item["run"]["id"], item["run"]["state"]) == ("raycluster", "one", "RUNNING")
    assert {(job["id"], job["owner"]) for job in item["jobs"]} == {("one", USER), ("two", "anna")}


def test_status_says_that_a_head_forgot_the_run_and_not_that_nothing_is_wrong(world: World) -> None:
    world.forget_jobs()
    text = " ".join(world.elsewhere("status one").ok().out.split())
    assert "run one: UNKNOWN (HeadRestarted); the head of raycluster/t restarted" in text
    assert "jobs none run" in text
    assert "job stop" not in text


def test_status_of_a_run_whose_cluster_is_gone_or_another_one_says_that(world: World) -> None:
    obj = copy.deepcopy(world.cluster.objects["RayCluster", "default", "t"])
    world.cluster.put({**obj, "metadata": {**obj["metadata"], "uid": "another"}})
    for _ in range(2):
        done = world.elsewhere("status one")
        assert (done.exit, "raycluster/t of run one is gone" in done.err) == (6, True), done.err
        world.cluster.remove("RayCluster", "t")


def test_watching_a_runs_id_ends_with_the_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubectl_nrl.commands.status_watch.PAUSE", 0.01)
    asked = 0
    told = world.ray.list

    def tell() -> list[dict[str, Any]]:
        nonlocal asked
        asked += 1
        world.ray.jobs["one"]["status"] = "RUNNING" if asked < 4 else "FAILED"
        return told()

    world.ray.list = tell  # type: ignore[method-assign]
    done = world.elsewhere("status one -w").ok()
    assert [line for line in done.out.splitlines() if "run one: FAILED" in line], done.out


def test_an_end_that_runs_saw_outlives_the_head(world: World) -> None:
    world.ray.jobs["one"] |= {"status": "FAILED", "message": "exit 3", "end_time": 1767323100000}
    (seen,) = world.elsewhere("runs -o json").ok().result("runs")
    assert (seen["state"], world.record("one")["state"]) == ("FAILED", "FAILED")
    world.forget_jobs()
    (seen,) = world.elsewhere("runs -o json").ok().result("runs")
    assert (seen["state"], seen["final"], seen["durationSeconds"]) == ("FAILED", True, 55.0)


def test_an_end_of_anothers_is_seen_and_not_written(world: World) -> None:
    world.give_to("ConfigMap", "nrl-run-one", "anna")
    world.ray.jobs["one"]["status"] = "SUCCEEDED"
    (seen,) = world.elsewhere("runs --all-users -o json").ok().result("runs")
    assert (seen["state"], "state" in world.record("one")) == ("SUCCEEDED", False)
