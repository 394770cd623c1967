"""A proxy that is itself reached by TLS, before a real API server: requests, watches and refusals through both layers."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cluster import certificates
from cluster.fixtures import Cluster as Harness

from kubectl_nrl.cluster import Cluster
from kubectl_nrl.errors import ClusterError

pytestmark = pytest.mark.api


class Proxy:
    """Answers CONNECT over TLS and passes bytes on; `asked` are the heads of what it was asked."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self.asked: list[str] = []
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(certificate, key)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://me:pw@127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for one in (self._listener, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, bare: socket.socket) -> None:
        with suppress(OSError):
            client = self._tls.wrap_socket(bare, server_side=True)
            head = client.recv(65536).decode()
            self.asked.append(head)
            host, _, port = head.split(" ")[1].rpartition(":")
            server = socket.create_connection((host, int(port)))
            self._open += [client, server]
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            threading.Thread(target=self._back, args=(server, client), daemon=True).start()
            while data := client.recv(65536):
                server.sendall(data)
            server.close()

    @staticmethod
    def _back(server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                client.sendall(data)


@pytest.fixture
def proxy(api_cluster: Harness) -> Iterator[Proxy]:
    assert api_cluster.state is not None
    running = Proxy(*certificates.server(api_cluster.state, "https-proxy", ["127.0.0.1"]))
    yield running
    running.close()


def through(api_cluster: Harness, proxy: str, tmp_path: Path) -> Cluster:
    config: dict[str, Any] = json.loads(
        api_cluster.kubectl("config", "view", "--raw", "--flatten", "--minify", "--output=json")
    )
    config["clusters"][0]["cluster"]["proxy-url"] = proxy
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    return Cluster.connect(kubeconfig=str(path))


def test_requests_and_watches_pass_both_layers(
    api_cluster: Harness, api_namespace: str, proxy: Proxy, tmp_path: Path
) -> None:
    large = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "y" * 900_000}}
    with through(api_cluster, proxy.url, tmp_path) as cluster:
        cluster.create(large, namespace=api_namespace)
        found = cluster.get("v1", "ConfigMap", "a", api_namespace)
        assert found is not None and found["data"] == large["data"]
        watch = cluster.watch("v1", "ConfigMap", api_namespace, name="a")
        assert next(watch).type == "ADDED"
        cluster.patch("v1", "ConfigMap", "a", api_namespace, {"data": {"x": "z"}})
        assert next(watch).object["data"] == {"x": "z"}
        watch.close()  # type: ignore[attr-defined]
    assert len(proxy.asked) == 2, "one connection for requests, one for the watch"
    assert "Proxy-Authorization: Basic bWU6cHc=" in proxy.asked[0]


def test_a_proxy_that_cannot_prove_itself_is_named(api_cluster: Harness, proxy: Proxy, tmp_path: Path) -> None:
    elsewhere = proxy.url.replace("127.0.0.1", "localhost")
    with through(api_cluster, elsewhere, tmp_path) as cluster, pytest.raises(ClusterError) as caught:
        cluster.list("v1", "Namespace")
    assert "through proxy https://localhost:" in caught.value.message and "not trusted" in caught.value.message
    assert "pw" not in caught.value.message and proxy.asked == []
