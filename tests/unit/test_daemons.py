"""Daemons of long-lived clusters, against a cluster in memory: when they are submitted, used again, replaced, and waited for."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from long_lived_case import LongLivedWorld

from kubectl_nrl.errors import ClusterError
from kubectl_nrl.labels import CLUSTER_UID, DAEMON
from kubectl_nrl.testing import RUN_ID, USER, Outcome

SHORT = RUN_ID[-4:]
REGISTRY = "nemo-rl-endpoints-job-7"


class World(LongLivedWorld):
    """Training with a gym and a generation daemon; `healthy` are the paths of health URLs that answer."""

    def daemons(self, gym: str = "serve --job-id job-7", *, generation: bool = False, **more: Any) -> None:
        kuberay = {"gym": {"daemon": {"entrypoint": gym, **more}}}
        if generation:
            kuberay["generation"] = {"daemon": {"entrypoint": "generate", "env": {"DISAGG_JOB_ID": "job-7"}}}
        self.infra(*kuberay)
        data = self.written()
        for role, keys in kuberay.items():
            data["kuberay"][role] |= keys
        self.project.write("infra.yaml", data)

    def written(self) -> dict[str, Any]:
        """The infra file as it is now."""
        found: dict[str, Any] = yaml.safe_load(self.project.read("infra.yaml"))
        return found

    def start(self, more: str = "", **words: Any) -> Outcome:
        return self.run(f"run recipe.yaml --infra infra.yaml --raycluster {more}", **words)

    def registry(self, *owners: dict[str, str], **data: str) -> None:
        meta = {"name": REGISTRY, "ownerReferences": list(owners)}
        self.cluster.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})

    @property
    def ids(self) -> dict[str, str]:
        """State of each job that was submitted as a daemon."""
        return {name: job["status"] for name, job in self.ray.jobs.items() if DAEMON in (job.get("metadata") or {})}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    for name, value in (("POLL", 0.01), ("STARTED", 0.0)):
        monkeypatch.setattr(f"kubectl_nrl.watch.daemon_watch.{name}", value)
    monkeypatch.setattr("kubectl_nrl.watch.job_follow.POLL", 0.02)
    made = World(monkeypatch)
    made.daemons()
    return made


def test_a_daemon_is_submitted_when_its_cluster_is_up_and_found_by_its_metadata(world: World) -> None:
    done = world.up("-o json").ok().result("cluster_up")
    assert done["daemons"] == [{"role": "gym", "submissionId": "gym-daemon", "action": "submitted"}]
    job = world.ray.jobs["gym-daemon"]
    assert job["entrypoint"].startswith("sh -c ': nrl gym-daemon;")
    uid = world.cluster.objects["RayCluster", "default", "gym"]["metadata"]["uid"]
    found = job["metadata"]
    assert (found["user"], found["entrypoint"], found["kubectl-nrl/role"], found[CLUSTER_UID]) == (
        USER, "serve --job-id job-7", "gym", uid,
    )  # fmt: skip


def test_training_is_submitted_after_the_daemons(world: World) -> None:
    world.start().ok()
    assert list(world.ray.jobs) == ["gym-daemon", RUN_ID]


def test_one_that_runs_unchanged_is_used_again_with_other_overrides_too(world: World) -> None:
    world.up().ok()
    world.forget()
    done = world.start("steps=2").ok()
    assert "daemon gym-daemon of gym: unchanged" in done.err
    assert world.ray.asked.count("submit") == 1, "the training alone"


def test_one_that_reads_the_recipe_is_another_with_other_overrides(world: World) -> None:
    world.daemons("serve $NRL_RECIPE")
    world.up().ok()
    assert "was started with another entrypoint" in world.up("steps=2").ok().err


def test_one_that_differs_is_kept_and_said(world: World) -> None:
    world.up().ok()
    world.daemons("serve --other --job-id job-7")
    done = world.up("-o json").ok()
    assert done.result("cluster_up")["daemons"][0]["action"] == "kept"
    assert (
        "daemon gym-daemon of gym was started with another entrypoint, environment or directory; it is kept" in done.err
    )


def test_replace_stops_training_and_daemon_first_and_the_new_one_is_found_later(world: World) -> None:
    world.up().ok()
    world.ray.put("old", "RUNNING", metadata={"user": USER})
    world.forget()
    world.start("--replace").ok()
    asked = [what for what in world.ray.asked if what in ("stop old", "stop gym-daemon", "submit")]
    assert asked == ["stop old", "stop gym-daemon", "submit", "submit"]
    assert world.ids == {"gym-daemon": "STOPPED", f"gym-daemon-{SHORT}": "RUNNING"}
    assert f"daemon gym-daemon-{SHORT} of gym: unchanged" in world.up().ok().out


def test_replace_stops_anothers_daemon_only_by_force_and_a_yes(world: World) -> None:
    world.up().ok()
    world.ray.jobs["gym-daemon"]["metadata"]["user"] = "bob"
    done = world.up("--replace")
    assert (done.exit, '"bob"' in done.err, world.ids["gym-daemon"]) == (2, True, "RUNNING"), done.err
    assert world.up("--replace --yes").exit == 2
    world.up("--replace --force --yes").ok()


def test_one_that_has_ended_is_forgotten_and_submitted_anew(world: World) -> None:
    world.up().ok()
    world.ray.jobs["gym-daemon"]["status"] = "FAILED"
    world.ray.jobs["gym-daemon"]["mark"] = "old"
    done = world.up().ok()
    assert "daemon gym-daemon of gym: submitted" in done.out
    assert world.ids == {"gym-daemon": "RUNNING"}
    assert "mark" not in world.ray.jobs["gym-daemon"]


def test_what_a_head_remembers_of_an_earlier_cluster_is_not_this_ones_daemon(world: World) -> None:
    world.up().ok()
    world.down("gym --yes").ok()
    done = world.up("-o json").ok().result("cluster_up")
    assert done["daemons"][0] == {"role": "gym", "submissionId": f"gym-daemon-{SHORT}", "action": "submitted"}


def test_skip_daemons_starts_none(world: World) -> None:
    world.up("--skip-daemons").ok()
    world.start("--skip-daemons").ok()
    assert world.ids == {}


def test_without_waiting_no_daemon_is_started_and_that_is_said(world: World) -> None:
    done = world.up("--no-wait").ok()
    assert (world.ids, "no daemon is started" in done.err) == ({}, True)


def test_targets_choose_among_daemons_too(world: World) -> None:
    world.daemons(generation=True)
    world.up("--target kuberay.generation").ok()
    assert list(world.ids) == ["generation-daemon"]


def test_one_that_dies_at_once_fails_the_command_with_its_last_lines(world: World) -> None:
    world.ray.daemon_ends, world.ray.log = "FAILED", b"importing\nModuleNotFoundError: gym\n"
    done = world.start()
    assert done.exit == 3, done.err
    assert "daemon gym-daemon of gym has ended: FAILED" in done.err
    assert "  | ModuleNotFoundError: gym" in done.err
    assert "--role gym --source daemon" in done.err
    assert RUN_ID not in world.ray.jobs


def test_one_that_dies_while_another_role_comes_up_ends_the_wait(world: World) -> None:
    world.keeps_down.add("Deployment")
    world.daemons()
    data = world.written()
    container = {"name": "j", "image": "j:1", "ports": [{"containerPort": 8000}]}
    data["deployments"] = {"judge": {"name": "judge", "spec": {"template": {"spec": {"containers": [container]}}}}}
    world.project.write("infra.yaml", data)
    get, seen = world.ray.get, []

    def dies(submission_id: str) -> dict[str, Any] | None:
        seen.append(submission_id)
        if seen.count("gym-daemon") > 5:
            world.ray.jobs["gym-daemon"]["status"] = "FAILED"
        return get(submission_id)

    world.ray.get = dies  # type: ignore[method-assign]
    done = world.up("--timeout 60")
    assert (done.exit, "daemon gym-daemon of gym has ended: FAILED" in done.err) == (3, True), done.err


def test_a_health_url_that_does_not_answer_in_time_is_an_error_that_names_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Any) -> None:
        raise ClusterError("its health URL answers 503", reason="Unhealthy")

    monkeypatch.setattr("kubectl_nrl.watch.UrlHealth.ask", refuse)
    world.daemons(healthCheckUrl="http://gym-head-svc:9090/health", healthCheckTimeoutS=1)
    done = world.up()
    assert done.exit == 4, done.err
    assert "daemon gym-daemon of gym is not healthy after 1 s: its health URL answers 503" in done.err
    assert "kuberay.gym.daemon.healthCheckTimeoutS" in done.err


def test_what_a_daemon_still_lacks_is_said_once_each(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [503, 503, 502, 503, 200]

    def ask(self: Any) -> None:
        status = answers.pop(0)
        if status != 200:
            raise ClusterError(f"its health URL answers {status}", reason="Unhealthy")

    monkeypatch.setattr("kubectl_nrl.watch.UrlHealth.ask", ask)
    world.daemons(healthCheckUrl="http://gym-head-svc:9090/health")
    done = world.up().ok()
    daemon = "daemon gym-daemon of gym"
    assert [line for line in done.err.splitlines() if line.startswith(daemon)] == [
        f"{daemon}: submitted", f"{daemon}: its health URL answers 503", f"{daemon}: its health URL answers 502",
        f"{daemon} is up",
    ]  # fmt: skip


def test_a_url_that_names_no_service_is_asked_by_a_job_on_the_cluster_that_is_taken_away_again(world: World) -> None:
    world.daemons(healthCheckUrl="http://localhost:9090/health")
    world.up().ok()
    assert [name for name in world.ray.submitted if name.startswith("health-")], world.ray.submitted
    assert list(world.ray.jobs) == ["gym-daemon"]


def test_a_fresh_start_clears_the_rendezvous_before_the_daemon_is_submitted(world: World) -> None:
    world.registry(gym_head_server="http://old")
    submit, there = world.ray.submit, []

    def watched(*args: Any, **words: Any) -> bool:
        there.append(("ConfigMap", "default", REGISTRY) in world.cluster.objects)
        return submit(*args, **words)

    world.ray.submit = watched  # type: ignore[method-assign]
    world.up().ok()
    assert there == [False]


def test_a_daemon_that_is_used_again_keeps_what_it_wrote_there(world: World) -> None:
    world.up().ok()
    world.registry(gym_head_server="http://now")
    world.start().ok()
    assert world.cluster.objects["ConfigMap", "default", REGISTRY]["data"] == {"gym_head_server": "http://now"}


def test_of_two_the_one_that_stays_keeps_its_url(world: World) -> None:
    world.daemons(generation=True)
    world.up().ok()
    world.registry(gym_head_server="http://old", vllm_base_urls="[]", error="gone")
    world.ray.jobs["gym-daemon"]["status"] = "FAILED"
    world.up().ok()
    left = world.cluster.objects["ConfigMap", "default", REGISTRY]["data"]
    assert {key for key, value in left.items() if value is not None} == {"vllm_base_urls"}


def test_the_rendezvous_goes_with_the_clusters(world: World) -> None:
    world.up().ok()
    world.registry(gym_head_server="http://now")
    world.up().ok()
    (owner,) = world.cluster.objects["ConfigMap", "default", REGISTRY]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("RayCluster", "gym")
    world.registry(gym_head_server="http://now")  # as one that was written after the last command
    world.down("recipe.yaml --infra infra.yaml --yes").ok()
    assert REGISTRY not in world.names("ConfigMap")


def test_anothers_rendezvous_of_the_same_id_is_left_alone(world: World) -> None:
    world.up("--target kuberay.training").ok()
    theirs = copy.deepcopy(world.cluster.objects["RayCluster", "default", "t"])
    theirs["metadata"] |= {"name": "theirs", "uid": "uid-theirs"}
    world.cluster.put(theirs)
    world.give_to("RayCluster", "theirs", "bob")
    world.registry({"kind": "RayCluster", "name": "theirs", "uid": "uid-theirs"}, gym_head_server="http://theirs")
    done = world.up()
    assert (done.exit, 'in use by raycluster/theirs of "bob"' in done.err, world.ids) == (3, True, {}), done.err
    assert REGISTRY in world.names("ConfigMap")


def test_ones_own_daemons_do_not_make_a_cluster_busy(world: World) -> None:
    world.up().ok()
    world.down().ok()


def test_anothers_daemon_does(world: World) -> None:
    world.up().ok()
    world.ray.jobs["gym-daemon"]["metadata"]["user"] = "bob"
    assert "gym-daemon" in world.down().err


def test_status_shows_each_daemon_with_its_state_and_health(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubectl_nrl.watch.UrlHealth.ask", lambda self: None)
    world.daemons(healthCheckUrl="http://gym-head-svc:9090/health")
    world.up().ok()
    lines = world.run("status recipe.yaml --infra infra.yaml").ok().out
    assert "daemon     gym-daemon of gym: RUNNING, not healthy: service/gym-head-svc does not exist" in lines
    (item,) = world.run("status raycluster/gym -o json").ok().result("status")["items"]
    assert [(d["role"], d["state"], d["healthy"]) for d in item["daemons"]] == [("gym", "RUNNING", False)]
    monkeypatch.setattr("kubectl_nrl.watch.ask_health", lambda cluster, asked: None)
    assert "gym-daemon of gym: RUNNING, healthy" in world.run("status raycluster/gym").ok().out


def test_logs_and_job_list_know_a_daemon_after_a_replacement(world: World) -> None:
    world.up().ok()
    world.up("--replace").ok()
    world.ray.log = b"serving\n"
    assert world.run("logs recipe.yaml --infra infra.yaml --role gym --source daemon").ok().out == "serving\n"
    assert world.run("logs raycluster/gym --source daemon").ok().out == "serving\n"
    listed = world.run("job list -o json").ok().result("job_list")
    jobs = {job["submissionId"]: job["daemon"] for job in listed if job["rayCluster"] == "gym"}
    assert jobs == {"gym-daemon": "gym", f"gym-daemon-{SHORT}": "gym"}


def test_the_end_of_a_run_names_the_line_that_takes_all_of_its_clusters_down(world: World) -> None:
    done = world.start().ok()
    assert "take it down: kubectl nrl cluster down recipe.yaml --infra infra.yaml -n default" in done.err


def test_an_attached_cluster_that_is_not_ready_is_waited_for_and_never_changed(world: World) -> None:
    world.up("--target kuberay.gym --skip-daemons").ok()
    status = world.cluster.objects["RayCluster", "default", "gym"]["status"]
    world.cluster.set_status("RayCluster", "gym", conditions=[{"type": "HeadPodReady", "status": "False"}])
    world.infra(launch={**world.written()["launch"], "attach": {"gym": "gym"}})
    world.forget()
    gave_up = world.start("--timeout 0")
    assert (gave_up.exit, "raycluster/gym" in gave_up.err) == (4, True), gave_up.err
    assert world.wrote() == []
    world.cluster.set_status("RayCluster", "gym", **status)
    assert "launch.attach.gym: raycluster/gym is up" in world.start().ok().err
    assert ("patch", "RayCluster") not in world.wrote()


def test_an_attached_cluster_that_is_not_there_is_an_error_that_says_so(world: World) -> None:
    world.infra(launch={**world.written()["launch"], "attach": {"gym": "nowhere"}})
    done = world.start()
    assert (done.exit, 'launch.attach.gym: no RayCluster "nowhere"' in done.err) == (3, True), done.err


def test_of_two_who_start_it_at_once_one_submits_and_both_use_it(world: World) -> None:
    submit = world.ray.submit

    def slower(*args: Any, **words: Any) -> bool:
        submit(*args, **words)
        raise ClusterError("there already", reason="AlreadyExists")

    world.ray.submit = slower  # type: ignore[method-assign]
    done = world.up().ok()
    assert "daemon gym-daemon of gym: unchanged" in done.out
    assert world.ids == {"gym-daemon": "RUNNING"}


def test_a_daemon_gets_its_own_paths_of_the_code_and_one_that_runs_other_code_is_said(world: World) -> None:
    world.daemons(rayUploadPaths=["gym.py"])
    data = world.written()
    data["launch"] = {"codeSource": "upload", "entrypoint": "true", "rayUploadPaths": ["train.py"]}
    world.project.write("infra.yaml", data)
    world.project.write("gym.py", "1\n")
    world.project.write("train.py", "1\n")
    world.start().ok()
    dirs = {name: job["runtime_env"]["working_dir"] for name, job in world.ray.jobs.items()}
    assert len(set(dirs.values())) == 2
    world.project.write("train.py", "2\n")
    assert "daemon gym-daemon of gym: unchanged" in world.up().ok().out
    world.project.write("gym.py", "2\n")
    assert "daemon gym-daemon of gym runs other code than is here now; it is kept" in world.up().ok().err
