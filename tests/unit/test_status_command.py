"""`status` against a cluster in memory: what is found, what is said of it, and what when it may not be seen."""

from __future__ import annotations

import pytest
from status_case import DONE, ENDED, NO_IMAGE, READY, RUNNING, STARTING, STOPPED, World

from kubectl_nrl.errors import ClusterError
from kubectl_nrl.testing import Project


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
    assert "hint: kubectl nrl job stop id-a -n default   # all of mine: kubectl nrl clean -n default" in done.err
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


@pytest.mark.parametrize("fault", [None, ClusterError("no", status=403, reason="Forbidden")], ids=["gone", "forbidden"])
def test_pods_that_outlive_their_ray_cluster_are_still_held(world: World, fault: ClusterError | None) -> None:
    """A node that does not answer keeps its pods, and their GPUs, for long after the RayCluster object has gone."""
    world.rayjob("a", DONE, {"w0": READY})
    world.cluster.remove("RayCluster", "a-x")
    if fault:
        world.cluster.faults["get", "RayCluster"] = fault
    [item] = world.items("status a")
    assert item["gpusHeld"] == 4
    done = world.run("status a")
    assert "holds      4 GPUs in 1 pod" in done.out
    assert "run id-a is over and still holds 4 GPUs" in done.err


def test_what_a_run_holds_is_not_known_where_its_pods_may_not_be_listed(world: World) -> None:
    world.rayjob("a", DONE, {"head": READY, "w0": READY})
    world.rayjob("b", RUNNING, {"head": READY, "w0": READY})
    world.cluster.faults["list", "Pod"] = ClusterError("no", status=403, reason="Forbidden")
    out = world.run("status a").ok().out
    assert "holds      not known: its pods may not be listed" in out
    assert "release it kubectl nrl job stop id-a -n default" in out
    assert [i["gpusHeld"] for word in ("a", "b", "") for i in world.items(f"status {word}")] == [None, None, None]
    assert world.run("status").ok().out.splitlines()[1].split()[3] == "?"


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


def test_a_head_that_was_replaced_and_the_one_that_still_ends(world: World) -> None:
    world.raycluster("gym", {"head": READY, "w0": READY})
    old = world.cluster.objects["Pod", "default", "gym-head"]
    fresh = {**old["metadata"], "name": "gym-head2", "uid": "new", "creationTimestamp": "2026-01-02T02:50:00Z"}
    world.cluster.put({**old, "metadata": fresh})
    world.cluster.put({**old, "metadata": {**old["metadata"], "deletionTimestamp": "2026-01-02T02:49:00Z"}})
    item = world.items("status gym")[0]
    assert (item["podsReady"], item["podsTotal"]) == (2, 2)
    assert item["groups"][0]["states"] == {"Ready": 1, "Terminating": 1}
    assert "its head is a new pod since 2026-01-02 02:50:00 UTC" in item["notes"][0]
    assert "1 Terminating" in world.run("status gym").ok().out


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


def test_who_may_not_list_ray_clusters_still_sees_runs(world: World) -> None:
    world.rayjob("a", RUNNING)
    world.cluster.faults["list", "RayCluster"] = ClusterError("forbidden", status=403)
    seen = world.run("status").ok()
    assert "rayjob/a" in seen.out
    assert seen.err.count("Ray clusters may not be listed") == 1
