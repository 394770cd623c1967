"""What is asked of a cluster with the real KubeRay and fake nodes: clusters, jobs, runs, logs, the end-of-run checklist."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from cluster import fake_nodes
from cluster.fault_proxy import FaultProxy
from cluster.fixtures import Cluster
from command_line import CommandLine, wait_until

from kubectl_nrl import ray_jobs
from kubectl_nrl.cluster import Cluster as Api

pytestmark = pytest.mark.node


@pytest.fixture
def line(kwok_cluster: Cluster, kwok_namespace: str, tmp_path: Path) -> CommandLine:
    return CommandLine(kwok_cluster, kwok_namespace, tmp_path)


def put_cluster(line: CommandLine, name: str, **spec: Any) -> None:
    def pods(container: str) -> dict[str, Any]:
        return {
            "spec": {
                "containers": [{"name": container, "image": "none/ray:1", "resources": {"requests": {"cpu": "1"}}}]
            }
        }

    worker = {"groupName": "w", "replicas": 2, "minReplicas": 2, "maxReplicas": 2, "rayStartParams": {}}
    manifest = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name, "labels": {"kubectl-nrl/owner": "e2e"}},
        "spec": {
            "headGroupSpec": {"rayStartParams": {}, "template": pods("head")},
            "workerGroupSpecs": [{**worker, "template": pods("worker")}],
            **spec,
        },
    }
    line.cluster.kubectl("-n", line.namespace, "create", "-f", "-", stdin=json.dumps(manifest))


def states(line: CommandLine) -> dict[str, str]:
    return {c["name"]: c["state"] for c in line.json("cluster list")}


def become(line: CommandLine, **wanted: str) -> None:
    """Wait until the clusters of the namespace are these, each in its state."""
    wait_until(lambda: states(line) == wanted, f"clusters to be {wanted}")


def submit(line: CommandLine, name: str, entrypoint: str, submission_id: str, user: str = "e2e") -> None:
    """A job through Ray's Jobs API, as any tool submits it."""
    with Api.connect(kubeconfig=str(line.cluster.kubeconfig)) as api:
        live = api.get("ray.io/v1", "RayCluster", name, line.namespace)
        assert live is not None
        with ray_jobs.connect(api, live) as jobs:
            jobs.submit(entrypoint, submission_id, runtime_env={}, metadata={"user": user})


def test_clusters_are_listed_and_watched_as_kuberay_sees_them(line: CommandLine) -> None:
    put_cluster(line, "up")
    put_cluster(line, "asleep", suspend=True)
    watching = line.start("cluster list -w")
    become(line, up="Ready", asleep="Suspended")
    watching.until(lambda: re.search(r"^up +Ready", watching.out, re.M) is not None, "the cluster to be seen up")
    line.cluster.kubectl("-n", line.namespace, "delete", "raycluster", "up", "--wait=false")
    watching.until(lambda: re.search(r"^up +Deleted", watching.out, re.M) is not None, "the deletion")
    assert watching.interrupt() == 130
    rows = [row for row in watching.out.splitlines() if row.startswith("up ")]
    assert rows[-1].split()[:2] == ["up", "Deleted"]
    lasting = [re.sub(r" \d+[smh]\w* ", " ", row) for row in rows]  # without the age
    assert all(row != after for row, after in itertools.pairwise(lasting)), rows


def test_a_run_from_its_start_to_its_checklist_from_another_laptop(line: CommandLine) -> None:
    go = line.directory / "go"
    line.write(f"echo one; while [ ! -e {go} ]; do sleep 0.1; done; echo two", codePath="/")
    line.run("run recipe.yaml --infra infra.yaml --no-wait --run-id r1")
    other = line.elsewhere()
    [listed] = line.json("job list", **other)
    assert (listed["id"], listed["owner"], listed["mine"]) == ("r1", "e2e", True)
    failing = line.json("verify r1", 1, **other)
    assert [item["title"] for item in failing["items"] if item["ok"] is False] == ["job"]
    go.touch()
    assert line.run("logs recipe.yaml --infra infra.yaml -f", **other).out == "one\ntwo\n"
    line.pods_become("head")
    verified = line.json("verify recipe.yaml --infra infra.yaml", **other)
    assert {item["title"]: item["ok"] for item in verified["items"]} == {
        "objects": True, "job": True, "log": True, "wandb": None, "teardown": True, "claims": True
    }  # fmt: skip
    line.run("job stop r1", **other)
    line.pods_become()
    [name] = line.rayjobs()
    assert line.json(f"verify {name.replace('.ray.io', '')}", **other)["failed"] == 0


