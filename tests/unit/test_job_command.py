"""`job logs`, `job stop` and `runs` against a cluster in memory: whose runs, which log, what is released."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import FakeCluster, FakeJobs
from waiting import wait_until

from kubectl_nrl.errors import ClusterError
from kubectl_nrl.testing import USER, Outcome, Project
from kubectl_nrl.watch import LogCopy

RUNNING = {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}
DONE = {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster, self.jobs = FakeCluster(), FakeJobs(b"one\ntwo\nthree\n")
        self.jobs.chunk = 100
        self.project = Project()
        monkeypatch.setattr("kubectl_nrl.cluster.Cluster.connect", lambda **words: self.cluster)
        monkeypatch.setattr("kubectl_nrl.ray_jobs.connect", lambda cluster, raycluster: self.jobs)

    def put(self, status: dict[str, Any], owner: str = USER, name: str = "r", run: str = "id-1") -> None:
        labels = {
            "kubectl-nrl/managed": "true",
            "kubectl-nrl/run": run,
            **({"kubectl-nrl/owner": owner} if owner else {}),
        }
        status = {"rayClusterName": f"{name}-x1", "jobId": run, **status}
        job = self.cluster.put(
            {
                "apiVersion": "ray.io/v1",
                "kind": "RayJob",
                "metadata": {"name": name, "labels": labels},
                "status": status,
            }
        )
        refs = [{"uid": job["metadata"]["uid"]}]
        self.cluster.put({"kind": "RayCluster", "metadata": {"name": f"{name}-x1", "ownerReferences": refs}})
        self.cluster.put(
            {"kind": "Pod", "metadata": {"name": f"{name}-w0", "labels": {"ray.io/cluster": f"{name}-x1"}}}
        )
        self.cluster.after["delete", "RayCluster"] = lambda: self.cluster.remove("Pod", f"{name}-w0")
        self.cluster.after["delete", "RayJob"] = lambda: self.cluster.remove("Pod", f"{name}-w0")

    def stops(self) -> None:
        """Ray obeys a stop, and KubeRay notices."""

        def stop(submission_id: str) -> bool:
            self.jobs.stopped.append(submission_id)
            self.jobs.status = "STOPPED"
            final = {"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}
            threading.Timer(0.1, lambda: self.cluster.set_status("RayJob", "r", **final)).start()
            return True

        self.jobs.stop = stop  # type: ignore[method-assign]
        self.jobs.__class__.__enter__ = lambda jobs: jobs  # type: ignore[attr-defined]
        self.jobs.__class__.__exit__ = lambda jobs, *raised: None  # type: ignore[attr-defined]

    def run(self, line: str) -> Outcome:
        return self.project.run(line)

    def gone(self) -> None:
        self.cluster.objects.pop(("RayCluster", "default", "r-x1"), None)

    @property
    def copy(self) -> Path:
        return self.project.home / ".local/state/kubectl-nrl/runs/id-1/driver.log"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    yield World(monkeypatch)


def test_the_log_so_far_and_its_last_lines(world: World) -> None:
    world.put(RUNNING)
    assert world.run("job logs id-1").ok().out == "one\ntwo\nthree\n"
    assert world.run("job logs rayjob/r --tail 2").ok().out == "two\nthree\n"
    assert world.run("job logs id-1 --tail 0").ok().out == ""


def test_following_ends_with_the_run_and_as_the_run(world: World) -> None:
    world.put(RUNNING)

    all_read, log_chunk, asked = threading.Event(), world.jobs.log_chunk, list[int]()

    def noticing(submission_id: str, offset: int) -> bytes:
        asked.append(offset)
        if len(asked) > 2:
            all_read.set()
        return log_chunk(submission_id, offset)

    world.jobs.log_chunk = noticing  # type: ignore[method-assign]

    def fail() -> None:
        all_read.wait(60)
        world.jobs.log += b"four\n"
        world.cluster.set_status("RayJob", "r", jobDeploymentStatus="Failed", jobStatus="FAILED", reason="AppFailed")

    failing = threading.Thread(target=fail)
    failing.start()
    done = world.run("job logs id-1 -f --tail 1")
    failing.join()
    assert done.exit == 1
    assert done.out == "three\nfour\n"
    assert "rayjob/r: FAILED (AppFailed)" in done.err


def test_following_a_run_that_was_stopped_says_what_it_still_holds(world: World) -> None:
    """No deletion rule matches STOPPED, and whoever only follows releases nothing."""
    world.put(RUNNING)
    job = world.cluster.objects["RayJob", "default", "r"]
    rule = {"policy": "DeleteCluster", "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 0}}
    job["spec"] = {"deletionStrategy": {"deletionRules": [rule]}}
    final = {"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED", "endTime": "2026-11-30T12:00:00Z"}

    def stop() -> None:
        wait_until(lambda: world.cluster.watches("Pod"))  # of which it is to be known how many there are
        world.cluster.set_status("RayJob", "r", **final)

    ends = threading.Thread(target=stop)
    ends.start()
    done = world.run("job logs id-1 -f")
    ends.join()
    assert done.exit == 5
    assert (
        "it still holds 1 pod, which nothing will take from it\nhint: kubectl nrl job stop id-1 -n default" in done.err
    )
    assert ("RayCluster", "default", "r-x1") in world.cluster.objects


def test_following_a_run_that_is_over_shows_it_and_ends_as_it_did(world: World) -> None:
    world.put({"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"})
    done = world.run("job logs id-1 -f")
    assert (done.exit, done.out) == (5, "one\ntwo\nthree\n")


def test_a_run_without_a_driver_says_so(world: World) -> None:
    world.put({"jobDeploymentStatus": "Initializing", "jobStatus": ""})
    done = world.run("job logs id-1").ok()
    assert done.out == ""
    assert "has no driver yet (Initializing: its Ray cluster is starting)" in done.err


def test_the_copy_serves_when_the_head_is_gone(world: World) -> None:
    world.put(DONE)
    world.run("job logs id-1").ok()
    world.gone()
    done = world.run("job logs id-1 --tail 1").ok()
    assert done.out == "three\n"
    assert done.err == ""


def test_a_copy_that_is_not_whole_is_shown_with_a_warning(world: World) -> None:
    world.put(RUNNING)
    world.run("job logs id-1").ok()
    world.cluster.set_status("RayJob", "r", **DONE)
    record = world.copy.with_name("run.json")
    record.write_text(record.read_text().replace("true", "false"))
    world.gone()
    done = world.run("job logs id-1").ok()
    assert done.out == "one\ntwo\nthree\n"
    assert "its end may be missing" in done.err


def test_a_copy_of_another_user_is_an_error_that_names_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.put(DONE)
    world.run("job logs id-1").ok()
    world.gone()
    opened = Path.open

    def refused(path: Path, *words: Any, **more: Any) -> Any:
        if path.name == "driver.log":
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *words, **more)

    monkeypatch.setattr(Path, "open", refused)
    done = world.run("job logs id-1")
    assert (done.exit, done.out) == (3, "")
    assert f"error: the copy {world.copy} cannot be read: Permission denied\nhint: ls -l" in done.err
    assert "cannot be read: Permission denied" in world.run("verify id-1").out


def test_a_copy_that_another_process_is_writing_serves_too(world: World) -> None:
    world.put(DONE)
    world.gone()
    world.copy.parent.mkdir(parents=True)
    world.copy.write_bytes(b"one\ntw")
    writing = LogCopy.open(world.copy.parent)
    assert writing is not None
    done = world.run("job logs id-1").ok()
    writing.close()
    assert done.out == "one\ntw"
    assert "its end may be missing: the Ray cluster r-x1 is gone" in done.err


def test_what_was_read_of_a_run_that_went_on_is_not_taken_for_the_whole(world: World) -> None:
    world.put(RUNNING)
    world.run("job logs id-1").ok()
    world.jobs.log += b"four\n"
    world.cluster.set_status("RayJob", "r", **DONE)
    assert world.run("job logs id-1").ok().out == "one\ntwo\nthree\nfour\n"
    world.gone()
    done = world.run("job logs id-1").ok()
    assert (done.out, done.err) == ("one\ntwo\nthree\nfour\n", "")


def test_a_run_that_somebody_deletes_while_it_is_followed_was_stopped(world: World) -> None:
    world.put(RUNNING)
    world.jobs.log = b"".join(b"line %d\n" % number for number in range(50))
    removed = threading.Event()
    log_chunk = world.jobs.log_chunk

    def delete(submission_id: str, offset: int) -> bytes:
        if offset and not removed.is_set():
            removed.set()
            world.cluster.remove("Pod", "r-w0")
            world.gone()
            world.cluster.remove("RayJob", "r")
        return log_chunk(submission_id, offset)

    world.jobs.log_chunk = delete  # type: ignore[method-assign]
    done = world.run("job logs id-1 -f -o json")
    says = "rayjob/r was deleted before it ended, not by this command; nothing of it runs any more"
    assert (done.exit, says in done.err) == (5, True), done.err
    result = done.result("run")
    assert (result["state"], result["exitCode"], result["log"]["complete"]) == ("DELETED", 5, False)


def test_a_log_that_is_nowhere_is_an_error_with_a_way_out(world: World) -> None:
    world.put(DONE)
    world.gone()
    done = world.run("job logs id-1")
    assert done.exit == 3
    assert "launch.logDir" in done.err


def test_the_copy_of_another_attempt_is_not_mixed_in(world: World) -> None:
    world.put(RUNNING)
    world.run("job logs id-1").ok()
    world.cluster.set_status("RayJob", "r", rayClusterName="r-x2", **DONE)
    world.cluster.put({"kind": "RayCluster", "metadata": {"name": "r-x2"}})
    world.jobs.log = b"second attempt\n"
    assert world.run("job logs id-1").ok().out == "second attempt\n"
    assert world.copy.with_name("driver.log.1").read_text() == "one\ntwo\nthree\n"


def test_the_copy_serves_when_the_record_or_the_cluster_is_out_of_reach(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put(DONE)
    world.run("job logs id-1").ok()
    world.cluster.objects.clear()
    done = world.run("job logs id-1").ok()
    assert done.out == "one\ntwo\nthree\n"
    assert 'no run "id-1" in namespace "default"' in done.err
    world.cluster.faults["list", "RayJob"] = ClusterError("connection refused")
    done = world.run("job logs id-1").ok()
    assert "connection refused" in done.err
    assert done.out == "one\ntwo\nthree\n"


def test_json_gives_the_run_and_leaves_the_log_to_stderr(world: World) -> None:
    world.put(DONE)
    done = world.run("job logs id-1 -o json").ok()
    result = done.result("run")
    assert (result["state"], result["log"]["complete"]) == ("SUCCEEDED", True)
    assert "three" in done.err


@pytest.mark.parametrize("verb", ["logs", "stop"])
def test_an_unknown_run_exits_2_and_says_where_to_look(world: World, verb: str) -> None:
    done = world.run(f"job {verb} nope -n rl")
    assert done.exit == 2
    assert 'no run "nope" in namespace "rl"' in done.err


@pytest.mark.parametrize(
    "line", ["job logs x --force", "job stop x -f", "job stop x --tail 3", "job logs x --tail -1", "job"]
)
def test_flags_of_the_other_action_are_refused(world: World, line: str) -> None:
    assert world.run(line).exit == 2


def test_stop_stops_the_driver_releases_the_cluster_and_keeps_record_and_log(world: World) -> None:
    world.put(RUNNING)
    world.stops()
    done = world.run("job stop id-1 -o json").ok()
    result = done.result("job_stop")
    assert world.jobs.stopped == ["id-1"]
    assert (result["state"], result["stopped"], result["released"], result["notGone"]) == ("STOPPED", True, "r-x1", [])
    assert result["log"]["complete"] is True
    assert world.copy.read_bytes() == world.jobs.log
    assert list(world.cluster.objects) == [("RayJob", "default", "r")]


def test_stop_of_a_finished_run_releases_what_it_holds(world: World) -> None:
    world.put(DONE)
    done = world.run("job stop id-1").ok()
    assert "rayjob/r: SUCCEEDED, was over already" in done.out
    assert "released Ray cluster r-x1" in done.out
    assert world.jobs.stopped == []


def test_stop_of_a_run_without_a_driver_deletes_it(world: World) -> None:
    world.put({"jobDeploymentStatus": "Suspended", "jobStatus": ""})
    result = world.run("job stop id-1 -o json").ok().result("job_stop")
    assert result["deleted"] is True
    assert ("RayJob", "default", "r") not in world.cluster.objects


@pytest.mark.parametrize(("deployment", "job"), [("Retrying", "FAILED"), ("Suspending", "RUNNING")])
def test_stop_between_two_attempts_deletes_the_run_before_the_next_begins(
    world: World, deployment: str, job: str
) -> None:
    """Ray's word is that of the driver before, and its head is going: there is nobody to ask for a stop."""
    world.put({"jobDeploymentStatus": deployment, "jobStatus": job})
    done = world.run("job stop id-1").ok()
    assert done.out.startswith("rayjob/r had no driver now and was deleted\n")
    assert world.cluster.objects.get(("RayJob", "default", "r")) is None and world.jobs.stopped == []
    assert world.copy.read_bytes() == b"one\ntwo\nthree\n"


