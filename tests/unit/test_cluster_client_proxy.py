"""Which proxy stands between: the cluster's own, the environment's, or none."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted_server import POD, Server, answer, connect, in_turn

from kubectl_nrl.cluster.patience import Patience
from kubectl_nrl.cluster.proxy import proxy_for, through_proxy
from kubectl_nrl.cluster.sockets import DialError
from kubectl_nrl.errors import ClusterError

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("host", "no_proxy", "used"),
    [
        ("api.example.com", "", True),
        ("localhost", "", False),
        ("127.0.0.1", "", False),
        ("127.9.9.9", "", False),
        ("::1", "", False),
        ("api.example.com", "*", False),
        ("api.example.com", "other, example.com", False),
        ("api.example.com", ".example.com", False),
        ("api.example.com", "*.example.com", False),
        ("api.example.com", "API.Example.com", False),
        ("example.com", ".example.com", True),
        ("badexample.com", "example.com", True),
        ("api.example.com", "example.com:6443", False),
        ("api.example.com", "example.com:443", True),
        ("10.1.2.3", "10.0.0.0/8", False),
        ("10.1.2.3", "10.1.2.3", False),
        ("10.1.2.3", "10.1.2.3:6443", False),
        ("10.1.2.3", "2.3", True),
        ("10.1.2.3", "11.0.0.0/8,rubbish/99", True),
        ("fd00::5", "fd00::/8", False),
        ("fd00::5", "[fd00::5]:6443", False),
        ("fd00::5", "fd00::6", True),
    ],
)
def test_the_environments_proxy_and_its_exceptions(host: str, no_proxy: str, used: bool) -> None:
    for names in (("HTTPS_PROXY", "NO_PROXY"), ("https_proxy", "no_proxy")):
        env = {names[0]: PROXY, names[1]: no_proxy}
        assert proxy_for("https", host, 6443, None, env) == (PROXY if used else None)


def test_the_clusters_own_proxy_knows_no_exceptions() -> None:
    assert proxy_for("https", "localhost", 1, PROXY, {"NO_PROXY": "*"}) == PROXY


def test_each_scheme_has_its_own_variable() -> None:
    assert proxy_for("https", "a", 1, None, {"HTTP_PROXY": PROXY}) is None
    assert proxy_for("http", "a", 1, None, {"HTTP_PROXY": PROXY}) == PROXY


def socks(script: list[tuple[bytes, bytes]], proxy: str) -> None:
    """Dial `api.example:6443` through a scripted SOCKS server: (what must arrive, what to answer), in turn."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        wrong: list[tuple[bytes, bytes]] = []

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                for expected, reply in script:
                    got = connection.recv(1000)
                    if got != expected:
                        wrong.append((got, expected))
                    connection.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            url = proxy.format(listener.getsockname()[1])
            through_proxy(url, "api.example", 6443, Patience(5)).close()
        finally:
            thread.join(60)
        assert wrong == []


ASK = b"\x05\x01\x00\x03\x0bapi.example\x19\x2b"
GRANTED = b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"


def test_socks5() -> None:
    socks([(b"\x05\x01\x00", b"\x05\x00"), (ASK, GRANTED)], "socks5://127.0.0.1:{}")


def test_socks5_with_a_password() -> None:
    login = (b"\x01\x02me\x02pw", b"\x01\x00")
    socks([(b"\x05\x01\x02", b"\x05\x02"), login, (ASK, GRANTED)], "socks5h://me:pw@127.0.0.1:{}")


def test_socks5_refusals() -> None:
    with pytest.raises(DialError, match="could not connect"):
        socks([(b"\x05\x01\x00", b"\x05\x00"), (ASK, b"\x05\x05\x00\x01" + b"\0" * 6)], "socks5://127.0.0.1:{}")
    with pytest.raises(DialError, match="does not accept the user"):
        socks([(b"\x05\x01\x02", b"\x05\x02"), (b"\x01\x02me\x02pw", b"\x01\x01")], "socks5://me:pw@127.0.0.1:{}")
    with pytest.raises(DialError, match="closed the connection"):
        socks([(b"\x05\x01\x00", b"")], "socks5://127.0.0.1:{}")


def test_a_kind_of_proxy_that_is_not_known() -> None:
    with pytest.raises(
        DialError, match=r"proxy ftp://p:1 .*not supported \(ftp; http, https and socks5 are\)"
    ) as caught:
        through_proxy("ftp://me:pw@p:1", "a", 1, Patience(1))
    assert caught.value.final, "trying again cannot help"


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
