"""`status` against a cluster in memory: what is found, what is said of it, and what when it may not be seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from fake_cluster import FakeCluster

from kubectl_nrl.errors import ClusterError
from kubectl_nrl.testing import USER, Outcome, Project

RUNNING = {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING", "startTime": "2026-01-02T03:00:00Z"}
STARTING = {"jobDeploymentStatus": "Initializing", "startTime": "2026-01-02T03:00:00Z"}
ENDED = {"startTime": "2026-01-02T02:00:00Z", "endTime": "2026-01-02T03:00:00Z", "jobDeploymentStatus": "Complete"}
DONE = {**ENDED, "jobStatus": "SUCCEEDED"}
STOPPED = {**ENDED, "jobStatus": "STOPPED"}
RULES = {
    "deletionStrategy": {
        "deletionRules": [
            {"policy": "DeleteWorkers", "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 0}},
            {"policy": "DeleteCluster", "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 3600}},
        ]
    }
}
READY: dict[str, Any] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
NO_IMAGE: dict[str, Any] = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}],
    "containerStatuses": [
        {
            "name": "ray",
            "image": "x:typo",
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off: x:typo: not found"}},
        }
    ],
}


class World:
    """Runs and Ray clusters of `USER` (or of `owner`), each made a second after the one before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster, self.project, self._made = FakeCluster(), Project(), 0
        monkeypatch.setattr("kubectl_nrl.cluster.Cluster.connect", lambda **words: self.cluster)

    def _meta(self, name: str, owner: str, **labels: str) -> dict[str, Any]:
        self._made += 1
        whose = {"kubectl-nrl/owner": owner, "nrl-k8s/owner": owner} if owner else {}
        stamp = f"2026-01-02T02:00:{self._made:02d}Z"
        return {"name": name, "creationTimestamp": stamp, "labels": {**whose, **labels}}

    def rayjob(
        self, name: str, status: Mapping[str, Any], pods: Mapping[str, Any] | None = None, *, owner: str = USER,
        spec: Mapping[str, Any] = RULES, cluster: str = "t",
    ) -> None:  # fmt: skip
        """A RayJob with its Ray cluster `NAME-x`, whose pods are `pods`: `head` and `w0`, `w1`, ... by status."""
        labels = {"kubectl-nrl/managed": "true", "kubectl-nrl/run": f"id-{name}", "kubectl-nrl/cluster": cluster}
        status = {"rayClusterName": f"{name}-x", "jobId": f"id-{name}", **status}
        job = {"kind": "RayJob", "metadata": self._meta(name, owner, **labels), "spec": dict(spec), "status": status}
        uid = self.cluster.put(job)["metadata"]["uid"]
        self.raycluster(f"{name}-x", pods or {}, owner=owner, refs=[{"kind": "RayJob", "name": name, "uid": uid}])

    def raycluster(
        self, name: str, pods: Mapping[str, Any], *, owner: str = USER, refs: list[dict[str, str]] | None = None,
        cluster: str = "t",
    ) -> None:  # fmt: skip
        workers = sum(pod != "head" for pod in pods)
        spec = {"headGroupSpec": {"template": {}}, "workerGroupSpecs": [{"groupName": "gpu", "replicas": workers}]}
        meta = {**self._meta(name, owner, **{"kubectl-nrl/cluster": cluster}), "ownerReferences": refs or []}
        self.cluster.put({"kind": "RayCluster", "metadata": meta, "spec": spec, "status": {"state": "ready"}})
        for pod, status in pods.items():
            kind = (
                {"ray.io/node-type": "head"} if pod == "head" else {"ray.io/node-type": "worker", "ray.io/group": "gpu"}
            )
            labels = {"ray.io/cluster": name, **kind}
            gpus = {} if pod == "head" else {"nvidia.com/gpu": "4"}
            container = {"name": "ray", "resources": {"limits": gpus}}
            spec = {"nodeName": "n0", "containers": [container]}
            self.cluster.put(
                {"kind": "Pod", "metadata": {"name": f"{name}-{pod}", "labels": labels}, "spec": spec, "status": status}
            )

    def run(self, line: str) -> Outcome:
        return self.project.run(line)

    def items(self, line: str) -> list[dict[str, Any]]:
        return list(self.run(f"{line} -o json").ok().result("status")["items"])

    def names(self, line: str) -> list[str]:
        return [item["name"] for item in self.items(line)]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_mine_that_are_not_over_newest_first_and_no_ray_cluster_twice(world: World) -> None:
    world.rayjob("old", DONE)
    world.raycluster("gym", {"head": READY})
    world.rayjob("new", RUNNING, {"head": READY, "w0": READY})
    world.rayjob("theirs", RUNNING, owner="kim")
    world.raycluster("foreign", {}, owner="")
    assert world.names("status") == ["new", "gym"]
    assert world.names("status --all-users") == ["foreign", "theirs", "new", "gym"]
    text = world.run("status").ok()
    assert "rayjob/new" in text.out
    assert 'namespace "default"' in text.err


