"""Requests through a proxy, and past one."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted_server import POD, Server, answer, connect, in_turn

from kubectl_nrl.errors import ClusterError


def test_loopback_is_never_captured_by_a_proxy_of_the_environment(tmp_path: Path) -> None:
    env = {"HTTP_PROXY": "http://127.0.0.1:1", "HTTPS_PROXY": "http://127.0.0.1:1", "http_proxy": "http://127.0.0.1:1"}
    with Server(in_turn(answer(200, POD))) as server, connect(tmp_path, server.url, env=env) as cluster:
        assert cluster.get("v1", "Pod", "a") == POD


@pytest.fixture
def tunnel() -> Iterator[tuple[str, list[str]]]:
    """An HTTP proxy that knows CONNECT, and what it was asked."""
    listener = socket.create_server(("127.0.0.1", 0))
    asked: list[str] = []
    threads: list[threading.Thread] = []

    def pump(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def serve() -> None:
        while True:
            try:
                inner, _ = listener.accept()
            except OSError:
                return
            head = inner.recv(65536).decode()
            asked.append(head)
            host, _, port = head.split(" ")[1].rpartition(":")
            outer = socket.create_connection(("127.0.0.1" if host == "api.example" else host, int(port)))
            inner.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            with inner, outer:
                back = threading.Thread(target=pump, args=(outer, inner))
                back.start()
                pump(inner, outer)
                back.join(60)

    threads.append(threading.Thread(target=serve))
    threads[0].start()
    yield f"127.0.0.1:{listener.getsockname()[1]}", asked
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    threads[0].join(60)


def test_proxy_url_is_used_and_its_password_is_not_shown(tmp_path: Path, tunnel: tuple[str, list[str]]) -> None:
    address, asked = tunnel
    with Server(in_turn(answer(200, POD))) as server:
        url = f"http://api.example:{server.port}"
        with connect(tmp_path, url, **{"proxy-url": f"http://me:p%40ss@{address}"}) as cluster:
            assert cluster.get("v1", "Pod", "a") == POD
    assert asked[0].startswith(f"CONNECT api.example:{server.port} HTTP/1.1\r\n")
    assert "Proxy-Authorization: Basic bWU6cEBzcw==" in asked[0]
    with (
        connect(tmp_path, url, **{"proxy-url": "http://me:sekret@127.0.0.1:1"}) as cluster,
        pytest.raises(ClusterError, match=r"through proxy http://127.0.0.1:1") as caught,
    ):
        cluster.get("v1", "Pod", "a")
    assert "sekret" not in caught.value.message
