"""Every end of a run counts pods: whoever ends it, and whoever is there to see it, nothing goes on holding them.

Fake nodes are as good as real ones here: KubeRay decides what stays, and the drivers' processes and exit codes are real.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster.fixtures import Cluster
from command_line import CommandLine, Running, pasted, wait_until
from run_files import files
from waiting import PATIENCE

from kubectl_nrl import ray_jobs
from kubectl_nrl.cluster import Cluster as Api
from kubectl_nrl.testing import Project

pytestmark = pytest.mark.node


class Ends:
    """Runs on fake nodes whose drivers end when a test says so."""

    def __init__(self, cluster: Cluster, namespace: str, directory: Path) -> None:
        self.cli = CommandLine(cluster, namespace, directory)
        self.go = directory / "go"
        self.id = namespace
        self.command = f"run recipe.yaml --infra infra.yaml --run-id {self.id} --rayjob-name e"
        self.api = Api.connect(kubeconfig=str(cluster.kubeconfig), env={})

    def write(self, after: str = "", before: str = "", **launch: Any) -> None:
        """A driver that says `started`, waits for `go`, and goes on with `after`.

        That says nothing: without a ttl the head may go with the last words before anybody has read them.
        """
        waits = f"{before}\necho started\nwhile [ ! -e {self.go} ]; do sleep 0.1; done\n{after}"
        data = files(waits, image="fake/ray:1", name="e", **launch)
        data["infra.yaml"]["launch"]["codePath"] = str(self.go.parent)
        for name, content in data.items():
            (self.cli.directory / name).write_text(yaml.safe_dump(content))

    def start(self, more: str = "", until: str = "started") -> Running:
        running = self.cli.start(f"{self.command} {more}")
        running.until(lambda: until in running.out, "the driver's first line")
        return running

    def rayjob(self) -> dict[str, Any]:
        found = self.api.get("ray.io/v1", "RayJob", "e", self.cli.namespace)
        assert found is not None
        return found

    def stop_in_ray(self) -> None:
        """As the button of Ray's dashboard does."""
        name = self.rayjob()["status"]["rayClusterName"]
        live = self.api.get("ray.io/v1", "RayCluster", name, self.cli.namespace)
        assert live is not None
        with ray_jobs.connect(self.api, live) as jobs:
            jobs.stop(self.id)

    def until_status(self, **wanted: str) -> None:
        def there() -> bool:
            status = self.rayjob().get("status") or {}
            return all(status.get(key) == value for key, value in wanted.items())

        wait_until(there, lambda: f"{wanted}: {self.rayjob().get('status')}")


@pytest.fixture
def ends(kwok_cluster: Cluster, kwok_namespace: str, tmp_path: Path) -> Iterator[Ends]:
    made = Ends(kwok_cluster, kwok_namespace, tmp_path)
    yield made
    made.go.touch()  # no driver outlives its test


@pytest.mark.parametrize(("after", "code", "left"), [("exit 0", 0, ["head"]), ("exit 3", 1, ["head"])])
def test_the_workers_go_with_the_driver_and_the_head_keeps_the_log(
    ends: Ends, after: str, code: int, left: list[str]
) -> None:
    ends.write(after)
    run = ends.start()
    ends.go.touch()
    assert run.end() == code, run
    assert "the workers are gone" in run.err
    assert ends.cli.pods() == left, "run saw them go before it ended"


def test_nothing_is_left_without_a_ttl(ends: Ends) -> None:
    ends.write("exit 3")
    run = ends.start("--ttl 0")
    ends.go.touch()
    assert run.end() == 1, run
    assert "all pods are gone" in run.err
    assert ends.cli.pods() == []
    assert len(ends.cli.rayjobs()) == 1, "the record stays"


def test_a_run_that_ray_stopped_is_released_by_who_waits_for_it(ends: Ends) -> None:
    """No deletion rule matches STOPPED: without help its pods stay for good."""
    ends.write()
    run = ends.start()
    ends.stop_in_ray()
    assert run.end() == 5, run
    assert ends.cli.pods() == []
    assert len(ends.cli.rayjobs()) == 1