def test_a_job_on_a_long_lived_cluster_is_found_followed_and_stopped_though_it_ignores_the_signal(
    line: CommandLine,
) -> None:
    put_cluster(line, "long")
    become(line, long="Ready")
    submit(line, "long", "echo begun; exit 3", f"{line.namespace}-short", user="anna")
    followed = line.run(f"job logs {line.namespace}-short -f", expect=1)
    assert followed.out == "begun\n"
    stubborn = f"{line.namespace}-stubborn"
    submit(line, "long", "trap '' TERM; echo deaf; while :; do sleep 0.2; done", stubborn)
    wait_until(lambda: line.run(f"job logs {stubborn}").out == "deaf\n", "its first line")
    listed = {job["id"]: (job["rayCluster"], job["owner"], job["state"]) for job in line.json("job list")}
    assert listed[stubborn] == ("long", "e2e", "RUNNING")
    assert listed[f"{line.namespace}-short"] == ("long", "anna", "FAILED")
    stopped = line.json(f"job stop {stubborn}")
    assert (stopped["state"], stopped["stopped"]) == ("STOPPED", True)
    assert list(states(line)) == ["long"]


@pytest.fixture
def pod_log(line: CommandLine) -> Iterator[Path]:
    """The log of every fake container, with fifty lines of the last seconds in it."""
    state = line.cluster.state
    assert state is not None
    path = fake_nodes.pod_log(state)
    began = datetime.now(timezone.utc) - timedelta(seconds=5)
    path.write_bytes(b"".join(_kubelet_line(began + timedelta(milliseconds=100 * n), n) for n in range(50)))
    yield path
    path.write_bytes(b"")


def _kubelet_line(at: datetime, number: int) -> bytes:
    return f"{at:%Y-%m-%dT%H:%M:%S.%f}000Z stdout F line {number}\n".encode()


def test_the_log_of_a_head_comes_whole_through_ten_cuts(line: CommandLine, pod_log: Path, tmp_path: Path) -> None:
    put_cluster(line, "long")
    become(line, long="Ready")
    with FaultProxy(line.cluster.kubeconfig) as proxy:
        following = line.start("logs raycluster/long --source head -f", KUBECONFIG=str(proxy.kubeconfig))
        with pod_log.open("ab", buffering=0) as log:
            for cut in range(10):
                for number in range(10):
                    log.write(_kubelet_line(datetime.now(timezone.utc), 50 + 10 * cut + number))
                asked = len(_logs_asked(proxy))
                proxy.cut()
                wait_until(lambda before=asked: len(_logs_asked(proxy)) > before, "it to ask again")  # type: ignore[misc]
        following.until(lambda: "line 149\n" in following.out, "the last line")
        assert following.interrupt() == 130
    assert following.out.splitlines() == [f"line {number}" for number in range(150)]


def _logs_asked(proxy: FaultProxy) -> list[Any]:
    return [seen for seen in proxy.seen if "/log?" in seen.target]


def test_who_may_not_see_pods_is_told_which_permission_is_missing(line: CommandLine) -> None:
    put_cluster(line, "long")
    become(line, long="Ready")
    rules = [{"apiGroups": ["ray.io"], "resources": ["rayclusters", "rayjobs"], "verbs": ["get", "list", "watch"]}]
    limited = {"KUBECONFIG": str(line.cluster.user(line.namespace, rules))}
    assert line.json("cluster list", **limited)[0]["name"] == "long"
    assert "jobs of raycluster/long are not listed" in line.run("job list", **limited).err
    refused = line.run("logs raycluster/long --source head", expect=3, **limited)
    assert re.search(r"cannot list pods.*namespace", refused.err)
    assert len(refused.err.splitlines()) <= 2
