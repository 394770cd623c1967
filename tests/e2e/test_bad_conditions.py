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


def test_an_outage_is_said_once_and_costs_no_line_and_a_namespace_that_goes_takes_all_who_wait(site: Site) -> None:
    """Who follows a driver, who waits for a run to start, who waits for a cluster: twenty seconds without an API server, then the end."""
    site.counting()
    site.nowhere()
    with FaultProxy(site.cluster.kubeconfig) as proxy:
        through = {"KUBECONFIG": str(proxy.kubeconfig)}
        follows = site.start(f"{RUN} --run-id {site.namespace}", **through)
        waits = site.start("run recipe.yaml --infra nowhere.infra.yaml", **through)
        comes_up = site.start("cluster up recipe.yaml --infra nowhere.infra.yaml", **through)
        follows.until(lambda: "line 3\n" in follows.out, "the driver's first lines")
        for waiting in (waits, comes_up):
            waiting.until(lambda waiting=waiting: "Unschedulable" in waiting.err, "why it waits")
        proxy.refuse(AWAY)
        proxy.cut()
        back = "connection to the API server is back"
        for running in (follows, waits, comes_up):
            running.until(lambda running=running: back in running.err, "the way back")
        seen = follows.out.count("\n")
        follows.until(lambda: follows.out.count("\n") > seen + int(AWAY), "the lines of the outage, and more")
        for running in (follows, waits, comes_up):
            assert running.err.count("connection to the API server lost") == 1, running
            assert running.err.count("cannot reach the API server") == 1, running
            assert running.err.count(back) == 1, running
        logs = site.start(f"job logs {site.namespace} -f", **site.elsewhere())
        logs.until(lambda: "line 3\n" in logs.out, "the log")

        site.cluster.kubectl("delete", "namespace", site.namespace, "--wait=false")
        gone = f'with its namespace "{site.namespace}"'
        for running in (follows, logs):
            assert running.end() == 5, running
            assert f"was deleted {gone} before it ended" in running.err, running
        # KubeRay is told that it may make no pods, or the object goes first.
        for waiting, code in ((waits, 5), (comes_up, 3)):
            assert waiting.end() in (code, 4), waiting
            assert gone in waiting.err or "NamespaceTerminating" in waiting.err, waiting
    for running in (follows, logs, waits, comes_up):
        assert "may still run" not in running.err
        assert "follow it again" not in running.err
        assert "take it down" not in running.err
    whole = "".join(f"line {n}\n" for n in range(1, follows.out.count("\n") + 2))
    assert whole.startswith(follows.out), follows.out


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