def test_a_stop_with_nobody_there_is_named_by_runs_and_released_by_clean(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends.write()
    run = ends.start()
    run.process.kill()
    run.process.wait()
    ends.stop_in_ray()
    ends.until_status(jobDeploymentStatus="Complete", jobStatus="STOPPED")
    assert ends.cli.pods() == ["head", "worker"]
    listed = ends.cli.run("runs")
    assert f"run {ends.id} is over and still holds 2 pods" in listed.err
    assert f"kubectl nrl job stop {ends.id} -n {ends.cli.namespace}" in listed.err
    monkeypatch.setattr(import_module("kubectl_nrl.runs.leftovers"), "SETTLED", -1.0)
    env = {"KUBECONFIG": str(ends.cli.cluster.kubeconfig), "NRL_K8S_USER": "e2e"}
    cleaned = Project(env=env).run(f"clean -n {ends.cli.namespace} -o json").ok().result("clean")
    [left] = cleaned["cluster"]["leftovers"]
    assert (left["name"], left["action"], len(left["holds"]["pods"]), left["removed"]) == ("e", "release", 2, True)
    assert ends.cli.pods() == []
    assert len(ends.cli.rayjobs()) == 1
    assert "still holds" not in ends.cli.run("runs").err


def test_a_deadline_ends_a_run_that_hangs(ends: Ends) -> None:
    """After a deadline the Ray job still reads RUNNING; a loop that waits for it would hold GPUs for a day."""
    ends.write(deadlineSeconds=3600)
    run = ends.start()
    ends.cli.patch_rayjob("e", activeDeadlineSeconds=1)
    assert run.end() == 1, run
    assert "FAILED (DeadlineExceeded)" in run.err
    assert ends.cli.pods() == ["head"]


def test_an_operator_that_restarts_in_the_middle_ends_the_run_all_the_same(ends: Ends) -> None:
    ends.write("exit 3")
    run = ends.start("--ttl 0")
    with ends.cli.cluster.without_kuberay():
        ends.go.touch()
        run.until(lambda: "started" in run.out, "the log")
        assert run.process.poll() is None, "Ray's word alone is no end"
    assert run.end() == 1, run
    assert ends.cli.pods() == []


def test_giving_up_waiting_leaves_the_run_and_the_lines_that_end_it(ends: Ends) -> None:
    ends.write()
    run = ends.cli.run(f"{ends.command} --timeout 8", expect=4)
    ends.cli.pods_become("head", "worker")
    ends.cli.run(pasted(run.err, "stop and release"))
    assert ends.cli.pods() == []


def test_retries_are_followed_across_ray_clusters_and_leave_no_pods_of_earlier_ones(ends: Ends) -> None:
    count = ends.cli.directory / "count"
    fails = f"while [ ! -e {count}-$n ]; do sleep 0.1; done; exit 3"
    before = f"echo try >> {count}\nn=$(wc -l < {count})\necho attempt $n\n[ $n -ge 3 ] || {{ {fails}; }}"
    ends.write("exit 0", before, backoffLimit=2)
    run = ends.start("--ttl 0", until="attempt 1")
    for failing in (1, 2):
        run.until(lambda line=f"attempt {failing}\n": line in run.out, f"attempt {failing}")
        Path(f"{count}-{failing}").touch()
    run.until(lambda: "started" in run.out, "the last attempt's first line")
    ends.cli.pods_become("head", "worker")  # those of earlier attempts go
    ends.go.touch()
    assert run.end() == 0, run
    assert run.out.splitlines() == ["attempt 1", "attempt 2", "attempt 3", "started"]
    assert ends.cli.pods() == []


def test_a_driver_that_nobody_waits_for_takes_its_workers_with_it(ends: Ends) -> None:
    ends.write("exit 3")
    ends.cli.run(f"{ends.command} --no-wait --ttl 0")
    ends.until_status(jobStatus="RUNNING")
    ends.go.touch()
    ends.cli.pods_become()
    assert json.loads(ends.cli.run("runs -o json").out)[0]["state"] == "FAILED"


def test_a_finalizer_that_holds_the_ray_cluster_is_named_and_the_exit_code_stays_the_runs(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends.write("exit 3")
    kubectl, place = ends.cli.cluster.kubectl, ["-n", ends.cli.namespace]

    def finalizers(value: Any) -> None:
        body = json.dumps({"metadata": {"finalizers": value}})
        for name in kubectl(*place, "get", "rayclusters", "-o", "name").split():
            kubectl(*place, "patch", name, "--type=merge", "-p", body)

    def hold() -> None:
        wait_until(lambda: "worker" in ends.cli.pods(), "the worker")
        finalizers(["example.com/hold"])
        ends.go.touch()

    monkeypatch.setattr("kubectl_nrl.commands.run_follow.WORKERS", 5.0)
    written = {name: (ends.cli.directory / name).read_text() for name in ("recipe.yaml", "infra.yaml")}
    project = Project(written, env={"KUBECONFIG": str(ends.cli.cluster.kubeconfig), "NRL_K8S_USER": "e2e"})
    holding = threading.Thread(target=hold)
    holding.start()
    try:
        done = project.run(f"{ends.command} {' '.join(place)} --ttl 0 --timeout {PATIENCE:.0f} -o json")
        assert done.exit == 1, done
        cluster = done.json["rayCluster"]
        assert (
            f"after 5 s raycluster {cluster} is being deleted and does not go (finalizer example.com/hold)" in done.err
        )
        assert f"hint: kubectl get raycluster {cluster} -n {ends.cli.namespace} -o yaml" in done.err
        assert len(done.json["notGone"]) == 2, done
    finally:
        holding.join()
        finalizers(None)
    ends.cli.pods_become()
