"""What happens to clusters while somebody waits on them: an API server that is away, a namespace and a node that go."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster import fake_nodes
from cluster.fault_proxy import FaultProxy
from cluster.fixtures import Cluster
from command_line import CommandLine, wait_until
from run_files import files, infra

pytestmark = pytest.mark.node

#: Seconds of the outage.
AWAY = 20.0
RUN = "run recipe.yaml --infra infra.yaml"


class Site(CommandLine):
    """A driver that counts until `go` is there, and infra files whose pods no node holds."""

    @property
    def go(self) -> Path:
        return self.directory / "go"

    def counting(self, selector: dict[str, str] | None = None) -> None:
        data = files(
            f"n=0; while [ ! -e {self.go} ]; do n=$((n + 1)); echo line $n; sleep 0.2; done; echo went",
            image="fake/ray:1",
            codePath=str(self.directory),
        )
        if selector:
            workers = data["infra.yaml"]["kuberay"]["training"]["spec"]["workerGroupSpecs"]
            workers[0]["template"]["spec"]["nodeSelector"] = selector
        for name, content in data.items():
            (self.directory / name).write_text(yaml.safe_dump(content))

    def nowhere(self) -> None:
        """`nowhere.infra.yaml`, for a run or a cluster whose workers wait for a node for ever."""
        data: dict[str, Any] = infra("true", image="fake/ray:1", name="nowhere", codePath=str(self.directory))
        workers = data["kuberay"]["training"]["spec"]["workerGroupSpecs"]
        workers[0]["template"]["spec"]["nodeSelector"] = {"pool": "nowhere"}
        (self.directory / "nowhere.infra.yaml").write_text(yaml.safe_dump(data))


@pytest.fixture
def site(kwok_cluster: Cluster, kwok_namespace: str, tmp_path: Path) -> Iterator[Site]:
    made = Site(kwok_cluster, kwok_namespace, tmp_path)
    yield made
    made.go.touch()  # no driver outlives its test


def test_twenty_seconds_without_an_api_server_are_said_once_and_lose_nothing(site: Site) -> None:
    """While a driver is followed, while a run waits for a node, and while a cluster is waited for."""
    site.counting()
    site.nowhere()
    with FaultProxy(site.cluster.kubeconfig) as proxy:
        through = {"KUBECONFIG": str(proxy.kubeconfig)}
        follows = site.start(RUN, **through)
        waits = site.start("run recipe.yaml --infra nowhere.infra.yaml", **through)
        comes_up = site.start("cluster up recipe.yaml --infra nowhere.infra.yaml", **through)
        follows.until(lambda: "line 3\n" in follows.out, "the driver's first lines")
        for waiting in (waits, comes_up):
            waiting.until(lambda waiting=waiting: "Unschedulable" in waiting.err, "why it waits")
        proxy.refuse(AWAY)
        proxy.cut()
        for running in (follows, waits, comes_up):
            running.until(lambda running=running: "is back" in running.err or " back\n" in running.err, "the way back")
        site.go.touch()
        assert follows.end() == 0, follows
        assert [waiting.interrupt() for waiting in (waits, comes_up)] == [130, 130]
    for running in (follows, waits, comes_up):
        assert running.err.count("connection to the API server lost") == 1, running
        assert (
            running.err.count("connection to the API server is back")
            + running.err.count("connection to the API server back")
            == 1
        ), running
    *lines, last = follows.out.splitlines()
    assert lines == [f"line {n}" for n in range(1, len(lines) + 1)]
    assert last == "went"


def test_who_waits_in_a_namespace_that_is_deleted_is_told_so_and_of_nothing_to_come_back_to(site: Site) -> None:
    site.counting()
    site.nowhere()
    run = site.start(f"{RUN} --run-id {site.namespace}")
    run.until(lambda: "line 3\n" in run.out, "the driver's first lines")
    logs = site.start(f"job logs {site.namespace} -f", **site.elsewhere())
    up = site.start("cluster up recipe.yaml --infra nowhere.infra.yaml")
    logs.until(lambda: "line 3\n" in logs.out, "the log")
    up.until(lambda: "Unschedulable" in up.err, "why it waits")
    site.cluster.kubectl("delete", "namespace", site.namespace, "--wait=false")
    gone = f'with its namespace "{site.namespace}"'
    for running in (run, logs):
        assert running.end() == 6, running
        assert f"was deleted {gone} before it ended" in running.err, running
        assert "may still run" not in running.err
        assert "follow it again" not in running.err
    # KubeRay is told that it may make no pods, or the cluster goes first.
    assert (up.end(), gone in up.err, "NamespaceTerminating" in up.err) in [
        (3, True, False),
        (3, True, True),
        (4, False, True),
    ]
    assert "stay\n" not in up.err


def test_a_worker_that_a_node_drops_is_named_while_the_run_goes_on(site: Site) -> None:
    pool = f"pool-{site.namespace}"
    node = json.dumps(fake_nodes.fake_node(pool, {"pool": pool}))
    site.cluster.kubectl("apply", "-f", "-", stdin=node)
    try:
        site.counting({"pool": pool})
        run = site.start(RUN)
        run.until(lambda: "line 1\n" in run.out, "the driver")
        site.cluster.kubectl("taint", "node", pool, "maintenance=now:NoExecute")
        died = "(workers of w) died: DeletionByTaintManager, Taint manager: deleting due to NoExecute taint"
        run.until(lambda: died in run.err, "the worker's death")
        run.until(lambda: "1/1 workers of w: Unschedulable" in run.err, "why there is no other")
        site.cluster.kubectl("taint", "node", pool, "maintenance-")
        wait_until(lambda: site.pods() == ["head", "worker"], "another worker")
        site.go.touch()
        assert run.end() == 0, run
    finally:
        site.cluster.kubectl("delete", "node", pool, "--ignore-not-found")
