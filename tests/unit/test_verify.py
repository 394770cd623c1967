"""`verify`: each item of the end-of-run checklist fails for its own reason, and what cannot be seen is no failure."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from fake_cluster import FakeCluster, FakeJobs

from kubectl_nrl.errors import ClusterError
from kubectl_nrl.runs.evidence import LogLines
from kubectl_nrl.script import encoded_line, launch_script
from kubectl_nrl.testing import USER, Outcome, Project

DONE = {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "endTime": "2026-01-02T03:00:00Z"}
RULES = {
    "deletionStrategy": {
        "deletionRules": [
            {"policy": "DeleteWorkers", "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 0}},
            {"policy": "DeleteCluster", "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 3600}},
        ]
    }
}
RECIPE = {"logger": {"wandb_enabled": True}, "policy": {"generation": {"backend": "vllm"}}}
PAGE = b"wandb: View run at https://wandb.ai/t/p/runs/abc\n"
GENERATED = b"Processed prompts: 100%|####| 32/32\n"


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster, self.jobs = FakeCluster(), FakeJobs(PAGE + GENERATED, "SUCCEEDED")
        self.cluster.groups["resource.k8s.io"] = ("v1",)
        self.jobs.chunk = 70  # more than what each read repeats, and no end of a line
        monkeypatch.setattr("kubectl_nrl.cluster.Cluster.connect", lambda **words: self.cluster)
        monkeypatch.setattr("kubectl_nrl.ray_jobs.connect", lambda cluster, raycluster: self.jobs)

    def put(
        self, status: Any = DONE, recipe: Any = RECIPE, entrypoint: str = "python x.py --config $NRL_RECIPE", **env: str
    ) -> None:
        script = launch_script(entrypoint, run_id="id-1", recipe=yaml.safe_dump(recipe), env=env)
        labels = {"kubectl-nrl/managed": "true", "kubectl-nrl/run": "id-1", "kubectl-nrl/owner": USER}
        metadata = {"name": "r", "labels": labels}
        spec = {**RULES, "entrypoint": encoded_line("id-1", script)}
        job = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata, "spec": spec}
        made = self.cluster.put({**job, "status": {"rayClusterName": "r-x1", "jobId": "id-1", **status}})
        self.owner = [{"kind": "RayJob", "uid": made["metadata"]["uid"]}]
        of_job = {"ray.io/originated-from-crd": "RayJob", "ray.io/originated-from-cr-name": "r"}
        self.cluster.put(
            {"kind": "RayCluster", "metadata": {"name": "r-x1", "labels": of_job, "ownerReferences": self.owner}}
        )
        self.pod("r-x1-head-a", "head")

    def pod(self, name: str, node_type: str, gpus: str = "") -> None:
        labels = {"ray.io/cluster": "r-x1", "ray.io/node-type": node_type}
        limits = {"nvidia.com/gpu": gpus} if gpus else {}
        spec = {"nodeName": "n0", "containers": [{"resources": {"limits": limits}}]}
        self.cluster.put({"kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec})

    def child(self, kind: str, name: str, owners: Any) -> None:
        labels = {"kubectl-nrl/run": "id-1"}
        self.cluster.put({"kind": kind, "metadata": {"name": name, "labels": labels, "ownerReferences": owners}})


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def verify(code: int = 0, line: str = "verify id-1 -n default") -> dict[str, Any]:
    """Items by title, after asserting the exit code."""
    done: Outcome = Project().run(f"{line} -o json")
    assert done.exit == code, done
    result = done.result("verify")
    assert result["failed"] == sum(item["ok"] is False for item in result["items"])
    return {item["title"]: item for item in result["items"]}


def test_a_run_that_ended_well_passes_every_item(world: World) -> None:
    world.put()
    world.child("ResourceClaimTemplate", "t", world.owner)
    items = verify()
    assert {title: item["ok"] for title, item in items.items()} == dict.fromkeys(
        ("objects", "job", "log", "wandb", "generation", "teardown", "claims"), True
    )
    assert items["wandb"]["detail"] == "https://wandb.ai/t/p/runs/abc"
    assert "the head stays until 2026-01-02 04:00:00 UTC" in items["teardown"]["detail"]
    text = Project().run("verify id-1 -n default").ok().out
    assert text.endswith("nothing is wrong\n")


def test_a_run_that_goes_on_fails_as_not_over_and_nothing_else(world: World) -> None:
    world.put({"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"})
    world.jobs.log = b"starting\n"
    items = verify(1)
    assert [title for title, item in items.items() if item["ok"] is False] == ["job"]
    assert items["job"]["detail"] == "it is not over: Running, driver RUNNING"
    assert items["job"]["fix"] == "kubectl nrl job logs id-1 -n default -f"


@pytest.mark.parametrize(
    ("status", "detail"),
    [
        ({**DONE, "jobStatus": "STOPPED"}, "STOPPED"),
        ({"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "reason": "AppFailed"}, "FAILED (AppFailed)"),
        (
            {"jobDeploymentStatus": "Failed", "jobStatus": "RUNNING", "reason": "DeadlineExceeded"},
            "FAILED (DeadlineExceeded)",
        ),
    ],
)
def test_a_job_that_did_not_succeed_fails(world: World, status: Any, detail: str) -> None:
    world.put(status)
    assert verify(1)["job"]["detail"] == detail


def test_what_the_log_lacks_fails_only_where_all_of_it_was_read(world: World) -> None:
    world.put()
    world.jobs.log = b"nothing of it\n"
    items = verify(1)
    assert (items["wandb"]["ok"], items["generation"]["ok"]) == (False, False)
    world.cluster.remove("RayCluster", "r-x1")
    items = verify(0)
    assert (items["log"]["ok"], items["wandb"]["ok"], items["generation"]["ok"]) == (None, None, None)
    assert "is gone" in items["log"]["detail"]


@pytest.mark.parametrize(
    ("recipe", "entrypoint", "env", "ok", "detail"),
    [
        ({"logger": {"wandb_enabled": False}}, "x.py --config $NRL_RECIPE", {}, None, "off in the recipe"),
        # A word of the entrypoint comes after the recipe.
        (
            {"logger": {"wandb_enabled": False}},
            "x.py --config $NRL_RECIPE logger.wandb_enabled=True",
            {},
            False,
            "names no page",
        ),
        (RECIPE, "x.py --config $NRL_RECIPE logger.wandb_enabled=false", {}, None, "off in the recipe"),
        ({"on": True, "logger": {"wandb_enabled": "${on}"}}, "x.py --config $NRL_RECIPE", {}, False, "names no page"),
        (
            {"logger": {"wandb_enabled": "${oc.env:ONLY_ON_THE_POD}"}},
            "x.py --config $NRL_RECIPE",
            {},
            None,
            "cannot be told",
        ),
        ({}, "x.py --config $NRL_RECIPE", {}, None, "cannot be told"),
        (RECIPE, "x.py --config recipe-on-the-pod.yaml", {}, None, "cannot be told"),
        (RECIPE, "x.py --config $NRL_RECIPE", {"WANDB_MODE": "offline"}, None, "WANDB_MODE is offline"),
    ],
)
def test_a_wandb_page_is_expected_where_what_was_launched_turns_it_on(
    world: World, recipe: Any, entrypoint: str, env: dict[str, str], ok: bool | None, detail: str
) -> None:
    world.put(recipe=recipe, entrypoint=entrypoint, **env)
    world.jobs.log = GENERATED
    item = verify(0 if ok is None else 1)["wandb"]
    assert item["ok"] is ok
    assert detail in item["detail"]


def test_workers_that_stay_and_claims_without_a_pod_fail_with_the_line_that_releases(world: World) -> None:
    world.put()
    world.pod("r-x1-w-worker-b", "worker", "4")
    item = verify(1)["teardown"]
    assert (item["ok"], item["fix"]) == (False, "kubectl nrl job stop id-1 -n default")
    assert "r-x1-w-worker-b (4 GPUs)" in item["detail"]
    for name in ("r-x1-w-worker-b", "r-x1-head-a"):
        world.cluster.remove("Pod", name)
    claim = {"name": "c", "ownerReferences": [{"kind": "Pod", "name": "r-x1-w-worker-b"}]}
    world.cluster.put({"kind": "ResourceClaim", "metadata": claim})
    other = {"name": "d", "ownerReferences": [{"kind": "Pod", "name": "r-x2-w-worker-b"}]}
    world.cluster.put({"kind": "ResourceClaim", "metadata": other})
    item = verify(1)["claims"]
    assert item["detail"] == "left: c"


def test_a_head_that_outlives_its_time_and_a_stopped_run_that_nothing_releases_fail(world: World) -> None:
    world.put({**DONE, "endTime": "2026-01-01T00:00:00Z"})
    assert verify(1)["teardown"]["ok"] is False
    world.put({**DONE, "jobStatus": "STOPPED"})
    assert verify(1)["teardown"]["ok"] is False


@pytest.mark.parametrize(
    ("status", "code"), [(DONE, 0), ({"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}, 1)]
)
def test_a_cluster_that_a_run_only_uses_is_not_its_own(world: World, status: Any, code: int) -> None:
    world.put({**status, "rayClusterName": "theirs"})
    world.cluster.objects["RayJob", "default", "r"]["spec"]["clusterSelector"] = {"ray.io/cluster": "theirs"}
    for kind, name in (("RayCluster", "r-x1"), ("Pod", "r-x1-head-a")):
        world.cluster.remove(kind, name)
    labels = {"ray.io/cluster": "theirs", "ray.io/node-type": "worker"}
    world.cluster.put({"kind": "Pod", "metadata": {"name": "theirs-w", "labels": labels}, "spec": {"nodeName": "n"}})
    items = verify(code)
    assert items["objects"]["ok"] is True
    if not code:
        assert items["teardown"]["ok"] is True
        assert "raycluster/theirs, which it used, is not its own" in items["teardown"]["detail"]


def test_what_is_kept_on_purpose_is_no_failure(world: World) -> None:
    world.put()
    job = world.cluster.objects["RayJob", "default", "r"]
    del job["spec"]["deletionStrategy"]
    item = verify(0)["teardown"]
    assert (item["ok"], "--no-shutdown" in item["detail"]) == (None, True)


def test_objects_of_the_run_that_it_does_not_own_fail(world: World) -> None:
    world.put()
    world.child("ConfigMap", "stray", [{"uid": "another"}])
    item = verify(1)["objects"]
    assert "configmap/stray" in item["detail"]
    assert item["fix"] == "kubectl nrl clean -n default"


@pytest.mark.parametrize(
    ("kind", "title"), [("Pod", "teardown"), ("RayCluster", "objects"), ("ResourceClaim", "claims")]
)
def test_what_may_not_be_listed_is_a_note_that_says_so(world: World, kind: str, title: str) -> None:
    world.put()
    world.cluster.faults["list", kind] = ClusterError(f"cannot list {kind}: forbidden", status=403)
    item = verify(0)[title]
    assert (item["ok"], item["detail"]) == (None, f"cannot list {kind}: forbidden")


def test_the_copy_on_this_machine_serves_when_it_is_whole(world: World) -> None:
    world.put()
    project = Project()
    project.run("job logs id-1 -n default").ok()
    world.cluster.remove("RayCluster", "r-x1")
    items = {i["title"]: i["ok"] for i in project.run("verify id-1 -n default -o json").ok().json["items"]}
    assert (items["log"], items["wandb"], items["generation"]) == (True, True, True)


@pytest.mark.parametrize(
    "line",
    [
        b"Processed prompts: 100%|####| 32/32 [00:10<00:00]",
        b"Processed prompts:  50%|## | 16/32\rProcessed prompts: 100%|####| 32/32",
        b"(VllmWorker pid=1) Collecting rollouts: 100%|####| 40/40",
        b"  \xe2\x80\xa2 Mean Generation Length: 512.0000",
        b"  \xe2\x80\xa2 generation: 6.00s (50.0%)",
    ],
)
def test_a_finished_generation_is_known_by_its_lines_in_any_pieces(line: bytes) -> None:
    for size in (1, 7, 4096):
        lines, log = LogLines(), b"before\n" + line + b"\nafter"
        for at in range(0, len(log), size):
            lines.feed(log[at : at + size])
        lines.end()
        assert lines.generated


@pytest.mark.parametrize(
    "line", [b"Processed prompts:  99%|###", b"Generating responses for batch of size 8", b"regeneration: x"]
)
def test_a_generation_that_only_began_is_no_finished_one(line: bytes) -> None:
    lines = LogLines()
    lines.feed(line + b"\n")
    lines.end()
    assert not lines.generated


@pytest.mark.parametrize(("line", "said"), [("verify", "ID is missing"), ("verify nope", 'no run "nope"')])
def test_a_run_that_is_not_there_exits_2(world: World, line: str, said: str) -> None:
    done = Project().run(f"{line} -n default")
    assert done.exit == 2
    assert said in done.err


def test_what_a_log_says_cannot_move_the_cursor(world: World) -> None:
    world.put()
    world.jobs.log = PAGE + b"\x1b[2J\x1b]0;x\x07Processed prompts: 100%|#\x1b[1A\n"
    assert "\x1b" not in Project().run("verify id-1 -n default").out
