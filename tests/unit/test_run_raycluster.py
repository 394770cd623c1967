"""`run --raycluster` against a cluster in memory with one Ray behind it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from long_lived_case import LongLivedWorld

from kubectl_nrl.errors import ClusterError
from kubectl_nrl.testing import RUN_ID, USER, Outcome

RECORD = f"nrl-run-{RUN_ID}"


class World(LongLivedWorld):
    def start(self, more: str = "", **words: Any) -> Outcome:
        return self.run(f"run recipe.yaml --infra infra.yaml --raycluster {more}", **words)

    def record(self, name: str = RECORD) -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.objects["ConfigMap", "default", name]
        return found


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(monkeypatch)
    monkeypatch.setattr("kubectl_nrl.watch.job_follow.POLL", 0.02)
    return made


@pytest.mark.parametrize(("state", "code"), [("SUCCEEDED", 0), ("FAILED", 1), ("STOPPED", 5)])
def test_the_exit_code_is_the_drivers_end(world: World, state: str, code: int) -> None:
    world.ray.ends = state
    done = world.start()
    assert (done.exit, done.out) == (code, "step 1\nstep 2\n"), done.err
    assert f"run {RUN_ID} on raycluster/t: {state}" in done.err
    assert world.names("RayCluster") == ["t"], "the cluster stays"


def test_json_is_one_object_and_the_log_goes_to_stderr(world: World) -> None:
    done = world.start("-o json").ok()
    result = done.result("run_cluster")
    assert (result["id"], result["rayCluster"], result["state"], result["exitCode"]) == (RUN_ID, "t", "SUCCEEDED", 0)
    assert result["log"]["complete"] is True
    assert "step 2" in done.err


def test_a_cluster_that_is_up_is_used_again_with_few_requests(world: World) -> None:
    world.up().ok()
    world.forget()
    world.start().ok()
    assert [(verb, kind) for verb, kind in world.wrote() if kind != "ConfigMap"] == []
    before = [verb for verb, kind, _ in world.cluster.calls if verb != "watch"]  # that of `up` may only begin now
    assert before.index("create") <= 3, world.cluster.calls


def test_the_run_is_written_down_before_ray_is_asked_and_its_end_after(world: World) -> None:
    seen: list[dict[str, Any]] = []
    submit = world.ray.submit

    def asked(*args: Any, **words: Any) -> bool:
        seen.append(copy.deepcopy(world.record()))
        return submit(*args, **words)

    world.ray.submit = asked  # type: ignore[method-assign]
    world.start().ok()
    (first,) = seen
    assert first["data"]["rayCluster"] == "t"
    assert "state" not in first["data"]
    (owner,) = first["metadata"]["ownerReferences"]
    assert owner["uid"] == world.cluster.objects["RayCluster", "default", "t"]["metadata"]["uid"]
    labels = first["metadata"]["labels"]
    assert (labels["kubectl-nrl/run"], labels["kubectl-nrl/owner"]) == (RUN_ID, USER)
    assert (world.record()["data"]["state"], world.record()["data"]["endTime"]) == ("SUCCEEDED", "2026-01-02T03:04:05Z")


def test_what_ray_runs_is_the_safe_line_and_people_see_their_own_entrypoint(world: World) -> None:
    world.start().ok()
    job = world.ray.jobs[RUN_ID]
    assert job["entrypoint"].startswith(f"sh -c ': nrl {RUN_ID};")
    assert (job["metadata"]["entrypoint"], job["metadata"]["user"]) == ("true", USER)
    assert job["runtime_env"] == {}


def test_a_refused_submission_leaves_no_record(world: World) -> None:
    world.ray.refuses = ClusterError("Ray refuses", status=400, reason="RayRefused")
    done = world.start()
    assert (done.exit, "Ray refuses" in done.err) == (3, True), done.err
    assert world.names("ConfigMap") == []


def test_a_submission_without_an_answer_keeps_its_record_and_says_so(world: World) -> None:
    world.ray.refuses = ClusterError("lost", reason="ConnectionLost")
    done = world.start()
    assert (done.exit, world.names("ConfigMap")) == (6, [RECORD]), done.err
    assert f"kubectl nrl job logs {RUN_ID} -f -n default" in done.err


def test_who_may_keep_no_record_can_still_run(world: World) -> None:
    world.cluster.faults["create", "ConfigMap"] = ClusterError("configmaps is forbidden", status=403)
    world.cluster.faults["patch", "ConfigMap"] = ClusterError("configmaps is forbidden", status=403)
    done = world.start().ok()
    assert "the run is not recorded, and only Ray knows of it: configmaps is forbidden" in done.err
    world.ray.refuses = ClusterError("Ray refuses", status=400, reason="RayRefused")
    assert world.start("--run-id b").exit == 3


def test_an_id_that_ray_has_is_an_error_that_names_its_state(world: World) -> None:
    world.up().ok()
    world.ray.put("mine", "SUCCEEDED")
    world.forget()
    done = world.start("--run-id mine")
    assert (done.exit, 'job "mine" already exists on raycluster/t (SUCCEEDED)' in done.err) == (3, True), done.err
    assert world.wrote() == []


def test_an_id_that_another_cluster_had_is_taken_too(world: World) -> None:
    world.start("--run-id mine").ok()
    world.ray.jobs.clear()
    done = world.start("--run-id mine")
    assert (done.exit, 'run id "mine" is taken by a run on raycluster/t (SUCCEEDED)' in done.err) == (3, True), done.err


def test_what_runs_there_already_is_said(world: World) -> None:
    world.up().ok()
    world.ray.put("other", "RUNNING")
    done = world.start().ok()
    assert "running on raycluster/t already: other (--replace stops them)" in done.err
    assert world.ray.jobs["other"]["status"] == "RUNNING"


def test_replace_stops_what_runs_there_first(world: World) -> None:
    world.up().ok()
    world.ray.put("other", "RUNNING", metadata={"user": USER})
    world.ray.put("done", "FAILED")
    world.forget()
    world.start("--replace").ok()
    assert world.ray.jobs["other"]["status"] == "STOPPED"
    assert world.ray.asked.index("stop other") < world.ray.asked.index("submit")


@pytest.mark.parametrize(
    ("owner", "flags", "code"),
    [
        ("bob", "", 2),
        ("bob", "--yes", 2),
        ("bob", "--force", 2),
        ("bob", "--force --yes", 0),
        ("", "", 2),
        ("", "--yes", 0),
    ],
)
def test_replace_stops_anothers_job_only_by_force_and_a_yes(world: World, owner: str, flags: str, code: int) -> None:
    world.up().ok()
    world.ray.put("other", "RUNNING", metadata={"user": owner} if owner else {})
    done = world.start(f"--replace {flags}")
    assert (done.exit, world.ray.jobs["other"]["status"]) == (code, "RUNNING" if code else "STOPPED"), done.err
    if owner and not flags:
        again = "kubectl nrl run recipe.yaml --infra infra.yaml --raycluster --replace -n default --force --yes"
        assert f"hint: {again}\n" in done.err, "what was typed, to be pasted whole"


def test_a_driver_that_was_started_by_hand_is_named_and_never_said_to_be_stopped(world: World) -> None:
    world.up().ok()
    world.ray.jobs["03000000"] = {"submission_id": None, "job_id": "03000000", "status": "RUNNING", "type": "DRIVER"}
    done = world.start("--replace").ok()
    assert "running on raycluster/t already: 03000000, started by hand" in done.err
    assert "stopping" not in done.err


def test_no_wait_leaves_the_run_and_prints_the_lines_that_go_on(world: World) -> None:
    world.ray.ends = "RUNNING"
    done = world.start("--no-wait").ok()
    assert done.out == ""
    for line in (f"kubectl nrl job logs {RUN_ID} -f -n default", f"kubectl nrl job stop {RUN_ID} -n default"):
        assert line in done.err


@pytest.mark.parametrize("flags", ["--mode batch --submitter portForward", "--mode interactive --no-wait"])
def test_a_flag_beats_the_mode_macro(world: World, flags: str) -> None:
    world.ray.ends = "RUNNING"
    done = world.start(f"{flags} --code-source image").ok()
    assert "not waiting for the run" in done.err


def test_giving_up_leaves_the_run_alone(world: World) -> None:
    world.up().ok()
    world.ray.ends = "RUNNING"
    done = world.start("--timeout 0")
    assert (done.exit, "the run goes on" in done.err) == (4, True), done.err
    assert world.ray.jobs[RUN_ID]["status"] == "RUNNING"


def test_a_failed_run_ends_with_what_it_died_of(world: World) -> None:
    world.ray.ends = "FAILED"
    world.ray.log = b"step 1\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    done = world.start()
    assert (done.exit, "CUDA out of memory" in done.err) == (1, True), done.err
    result = world.start("-o json --run-id b").result("run_cluster")
    assert "CUDA out of memory" in str(result["failure"])


def test_a_start_that_cannot_succeed_is_given_up_and_taken_back(world: World) -> None:
    world.infra("gym")
    world.never_start()
    done = world.start("--start-timeout 1")
    assert done.exit == 4, done.err
    assert 'ImagePullBackOff, image "x:typo"' in done.err
    assert "gave up waiting for raycluster/t" in done.err
    assert world.names("RayCluster") == [], "GPUs are given back"


def test_a_head_that_forgot_the_run_is_a_failure_with_its_reason(world: World) -> None:
    world.ray.ends = "RUNNING"
    get = world.ray.get
    asked: list[str] = []

    def forgetful(submission_id: str) -> dict[str, Any] | None:
        asked.append(submission_id)
        if len(asked) > 2:
            world.ray.jobs.clear()
            world.ray.life = "2"
        return get(submission_id)

    world.ray.get = forgetful  # type: ignore[method-assign]
    done = world.start()
    assert done.exit == 1, done.err
    assert "FAILED (HeadRestarted)" in done.err
    assert "the history of its jobs is lost" in done.err
    assert world.record()["data"]["state"] == "FAILED"


def vanish(world: World, *, with_pods: bool) -> None:
    """The cluster is deleted as soon as the run is submitted, with its pods or without."""
    world.ray.ends = "RUNNING"
    submit = world.ray.submit

    def submit_and_vanish(*args: Any, **words: Any) -> bool:
        submit(*args, **words)
        world.cluster.remove("RayCluster", "t")
        if with_pods:
            world.sweep()
        return True

    world.ray.submit = submit_and_vanish  # type: ignore[method-assign]


def test_a_cluster_that_is_deleted_under_the_run_has_stopped_it(world: World) -> None:
    vanish(world, with_pods=True)
    done = world.start("-o json")
    says = "raycluster/t was deleted before the run ended, not by this command; nothing of it runs any more"
    assert (done.exit, says in done.err) == (5, True), done.err
    result = done.result("run_cluster")
    assert (result["state"], result["exitCode"]) == ("DELETED", 5)
    assert "follow it again" not in done.err


def test_a_driver_whose_pods_were_left_behind_may_still_run(world: World) -> None:
    vanish(world, with_pods=False)
    done = world.start()
    assert (done.exit, "pod t-head was left behind, and the driver may still run" in done.err) == (6, True), done.err
    assert "hint: kubectl delete pods -l ray.io/cluster=t -n default" in done.err


def test_what_is_left_of_a_deleted_cluster_may_be_out_of_sight(world: World) -> None:
    vanish(world, with_pods=True)
    world.up().ok()
    world.cluster.faults["list", "Pod"] = ClusterError("pods is forbidden", status=403)
    done = world.start()
    assert done.exit == 6, done.err
    assert "whether something of it still runs cannot be seen: pods is forbidden" in done.err


def test_a_training_cluster_that_is_attached_is_used_as_it_is(world: World) -> None:
    world.up().ok()
    launch = {"codeSource": "image", "codePath": "/opt", "entrypoint": "true", "attach": {"training": "t"}}
    gym = {"gym": {"name": "gym", "spec": world.cluster.objects["RayCluster", "default", "t"]["spec"]}}
    world.infra(kuberay=gym, launch=launch)
    done = world.start().ok()
    assert f"submitted {RUN_ID} to raycluster/t" in done.err
    assert world.names("RayCluster") == ["gym", "t"]


def test_status_of_a_recipe_shows_what_it_attaches_and_what_it_made_beside(world: World) -> None:
    world.up().ok()
    spec = world.cluster.objects["RayCluster", "default", "t"]["spec"]
    world.give_to("RayCluster", "t", "bob")
    launch = {"codeSource": "image", "codePath": "/opt", "entrypoint": "true", "attach": {"training": "t"}}
    world.infra(kuberay={"gym": {"name": "gym", "spec": spec}}, launch=launch)
    world.ray.ends = "RUNNING"
    world.start("--no-wait").ok()
    items = world.run("status recipe.yaml --infra infra.yaml -o json").ok().result("status")["items"]
    assert {(item["name"], item["owner"]) for item in items} == {("t", "bob"), ("gym", USER)}
    assert RUN_ID in {job["id"] for item in items for job in item["jobs"]}


def test_no_line_is_printed_that_would_take_nothing_down(world: World) -> None:
    world.up().ok()
    launch = {"codeSource": "image", "codePath": "/opt", "entrypoint": "true", "attach": {"training": "t"}}
    world.infra(kuberay={}, launch=launch)
    done = world.start("-o json").ok()
    assert set(done.result("run_cluster")["commands"]) == {"logs", "stop"}
    assert "cluster down" not in done.err


def test_an_attached_cluster_that_is_not_there_is_named(world: World) -> None:
    launch = {"codeSource": "image", "codePath": "/opt", "entrypoint": "true", "attach": {"training": "nowhere"}}
    gym = {"gym": {"name": "gym", "spec": {"headGroupSpec": {"template": {"spec": {"containers": [{"name": "r"}]}}}}}}
    world.infra(kuberay=gym, launch=launch)
    done = world.start()
    assert (done.exit, 'launch.attach.training: no RayCluster "nowhere"' in done.err) == (3, True), done.err
    assert world.names("RayCluster") == []


def test_uploaded_code_is_sent_once_and_is_where_the_driver_runs(world: World) -> None:
    world.project.write("train.py", "print(1)\n")
    first = world.start("--code-source upload --run-id a").ok()
    assert world.ray.jobs["a"]["runtime_env"]["working_dir"].startswith("gcs://_ray_pkg_")
    assert "uploaded" in first.err
    again = world.start("--code-source upload --run-id b").ok()
    assert "0 bytes" in again.err


def test_ctrl_c_before_the_submission_says_so_and_names_no_run_to_follow(world: World) -> None:
    def interrupt(*words: Any, **more: Any) -> int:
        raise KeyboardInterrupt

    world.ray.upload_package = interrupt  # type: ignore[method-assign]
    done = world.start("--code-source upload")
    assert (done.exit, "interrupted; raycluster/t stays" in done.err) == (130, True), done.err
    assert "no run was submitted" in done.err
    assert "job logs" not in done.err
    world.ray.submit = interrupt  # type: ignore[assignment]
    done = world.start("--run-id two")
    assert (done.exit, "kubectl nrl job logs two -f" in done.err) == (130, True), done.err


def test_flags_of_a_rayjob_are_named_as_meaningless(world: World) -> None:
    assert "--ttl has no meaning for a long-lived cluster" in world.start("--ttl 5").ok().err


def test_an_id_of_a_rayjob_is_taken_before_anything_is_made(world: World) -> None:
    meta = {"name": "grpo-a", "labels": {"kubectl-nrl/run": "train-1"}}
    world.cluster.put({"kind": "RayJob", "metadata": meta, "status": {"jobDeploymentStatus": "Running"}})
    done = world.start("--run-id train-1")
    assert done.exit == 3
    assert 'run id "train-1" is taken by rayjob/grpo-a (Running, driver not reported yet)' in done.err
    assert world.names("RayCluster") == []