def test_a_line_has_state_pods_gpus_and_the_first_trouble(world: World) -> None:
    world.rayjob("a", STARTING, {"head": READY, "w0": NO_IMAGE, "w1": NO_IMAGE})
    row = world.run("status").ok().out.splitlines()[1]
    for word in ("rayjob/a", "Initializing", "1/3", "8", "2/2 workers of gpu: ImagePullBackOff", '"x:typo" not found'):
        assert word in row


def test_one_run_by_any_of_its_names_in_full(world: World) -> None:
    world.rayjob("a", STARTING, {"head": READY, "w0": NO_IMAGE})
    for word in ("a", "id-a", "rayjob/a"):
        out = world.run(f"status {word}").ok().out
        assert "run        id-a, owner rl-user" in out
        assert "head  1/1 ready" in out
        assert "1 ImagePullBackOff" in out
        assert "kubectl nrl job logs id-a -f -n default" in out
    item = world.items("status id-a")[0]
    assert (item["podsReady"], item["podsTotal"], item["gpusHeld"], item["final"]) == (1, 2, 4, False)
    assert item["troubles"][0]["heals"] == "by hand"
    assert "infra.image=" in item["troubles"][0]["hint"]


def test_one_ray_cluster_by_its_name(world: World) -> None:
    world.raycluster("gym", {"head": READY, "w0": READY})
    for word in ("gym", "raycluster/gym"):
        out = world.run(f"status {word}").ok().out
        assert out.startswith("raycluster/gym: ready")
        assert "2/2 ready, 4 GPUs held" in out
    assert world.items("status gym")[0]["id"] == ""


def test_a_name_that_is_both_is_refused_and_told_apart(world: World) -> None:
    world.rayjob("a", RUNNING)
    world.raycluster("a", {"head": READY})
    refused = world.run("status a")
    assert refused.exit == 2
    assert "is both a RayJob and a RayCluster" in refused.err
    assert [i["kind"] for w in ("rayjob/a", "raycluster/a") for i in world.items(f"status {w}")] == [
        "rayjob",
        "raycluster",
    ]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("status nope", 'no run, RayJob or RayCluster "nope"'),
        ("status rayjob/nope", 'no RayJob "nope"'),
        ("status raycluster/nope", 'no RayCluster "nope"'),
        ("status pod/nope", "pod/nope"),
        ("status a=1", "without a recipe"),
        ("status name --infra x.yaml", "without a recipe"),
        ("status name -A", "-A and --all-users are for lists"),
        ("status a b", 'unrecognized argument "b"'),
        ("status none.yaml", "none.yaml"),
        ("status -w -o json", "-w with -o json needs one run"),
        ("status --watches", "did you mean --watch?"),
    ],
)
def test_bad_words_are_one_line_and_exit_2(world: World, line: str, says: str) -> None:
    done = world.run(line)
    assert done.exit == 2
    assert says in done.err
    assert "Traceback" not in done.err


def test_a_run_that_is_over_says_how_it_ended_and_what_it_holds_until_when(world: World) -> None:
    world.rayjob("a", DONE, {"head": READY})
    out = world.run("status a").ok().out
    assert "SUCCEEDED" in out
    assert "ended      2026-01-02 03:00:00 UTC, after 1h00m" in out
    assert "its head, for the log, until 2026-01-02 04:00:00 UTC (55m55s left)" in out
    assert "kubectl nrl job logs id-a -n default" in out
    item = world.items("status a")[0]
    assert (item["exitCode"], item["headUntil"], item["durationSeconds"]) == (0, "2026-01-02T04:00:00Z", 3600.0)


