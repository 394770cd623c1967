"""In a pod of the cluster: the pod's own account, and Ray without the detour through the API server."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted_server import Server, answer

from kubectl_nrl.cluster import Cluster, Forward, kubeconfig
from kubectl_nrl.cluster.dial import Address
from kubectl_nrl.cluster.inside import Inside
from kubectl_nrl.cluster.patience import Patience
from kubectl_nrl.cluster.sockets import Channel
from kubectl_nrl.errors import ClusterError


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that a kubelet mounts into a pod, but for the authority: the API server here speaks plain HTTP."""
    directory = tmp_path / "serviceaccount"
    directory.mkdir()
    (directory / "token").write_text("of-the-pod")
    (directory / "namespace").write_text("team\n")
    monkeypatch.setattr(kubeconfig._in_cluster, "__defaults__", (directory,))
    return directory


def environment(tmp_path: Path, server: Server) -> dict[str, str]:
    return {"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.port)}


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that refuses connections, and that nobody else gets meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def test_a_pods_account_is_used_and_its_port_is_reached_directly(tmp_path: Path, account: Path) -> None:
    with Server(lambda asked: answer(200, b"ray")) as ray, Server(lambda asked: None) as api:
        lines: list[str] = []
        with Cluster.connect(env=environment(tmp_path, api), trace=lines.append) as cluster:
            assert (cluster.namespace, cluster.context) == ("team", "in-cluster")
            assert cluster.client.credentials.current().headers == {"Authorization": "Bearer of-the-pod"}
            with cluster.forward("team", "head", ray.port, inside="127.0.0.1") as requests:
                assert requests.request("GET", "/api/version?secret=1").read() == b"ray"
        assert api.asked == []
        assert ray.asked[0].headers["host"] == f"127.0.0.1:{ray.port}"
        assert "authorization" not in ray.asked[0].headers, "the account's token is for the API server alone"
    assert lines[0].startswith(f"GET 127.0.0.1:{ray.port}/api/version 200 in ")


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-head-svc.team.svc.invalid"])
def test_what_does_not_answer_directly_is_reached_through_the_api_server(
    tmp_path: Path, account: Path, monkeypatch: pytest.MonkeyPatch, closed_port: int, host: str
) -> None:
    forwarded: list[str] = []
    with (
        Server(lambda asked: answer(200, asked.target.encode()), close_after=True) as ray,
        Server(lambda _: None) as api,
    ):

        def dial(forward: Forward, patience: Patience) -> Channel:
            forwarded.append(forward.pod)
            return Address("127.0.0.1", ray.port).dial(patience)

        monkeypatch.setattr(Forward, "dial", dial)
        lines: list[str] = []
        with Cluster.connect(env=environment(tmp_path, api), trace=lines.append) as cluster:
            requests = cluster.forward("team", "head", closed_port, inside=host)
            assert [requests.request("GET", path).read() for path in ("/a", "/b")] == [b"/a", b"/b"]
    assert forwarded == ["head", "head"]
    assert [line for line in lines if "through the API server instead" in line] == lines[:1], "it is tried once"


def test_a_request_that_was_sent_is_not_sent_again_another_way(tmp_path: Path, account: Path) -> None:
    with Server(lambda _: None) as ray, Server(lambda _: None) as api:
        with Cluster.connect(env=environment(tmp_path, api)) as cluster:
            requests = cluster.forward("team", "head", ray.port, inside="127.0.0.1")
            with pytest.raises(ClusterError) as caught:
                requests.request("POST", "/api/jobs/", body=b"{}")
        assert caught.value.reason == "ConnectionLost"
        assert len(ray.asked) == 1 and api.asked == []


def test_outside_it_is_a_forward_whatever_the_address(tmp_path: Path, account: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        '{"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "k"}}],'
        ' "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:1"}}]}'
    )
    with Cluster.connect(kubeconfig=str(path), env={"KUBERNETES_SERVICE_HOST": "127.0.0.1"}) as cluster:
        assert not isinstance(cluster.forward("team", "head", 8265, inside="127.0.0.1"), Inside)
