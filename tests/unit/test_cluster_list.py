"""`cluster list`: every Ray cluster of a namespace with its state from the conditions, and its changes once each."""

from __future__ import annotations

from typing import Any

import pytest
from fake_cluster import FakeCluster

from kubectl_nrl.errors import ClusterError
from kubectl_nrl.runs import ClusterRecord, ordered
from kubectl_nrl.testing import USER, Project


def conditions(**states: str) -> list[dict[str, str]]:
    return [{"type": kind, "status": state, "reason": f"{kind}Reason"} for kind, state in states.items()]


UP = {
    "state": "ready",
    "conditions": conditions(HeadPodReady="True", RayClusterProvisioned="True"),
    "readyWorkerReplicas": 2,
    "desiredWorkerReplicas": 2,
    "desiredGPU": "8",
}


def raycluster(name: str = "c", owner: str = "", status: Any = None, spec: Any = None, **meta: Any) -> dict[str, Any]:
    labels = {"kubectl-nrl/owner": owner} if owner else {}
    metadata = {"name": name, "namespace": "default", "uid": f"u-{name}", "labels": labels, **meta}
    return {"kind": "RayCluster", "metadata": metadata, "spec": spec or {}, "status": status or {}}


@pytest.mark.parametrize(
    ("status", "spec", "state"),
    [
        ({}, {}, "Created"),
        (UP, {}, "Ready"),
        # `state` stays `ready` after pods died: the conditions and counts say so.
        ({**UP, "readyWorkerReplicas": 1}, {}, "Degraded"),
        ({**UP, "conditions": conditions(HeadPodReady="False", RayClusterProvisioned="True")}, {}, "HeadNotReady"),
        ({**UP, "state": "", "conditions": conditions(HeadPodReady="False")}, {}, "Starting"),
        ({**UP, "state": "", "readyWorkerReplicas": 0, "conditions": conditions(HeadPodReady="True")}, {}, "Starting"),
        ({"conditions": conditions(RayClusterSuspended="True"), "state": "suspended"}, {"suspend": True}, "Suspended"),
        ({**UP, "conditions": conditions(RayClusterSuspending="True")}, {"suspend": True}, "Suspending"),
        ({}, {"suspend": True}, "Suspended"),
        ({"conditions": conditions(ReplicaFailure="True")}, {}, "Failed"),
        # KubeRay 1.2 and older, or its conditions switched off.
        ({"state": "ready", "readyWorkerReplicas": 1, "desiredWorkerReplicas": 1}, {}, "Ready"),
        ({"state": "ready", "readyWorkerReplicas": 0, "desiredWorkerReplicas": 1}, {}, "Degraded"),
        ({"state": "failed"}, {}, "Failed"),
    ],
)
def test_a_state_is_what_the_conditions_and_counts_say(status: Any, spec: Any, state: str) -> None:
    assert ClusterRecord(raycluster(status=status, spec=spec)).state == state