def test_a_stopped_run_that_holds_gpus_for_good_is_named_with_the_command_that_releases_it(world: World) -> None:
    world.rayjob("a", STOPPED, {"head": READY, "w0": READY})
    world.rayjob("b", DONE)
    done = world.run("status").ok()
    assert "rayjob/a" in done.out
    assert "rayjob/b" not in done.out
    assert "run id-a is over and still holds 4 GPUs, and nothing will take them from it" in done.err
    assert "hint: kubectl nrl job stop id-a -n default" in done.err
    assert "no deletion rule of KubeRay matches STOPPED" in world.run("status a").ok().out


def test_a_failed_run_says_why(world: World) -> None:
    failed = {
        **ENDED,
        "jobDeploymentStatus": "Failed",
        "jobStatus": "FAILED",
        "reason": "AppFailed",
        "message": "exit 3",
    }
    world.rayjob("a", failed)
    out = world.run("status a").ok().out
    assert "rayjob/a: FAILED (AppFailed)" in out
    assert "message    exit 3" in out
    assert "holds      nothing" in out


def test_a_ray_cluster_that_is_not_there_yet(world: World) -> None:
    world.rayjob("a", {**STARTING, "rayClusterName": ""})
    out = world.run("status a").ok().out
    assert "its Ray cluster is not created yet" in out
    assert world.items("status a")[0]["podsTotal"] == 0


def test_pods_of_a_cluster_that_a_run_only_uses_are_not_what_it_holds(world: World) -> None:
    world.rayjob("a", STOPPED, {"head": READY, "w0": READY}, spec={"clusterSelector": {"ray.io/cluster": "a-x"}})
    assert "still holds" not in world.run("status").ok().err
    assert "holds      nothing" in world.run("status a").ok().out


@pytest.mark.parametrize("kind", ["Pod", "Event", "RayCluster"])
def test_what_may_not_be_seen_is_a_note_and_no_failure(world: World, kind: str) -> None:
    world.rayjob("a", STARTING, {"head": NO_IMAGE})
    world.rayjob("b", STARTING, {"head": NO_IMAGE})
    world.cluster.faults[("get" if kind == "RayCluster" else "list", kind)] = ClusterError("no", status=403)
    assert "may not be read" in world.run("status a").ok().out
    if kind != "RayCluster":
        notes = [item["notes"] for item in world.items("status")]
        assert all("may not be read" in note for found in notes for note in found)
        assert all(notes)


def test_a_recipe_finds_what_was_made_from_it(world: World) -> None:
    world.project.write(
        "r.yaml",
        {"cluster": {"num_nodes": 1}, "infra": {"kuberay": {"training": {"name": "t"}}, "namespace": "default"}},
    )
    world.rayjob("old", DONE)
    world.rayjob("other", RUNNING, cluster="another")
    world.raycluster("t", {"head": READY})
    world.rayjob("new", RUNNING, {"head": READY})
    assert world.names("status r.yaml") == ["new", "t", "old"]
    text = world.run("status r.yaml").ok().out
    assert text.index("rayjob/old") < text.index("rayjob/new: Running")
    assert "raycluster/t: ready" in text
    assert "rayjob/old:" not in text


def test_upstreams_habit_of_naming_recipe_and_infra_works(world: World) -> None:
    world.project.write("r.yaml", {"cluster": {"num_nodes": 1}})
    world.project.write("i.yaml", {"kuberay": {"training": {"name": "t"}}, "namespace": "team"})
    world.rayjob("a", RUNNING)
    assert world.names("status r.yaml --infra i.yaml -n default") == ["a"]
    assert world.names("status r.yaml --infra i.yaml") == []
    assert 'nothing of yours runs in namespace "team"' in world.run("status r.yaml --infra i.yaml").ok().out


def test_few_requests_whatever_there_is(world: World) -> None:
    for number in range(20):
        world.rayjob(f"r{number}", STARTING, {"head": NO_IMAGE})
    world.run("status").ok()
    asked = [(verb, kind) for verb, kind, _ in world.cluster.calls]
    assert len(asked) == len(set(asked)) + 1 <= 6, asked  # RayClusters: mine that live long, and those of runs


def test_without_a_cluster_this_machine_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project()
    assert project.run("status").ok().out == "nothing runs on this machine\n"
    assert project.run("status nope").exit == 2
    assert project.run("status -n rl").exit == 3
