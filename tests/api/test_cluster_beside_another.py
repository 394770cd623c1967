"""A second test cluster beside the shared one: independent, mended when a part dies, gone without a trace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator

import pytest
from cluster import processes
from cluster.fixtures import Cluster, started, stopped
from cluster.state import State
from waiting import PATIENCE, wait_until

pytestmark = pytest.mark.api


@pytest.fixture(scope="module")
def another(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = started("api", tmp_path_factory.mktemp("another") / "state")
    yield cluster
    stopped(cluster)


def state_of(cluster: Cluster) -> State:
    assert cluster.state
    return cluster.state


def test_it_is_independent(api_cluster: Cluster, another: Cluster) -> None:
    another.kubectl("delete", "crd", "rayjobs.ray.io")
    assert "rayjobs.ray.io" not in another.kubectl("get", "crds", "-o", "name")
    assert "rayjobs.ray.io" in api_cluster.kubectl("get", "crds", "-o", "name")
    started("api", state_of(another).root)
    assert "rayjobs.ray.io" in another.kubectl("get", "crds", "-o", "name")


def test_up_mends_what_died_and_keeps_the_rest(another: Cluster) -> None:
    state = state_of(another)
    another.kubectl("create", "namespace", "kept")
    before = {name: processes.running(state, name) for name in processes.names(state)}
    apiserver = before["apiserver"]
    assert apiserver
    os.kill(apiserver.pid, signal.SIGKILL)
    wait_until(lambda: not apiserver.alive(), "the API server to end")
    started("api", state.root)
    after = {name: processes.running(state, name) for name in processes.names(state)}
    assert after["etcd"] == before["etcd"]
    assert after["apiserver"] not in (None, apiserver)
    assert "namespace/kept" in another.kubectl("get", "namespaces", "-o", "name")


def test_namespaces_and_dependents_go(another: Cluster) -> None:
    name = another.namespace()
    another.kubectl("-n", name, "create", "configmap", "owner")
    uid = another.kubectl("-n", name, "get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child", "ownerReferences": [owner]}}
    another.kubectl("-n", name, "create", "-f", "-", stdin=json.dumps(child))
    another.kubectl("-n", name, "delete", "configmap", "owner")
    another.kubectl("-n", name, "wait", "--for=delete", "configmap/child", f"--timeout={PATIENCE:.0f}s")
    another.delete_namespace(name)
    another.kubectl("wait", "--for=delete", f"namespace/{name}", f"--timeout={PATIENCE:.0f}s")


def test_nothing_runs_after_down(another: Cluster) -> None:  # the last, since it ends the cluster
    state = state_of(another)
    running = [process for name in processes.names(state) if (process := processes.running(state, name))]
    assert len(running) == 3
    another.close()
    stopped(another)
    assert not any(process.alive() for process in running)
    assert processes.names(state) == []
    assert {path.name for path in state.root.iterdir()} == {".kubectl-nrl-tests", "logs"}
    mentions = subprocess.run(["pgrep", "-f", str(state.root)], capture_output=True, text=True, check=False).stdout
    assert mentions == ""