def test_stop_gives_up_on_pods_that_do_not_go_and_names_them(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubectl_nrl.commands.job_stop.GONE", 0.1)
    monkeypatch.setattr("kubectl_nrl.commands.job_stop.NOTICED", 0.1)
    world.put(DONE)
    world.cluster.after.clear()
    done = world.run("job stop id-1 -o json")
    assert (done.exit, done.result("job_stop")["notGone"]) == (4, ["r-w0"])
    world.put({"jobDeploymentStatus": "Initializing", "jobStatus": ""}, name="q", run="id-2")
    world.cluster.after.clear()
    done = world.run("job stop id-2")
    assert (done.exit, done.out) == (4, "rayjob/q had no driver yet and was deleted\nstill ending: q-w0\n")


def test_stop_does_not_say_of_pods_that_may_not_be_listed_that_they_are_gone(world: World) -> None:
    world.put(DONE)
    world.cluster.faults["list", "Pod"] = ClusterError("cannot list pods", status=403, reason="Forbidden")
    done = world.run("job stop id-1").ok()
    assert "warning: whether its pods are gone is not known: you may not list pods" in done.err


def test_a_head_out_of_reach_leaves_the_run_and_names_the_way_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(cluster: Any, raycluster: Any) -> Any:
        raise ClusterError("you may not create pods/portforward", status=403)

    world.put(RUNNING)
    monkeypatch.setattr("kubectl_nrl.ray_jobs.connect", refuse)
    done = world.run("job stop id-1")
    assert done.exit == 3
    assert "was not stopped: you may not create pods/portforward" in done.err
    assert "hint: kubectl nrl job stop id-1 --force -n default" in done.err
    assert not [c for c in world.cluster.calls if c[0] == "delete"]


@pytest.mark.parametrize(
    ("owner", "flags", "code"),
    [
        ("anna", "", 2),
        ("anna", "--yes", 2),
        ("anna", "--force", 2),
        ("anna", "--force --yes", 0),
        ("", "", 2),
        ("", "--yes", 0),
        (USER, "", 0),
    ],
)
def test_somebody_elses_run_needs_force_and_a_yes(world: World, owner: str, flags: str, code: int) -> None:
    world.put(DONE, owner=owner)
    done = world.run(f"job stop id-1 {flags}")
    assert done.exit == code
    deleted = [c for c in world.cluster.calls if c[0] == "delete"]
    assert bool(deleted) == (code == 0)


def test_runs_lists_mine_as_text_and_as_data(world: World) -> None:
    world.put(RUNNING)
    world.put(DONE, name="s", run="id-2")
    world.put(DONE, name="x", run="id-3", owner="anna")
    done = world.run("runs -n default").ok()
    assert done.out.splitlines()[0].split() == ["ID", "RAYJOB", "STATE", "AGE", "DURATION", "GPUS"]
    assert "anna" not in done.out
    listed = world.run("runs -n default --all-users -o json").ok().result("runs")
    assert {r["id"]: r["state"] for r in listed} == {"id-1": "Running", "id-2": "SUCCEEDED", "id-3": "SUCCEEDED"}
    assert world.run("runs -n elsewhere").ok().out == "no runs\n"


def test_rayjobs_of_other_tools_are_listed_with_everybodys_only(world: World) -> None:
    bare = {"kind": "RayJob", "metadata": {"name": "bare"}, "status": {"jobId": "bare-x7k2", **RUNNING}}
    world.cluster.put(bare)
    assert world.run("runs -n default").ok().out == "no runs\n"
    [listed] = world.run("runs -n default --all-users -o json").ok().result("runs")
    assert (listed["id"], listed["rayjob"], listed["owner"]) == ("bare-x7k2", "bare", "")


def test_a_page_that_a_log_names_is_kept_on_the_run_for_other_laptops(world: World) -> None:
    world.put(RUNNING)
    world.put(RUNNING, name="s", run="id-2", owner="anna")
    world.jobs.log = b"wandb: View run at https://wandb.ai/t/p/runs/abc\n"
    world.run("job logs id-1").ok()
    world.run("job logs id-2").ok()
    listed = world.run("runs -n default --all-users -o json").ok().result("runs")
    assert {r["id"]: r["wandb"] for r in listed} == {"id-1": "https://wandb.ai/t/p/runs/abc", "id-2": ""}


def test_runs_names_a_finished_run_that_still_holds_gpus(world: World) -> None:
    world.put({"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"})
    pod = world.cluster.objects["Pod", "default", "r-w0"]
    pod["spec"] = {"nodeName": "n0", "containers": [{"resources": {"limits": {"nvidia.com/gpu": "4"}}}]}
    done = world.run("runs -n default").ok()
    assert "run id-1 is over and still holds 4 GPUs" in done.err
    assert "hint: kubectl nrl job stop id-1 -n default" in done.err