def test_a_cluster_being_deleted_is_terminating_and_its_finalizer_is_the_reason() -> None:
    found = ClusterRecord(raycluster(status=UP, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x/y"]))
    assert (found.state, found.reason) == ("Terminating", "x/y")


def test_gpus_are_counted_where_claims_bring_them_and_a_suspended_cluster_asks_for_none() -> None:
    group = {"groupName": "g", "replicas": 2, "numOfHosts": 2, "rayStartParams": {"num-gpus": "4"}}
    spec = {
        "headGroupSpec": {"rayStartParams": {"num-gpus": "0"}},
        "workerGroupSpecs": [group, {**group, "suspend": True}],
    }
    assert ClusterRecord(raycluster(status={**UP, "desiredGPU": "0"}, spec=spec)).gpus == 16
    assert ClusterRecord(raycluster(status=UP)).gpus == 8
    suspended = {**UP, "conditions": conditions(RayClusterSuspended="True")}
    assert ClusterRecord(raycluster(status=suspended)).gpus == 0


def test_mine_come_first_then_by_owner_the_newest_first() -> None:
    found = [
        raycluster("a1", "anna", creationTimestamp="2026-01-01T00:00:01Z"),
        raycluster("m1", "me", creationTimestamp="2026-01-01T00:00:01Z"),
        raycluster("n", "", creationTimestamp="2026-01-01T00:00:09Z"),
        raycluster("m2", "me", creationTimestamp="2026-01-01T00:00:02Z"),
    ]
    assert [c.name for c in ordered([ClusterRecord(item) for item in found], "me")] == ["m2", "m1", "n", "a1"]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster()
    monkeypatch.setattr("kubectl_nrl.cluster.Cluster.connect", lambda **words: fake)
    return fake


def test_everybodys_clusters_are_listed_with_the_run_they_serve(cluster: FakeCluster) -> None:
    cluster.put(raycluster("mine", USER, UP))
    of_job = raycluster("j-x1", "anna", UP)
    of_job["metadata"]["labels"] |= {"ray.io/originated-from-crd": "RayJob", "ray.io/originated-from-cr-name": "j"}
    cluster.put(of_job)
    cluster.put({**raycluster("far"), "metadata": {"name": "far", "namespace": "other", "uid": "u9"}})
    done = Project().run("cluster list -n default").ok()
    assert [line.split() for line in done.out.splitlines()] == [
        ["NAME", "STATE", "PODS", "GPUS", "OWNER", "AGE", "RUN"],
        ["mine", "Ready", "3/3", "8", USER, "(you)", "0s", "-"],
        ["j-x1", "Ready", "3/3", "8", "anna", "0s", "rayjob/j"],
    ]
    listed = Project().run("cluster list -A -o json").ok().result("cluster_list")
    assert {(c["name"], c["namespace"], c["mine"]) for c in listed} == {
        ("mine", "default", True), ("j-x1", "default", False), ("far", "other", False)
    }  # fmt: skip
    assert [call for call in cluster.calls if call[0] != "list" or call[1] != "RayCluster"] == []


def test_an_empty_namespace_is_named(cluster: FakeCluster) -> None:
    assert Project().run("cluster list -n rl").ok().out == 'no Ray clusters in namespace "rl"\n'


def test_watching_prints_each_change_once_and_nothing_else(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.put(raycluster("c", USER, UP))
    changes = iter(
        [
            lambda: cluster.set_status("RayCluster", "c", lastUpdateTime="now"),  # no change that a row shows
            lambda: cluster.set_status("RayCluster", "c", readyWorkerReplicas=1),
            lambda: cluster.put(raycluster("d", "anna", UP)),
            lambda: cluster.remove("RayCluster", "c"),
            lambda: cluster.say("LOST", ClusterError("refused")),
            lambda: cluster.say("BACK"),
        ]
    )
    real = cluster.watch

    def watch(*words: Any, **more: Any) -> Any:
        """Each change as the one before it was taken in, then Ctrl-C."""
        for event in real(*words, **more):
            yield event
            change = next(changes, None)
            if change is None:
                raise KeyboardInterrupt
            change()

    monkeypatch.setattr(cluster, "watch", watch)
    done = Project().run("cluster list -n default -w")
    assert done.exit == 130
    rows = [line.split()[:3] for line in done.out.splitlines()]
    assert rows == [
        ["NAME", "STATE", "PODS"],
        ["c", "Ready", "3/3"],
        ["c", "Degraded", "2/3"],
        ["d", "Ready", "3/3"],
        ["c", "Deleted", "-"],
    ]
    assert (
        len(
            {
                line.index("  " + word)
                for line, word in zip(done.out.splitlines(), ["PODS", "3/3", "2/3", "3/3", "- "], strict=True)
            }
        )
        == 1
    )
    assert "lost (refused); reconnecting" in done.err
    assert "is back" in done.err


@pytest.mark.parametrize(
    "line", ["cluster list x", "cluster down x -w", "cluster up r.yaml -A", "cluster list -o wide"]
)
def test_words_and_flags_that_do_not_belong_are_refused(cluster: FakeCluster, line: str) -> None:
    assert Project().run(line).exit == 2


def test_a_refusal_is_one_line_with_exit_3(cluster: FakeCluster) -> None:
    cluster.faults["list", "RayCluster"] = ClusterError("cannot list rayclusters.ray.io: forbidden", status=403)
    done = Project().run("cluster list -n rl")
    assert (done.exit, done.out) == (3, "")
    assert done.err == "error: cannot list rayclusters.ray.io: forbidden\n"


def test_without_a_cluster_the_answer_is_this_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    done = Project().run("cluster list").ok()
    assert done.out == "no Ray cluster is up on this machine\n"
    assert "the clusters of this machine only" in done.err
    assert Project().run("cluster list -n rl").exit == 3
