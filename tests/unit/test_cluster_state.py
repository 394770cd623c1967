"""The test cluster's state: its own directory and ports per checkout and depth."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest
from cluster import go_builds, images, versions
from cluster.errors import ClusterError
from cluster.state import DEPTHS, State, free_port, state_for


def test_each_depth_has_a_directory_of_its_own(tmp_path: Path) -> None:
    assert len({state_for(depth).root for depth in DEPTHS}) == len(DEPTHS)
    assert state_for("api", tmp_path).root == tmp_path


def test_only_a_directory_of_its_own_is_emptied(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("three years")
    stranger = State(tmp_path, "api")
    with pytest.raises(ClusterError, match="no test cluster"):
        stranger.claim()
    stranger.empty()
    assert (tmp_path / "thesis.tex").exists()
    ours = State(tmp_path / "new", "api")
    ours.claim()
    ours.write("certs/ca.crt", "x")
    ours.write("logs/etcd.log", "x")
    ours.record(port=1)
    ours.empty()
    ours.claim()
    assert sorted(path.name for path in ours.root.rglob("*")) == [".kubectl-nrl-tests", "etcd.log", "logs"]


def test_ports_are_kept_and_differ(tmp_path: Path) -> None:
    state = State(tmp_path / "state", "api")
    ports = [state.port(name) for name in ("etcd", "apiserver", "other")]
    assert len(set(ports)) == 3
    assert [State(state.root, "api").port(name) for name in ("etcd", "apiserver", "other")] == ports


def test_a_port_in_use_or_taken_is_not_chosen() -> None:
    first = free_port(set())
    with socket.socket() as other:
        other.bind(("127.0.0.1", first))
        second = free_port(set())
    assert second != first
    assert free_port({first, second}) not in (first, second)


def test_no_free_port_is_an_error() -> None:
    with pytest.raises(OSError, match="no free port"):
        free_port({20000, 20001}, low=20000, high=20002)


def test_the_version_that_is_named_is_the_version_that_is_built() -> None:
    modules = (go_builds.KUBERNETES_SOURCE / "go.mod").read_text()
    assert f"k8s.io/kubernetes v{versions.KUBERNETES}" in modules
    staging = set(re.findall(r"k8s\.io/\S+ => k8s\.io/\S+ (\S+)", modules))
    assert staging == {f"v0.{versions.KUBERNETES.split('.', 1)[1]}"}
    for module in (go_builds.ETCD_SOURCE, go_builds.KUBERNETES_SOURCE):
        assert re.search(rf"go.etcd.io/etcd/\S+ v{re.escape(versions.ETCD)}\b", (module / "go.mod").read_text())
    assert images.RAY_IMAGE.endswith(f":{versions.RAY}")
