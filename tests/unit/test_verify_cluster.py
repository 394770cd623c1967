"""`verify` of a run on a long-lived cluster: the cluster is meant to stay, the run itself to be over; what nobody knows is said."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from long_lived_case import CONDITIONS, LongLivedWorld
from run_files import RECIPE
from waiting import wait_until

from kubectl_nrl.errors import ClusterError
from kubectl_nrl.labels import CLUSTER_UID, DAEMON, HEALTH, ROLE, RUN
from kubectl_nrl.script import encoded_line, launch_script

GENERATED = b"Processed prompts: 100%|####| 32/32\n"
PAGE = "https://wandb.ai/t/p/runs/abc"
WHOLE = f"wandb: View run at {PAGE}\n".encode() + GENERATED
HEAD_DOWN = {"type": "HeadPodReady", "status": "False"}
RECORD = ("ConfigMap", "default", "nrl-run-one")
LAUNCH = "run recipe.yaml --infra infra.yaml --raycluster --run-id one"


class World(LongLivedWorld):
    """A run `one` on raycluster/t, with a gym and a Deployment beside it."""

    def launch(self, more: str = "", **recipe: Any) -> None:
        self.project.write("recipe.yaml", {**RECIPE, **recipe})
        self.infra(
            "gym", deployment=True, launch={"entrypoint": "x --config r.yaml", "codePath": "/", "codeSource": "image"}
        )
        self.run(f"{LAUNCH} {more}")

    def items(self, code: int = 0, line: str = "verify one", **words: Any) -> dict[str, Any]:
        """Items by title, and `state` and `final`, after asserting the exit code."""
        done = self.run(f"{line} -o json", **words)
        assert done.exit == code, done
        told = done.result("verify")
        assert told["failed"] == sum(item["ok"] is False for item in told["items"])
        return {item["title"]: item for item in told["items"]} | {"state": told["state"], "final": told["final"]}

    def elsewhere(self, code: int = 0) -> dict[str, Any]:
        """From a laptop that knows nothing of the run."""
        home = self.project.root / "elsewhere"
        home.mkdir(exist_ok=True)
        return self.items(code, env={"HOME": str(home)})

    def forget(self) -> None:
        """The head restarted: Ray knows no job any more."""
        self.ray.jobs.clear()
        status = {
            "phase": "Running",
            "containerStatuses": [{"name": "ray", "lastState": {"terminated": {"reason": "OOMKilled"}}}],
        }
        labels = {"ray.io/cluster": "t", "ray.io/node-type": "head"}
        self.cluster.put({"kind": "Pod", "metadata": {"name": "t-head", "labels": labels}, "status": status})

    def no_end(self) -> None:
        """Nobody saw the end of the run."""
        data = self.cluster.objects[RECORD]["data"]
        for key in ("state", "endTime", "reason", "message"):
            data.pop(key, None)

    def take_down(self) -> None:
        self.cluster.remove("RayCluster", "t")
        self.cluster.remove("Pod", "t-head")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr("kubectl_nrl.watch.job_follow.POLL", 0.02)
    made = World(monkeypatch)
    made.ray.log = WHOLE
    return made


def test_a_run_that_ended_well_passes_and_its_cluster_is_said_to_stay(world: World) -> None:
    world.launch(logger={"wandb_enabled": True}, policy={"generation": {"backend": "vllm"}})
    limits = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}], "nodeName": "n0"}
    labels = {"ray.io/cluster": "t", "ray.io/node-type": "worker"}
    world.cluster.put({"kind": "Pod", "metadata": {"name": "t-w", "labels": labels}, "spec": limits})
    done = world.run("verify one").ok()
    assert done.out == (
        "run one on raycluster/t\n"
        "ok      objects     raycluster/t (1/1 pods ready), raycluster/gym (1/1 pods ready), deployment/judge (1/1 available)\n"
        "ok      job         SUCCEEDED\n"
        "ok      log         read to its end\n"
        f"ok      wandb       {PAGE}\n"
        "ok      generation  Processed prompts: 100%|####| 32/32\n"
        "ok      teardown    Ray runs nothing of the run any more; raycluster/t stays up, with its 8 GPUs, 2 pods\n"
        "                    hint: kubectl nrl cluster down t -n default\n"
        "nothing is wrong\n"
    )
    assert (world.items()["state"], world.items()["final"]) == ("SUCCEEDED", True)
    assert world.elsewhere()["log"]["ok"] is True


def test_a_run_that_goes_on_fails_as_not_over_and_nothing_else(world: World) -> None:
    world.ray.ends = "RUNNING"
    world.launch("--no-wait")
    world.ray.jobs["one"]["message"] = "Job is currently running."
    items = world.items(1)
    assert [title for title, item in items.items() if title not in ("state", "final") and item["ok"] is False] == [
        "job"
    ]
    assert (items["job"]["detail"], items["final"]) == ("it is not over: RUNNING", False)
    assert items["job"]["fix"] == "kubectl nrl job logs one -n default -f"


@pytest.mark.parametrize("line", ["verify raycluster/t", "verify recipe.yaml --infra infra.yaml"])
def test_a_run_is_found_by_its_cluster_and_by_its_recipe(world: World, line: str) -> None:
    world.ray.ends = "FAILED"
    world.launch()
    items = world.items(1, line)
    assert items["job"]["detail"].startswith("FAILED")
    assert items["job"]["fix"] == "kubectl nrl job logs one -n default"


def test_what_the_log_is_to_hold_is_what_was_launched(world: World) -> None:
    world.ray.log = b"nothing of it\n"
    world.launch("+logger.wandb_enabled=true", policy={"generation": {"backend": "vllm"}})
    items = world.items(1)
    assert (items["wandb"]["ok"], items["generation"]["ok"]) == (False, False)
    world.project.write("recipe.yaml", RECIPE)  # another one by now
    assert world.items(1)["wandb"]["ok"] is False
    world.cluster.objects[RECORD]["data"]["wandbMode"] = "offline"
    assert "WANDB_MODE is offline" in world.items(1)["wandb"]["detail"]


def test_a_head_that_forgot_the_run_leaves_its_end_unknown_and_the_copy_of_the_log_is_judged(world: World) -> None:
    world.launch(policy={"generation": {"backend": "vllm"}})
    world.no_end()
    world.forget()
    items = world.items(6)
    assert (items["job"]["ok"], items["state"], items["final"]) == (None, "UNKNOWN", True)
    assert "the head of raycluster/t restarted" in items["job"]["detail"]
    assert "(OOMKilled)" in items["job"]["detail"]
    assert (items["log"]["ok"], items["generation"]["ok"], items["teardown"]["ok"]) == (True, True, True)
    other = world.elsewhere(6)
    assert (other["log"]["ok"], other["generation"]["ok"]) == (None, None)
    assert other["log"]["detail"] == "the head of raycluster/t, which kept it, has forgotten the run"
    text = world.run("verify one")
    assert text.out.endswith("nothing was seen to be wrong, but how the run ended is not known\n")


def test_an_end_on_record_outlives_the_head_and_a_ray_that_cannot_be_asked(world: World) -> None:
    world.launch()
    world.forget()
    assert world.items()["job"]["detail"] == "SUCCEEDED"
    world.ray.down = ClusterError("the head is away", reason="PortClosed")
    items = world.items()
    assert (items["job"]["ok"], items["teardown"]["ok"]) == (True, None)
    assert items["teardown"]["detail"] == "whether anything of it still runs is not known: the head is away"


def test_a_ray_that_cannot_be_asked_leaves_open_whether_the_run_is_over(world: World) -> None:
    world.ray.ends = "RUNNING"
    world.launch("--no-wait")
    world.ray.down = ClusterError("the head is away", reason="PortClosed")
    items = world.items(6)
    assert (items["job"]["detail"], items["final"]) == ("whether it is over is not known: the head is away", None)


@pytest.mark.parametrize(
    ("kind", "name", "status", "ok", "said"),
    [
        ("RayCluster", "t", {"desiredWorkerReplicas": 2, "readyWorkerReplicas": 1}, False, "raycluster/t: some of its workers"),
        ("RayCluster", "gym", {"conditions": [HEAD_DOWN, CONDITIONS[1]]}, False, "raycluster/gym: its head"),
        ("RayCluster", "t", {"state": "suspended"}, None, "raycluster/t: suspended"),
        ("Deployment", "judge", {"availableReplicas": 0}, False, "deployment/judge: 0/1 available"),
    ],
)  # fmt: skip
def test_what_the_run_needs_and_is_not_up_is_named(
    world: World, kind: str, name: str, status: dict[str, Any], ok: bool | None, said: str
) -> None:
    world.launch()
    world.cluster.set_status(kind, name, **status)
    item = world.items(0 if ok is None else 1)["objects"]
    assert (item["ok"], said in item["detail"]) == (ok, True), item
    assert item["fix"] == "kubectl nrl status raycluster/t -n default"


@pytest.mark.parametrize(
    ("status", "url", "ok"),
    [
        ("RUNNING", "", True),
        ("RUNNING", "http://gym-head-svc:9090/health", False),
        ("RUNNING", "http://localhost:9090/health", None),
        ("FAILED", "", False),
        ("STOPPED", "", None),
    ],
)
def test_a_daemon_that_does_not_serve_fails(world: World, status: str, url: str, ok: bool | None) -> None:
    world.launch()
    uid = world.cluster.objects["RayCluster", "default", "gym"]["metadata"]["uid"]
    world.ray.put("gym-daemon", status, metadata={DAEMON: "x", ROLE: "gym", CLUSTER_UID: uid, HEALTH: url})
    item = world.items(1 if ok is False else 0)["daemons"]
    assert (item["ok"], "gym-daemon of gym" in item["detail"]) == (ok, True), item


def test_a_driver_of_the_run_that_ray_still_has_running_fails(world: World) -> None:
    world.launch()
    world.ray.jobs["d"] = {
        "type": "DRIVER",
        "submission_id": None,
        "job_id": "03000000",
        "status": "RUNNING",
        "metadata": {RUN: "one"},
    }
    world.ray.jobs["e"] = {**world.ray.jobs["d"], "metadata": {RUN: "another"}, "job_id": "04000000"}
    item = world.items(1)["teardown"]
    assert item["detail"] == "still running on raycluster/t: job 03000000"
    assert item["fix"] == "kubectl nrl job stop one -n default"


def test_processes_that_a_job_of_rays_left_on_the_head_fail_with_the_line_that_ends_them(world: World) -> None:
    world.launch()

    def run(command: Sequence[str], stdin: bytes = b"", timeout: float = 30.0) -> tuple[int, bytes, bytes]:
        done = subprocess.run(command, input=stdin, capture_output=True, check=False)
        return done.returncode, done.stdout, done.stderr

    world.ray.run = run  # type: ignore[method-assign]
    item = world.items()["teardown"]
    assert item["detail"] == "nothing of the run goes on; raycluster/t stays up, with its 1 pod"
    others = [subprocess.Popen(["sleep", "600"], env={"NRL_K8S_RUN_ID": run_id}) for run_id in ("one", "one-more")]
    wait_until(lambda: all(Path(f"/proc/{other.pid}/environ").read_bytes() for other in others), "their environments")
    spec = {"containers": [{"name": "sidecar"}, {"name": "ray", "env": [{"name": "KUBERAY_GEN_RAY_START_CMD"}]}]}
    head = {
        "kind": "Pod",
        "metadata": {"name": "t-head", "labels": {"ray.io/cluster": "t", "ray.io/node-type": "head"}},
    }
    world.cluster.put({**head, "spec": spec, "status": {"phase": "Running"}})
    try:
        item = world.items(1)["teardown"]
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert item["detail"] == f"still running on raycluster/t: process {others[0].pid}"
    assert item["fix"] == f"kubectl exec -n default t-head -c ray -- kill {others[0].pid}"


def test_a_head_without_a_grep_that_finds_itself_is_not_believed(world: World) -> None:
    world.launch()
    world.ray.run = lambda command, stdin=b"", timeout=30.0: (0, b"", b"grep: unknown option")  # type: ignore[method-assign]
    assert world.items()["teardown"]["detail"].startswith("Ray runs nothing of the run any more")


def test_a_cluster_that_was_taken_down_since_is_no_fault_and_its_pods_that_stay_are(world: World) -> None:
    world.launch()
    world.cluster.remove("RayCluster", "t")
    item = world.elsewhere(1)["teardown"]
    assert item["detail"] == "raycluster/t is gone, and its pods are still there: t-head (1 pod)"
    world.take_down()
    items = world.elsewhere()
    assert (items["objects"]["ok"], items["job"]["ok"], items["log"]["ok"]) == (None, True, None)
    assert items["teardown"]["detail"] == "raycluster/t is gone, and no pod of it is left; raycluster/gym stays up"


def test_a_record_that_went_with_its_cluster_is_remembered_here(world: World) -> None:
    world.launch(policy={"generation": {"backend": "vllm"}})
    world.take_down()
    world.cluster.remove("ConfigMap", "nrl-run-one")
    items = world.items()
    assert {title: item["ok"] for title, item in items.items() if isinstance(item, dict)} == {
        "objects": None, "job": True, "log": True, "wandb": True, "generation": True, "teardown": True
    }  # fmt: skip
    assert "went with raycluster/t; this machine remembers it" in world.run("verify one").err
    assert world.project.run("verify one -n elsewhere").exit == 2
    world.cluster.server = "https://another"
    done = world.run("verify one")
    assert (done.exit, "run one was on the cluster at https://fake, and this is https://another" in done.err) == (
        2,
        True,
    )


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "[]",
        "\0",
        '{"server": "s", "record": {}}',
        '{"server": "s", "record": {"metadata": {"labels": 3}, "data": {"id": "one"}}}',
    ],
)
def test_a_damaged_memory_is_none(world: World, damage: str) -> None:
    world.launch()
    world.take_down()
    world.cluster.remove("ConfigMap", "nrl-run-one")
    [memory] = world.project.root.rglob("record.json")
    memory.write_text(damage)
    world.cluster.remove("RayCluster", "gym")  # every head of this world has the same jobs
    assert 'no run "one"' in world.run("verify one").err


def test_what_was_verified_once_is_remembered_where_it_was_not_launched(world: World) -> None:
    world.launch()
    world.elsewhere()
    world.take_down()
    world.cluster.remove("ConfigMap", "nrl-run-one")
    assert world.elsewhere()["job"]["detail"] == "SUCCEEDED"


def test_pods_of_a_cluster_that_was_made_anew_are_not_the_runs(world: World) -> None:
    world.launch()
    world.cluster.remove("RayCluster", "t")
    world.cluster.put({"kind": "RayCluster", "metadata": {"name": "t"}, "status": {"conditions": CONDITIONS}})
    owner = [{"kind": "RayCluster", "uid": world.cluster.objects["RayCluster", "default", "t"]["metadata"]["uid"]}]
    labels = {"ray.io/cluster": "t", "ray.io/node-type": "head"}
    world.cluster.put({"kind": "Pod", "metadata": {"name": "t-head", "labels": labels, "ownerReferences": owner}})
    items = world.elsewhere()
    assert "was made anew since" in items["objects"]["detail"]
    assert "(another has its name now), and no pod of it is left" in items["teardown"]["detail"]


def test_a_job_that_no_record_tells_of_is_judged_by_what_ray_has(world: World) -> None:
    world.launch()
    script = launch_script("x --config $NRL_RECIPE", run_id="two", recipe="logger: {wandb_enabled: true}\n")
    world.cluster.remove("RayCluster", "gym")  # every head of this world has the same jobs
    world.ray.put("two", "SUCCEEDED", entrypoint=encoded_line("two", script))
    world.ray.log = GENERATED
    items = world.items(1, "verify two")
    assert (items["job"]["ok"], items["wandb"]["ok"], items["teardown"]["ok"]) == (True, False, True)


@pytest.mark.parametrize(
    ("verb", "kind", "ok"), [("get", "RayCluster", None), ("list", "RayCluster", True), ("list", "Deployment", True)]
)
def test_what_may_not_be_looked_at_is_said_and_no_failure(world: World, verb: str, kind: str, ok: bool | None) -> None:
    world.launch()
    refusal = f"cannot {verb} {kind}: forbidden"
    world.cluster.faults[verb, kind] = ClusterError(refusal, status=403)
    item = world.items()["objects"]
    assert (item["ok"], refusal in item["detail"]) == (ok, True)


def test_a_suspended_cluster_runs_nothing(world: World) -> None:
    world.launch()
    world.cluster.set_status("RayCluster", "t", state="suspended", conditions=[HEAD_DOWN])
    assert world.items()["teardown"]["ok"] is None
    world.cluster.remove("Pod", "t-head")
    item = world.items()["teardown"]
    assert (item["ok"], item["detail"]) == (True, "nothing of the run goes on; raycluster/t has no pods")


def test_pods_that_may_not_be_listed_leave_open_what_a_cluster_that_is_gone_left(world: World) -> None:
    world.launch()
    world.take_down()
    world.cluster.faults["list", "Pod"] = ClusterError("cannot list Pod: forbidden", status=403)
    item = world.items()["teardown"]
    assert (item["ok"], item["detail"]) == (None, "cannot list Pod: forbidden")
