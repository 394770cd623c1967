"""The local port: bytes as they are, many connections at once, and a word instead of silence when nothing is behind it."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kubectl_nrl.cluster.patience import Patience
from kubectl_nrl.cluster.sockets import Channel, DialError, SocketChannel, connect
from kubectl_nrl.dashboard import LocalPort, port_holder
from kubectl_nrl.errors import ClusterError, UsageError


@pytest.fixture
def echo() -> Iterator[int]:
    """A port that sends back what it gets, and ends when its client does."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            while data := client.recv(65536):
                client.sendall(data)

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def local(port: int, troubles: list[Exception] | None = None) -> LocalPort:
    told = troubles if troubles is not None else []
    return LocalPort(0, lambda patience: SocketChannel(connect("127.0.0.1", port, patience)), told.append)


def receive(client: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length and (piece := client.recv(65536)):
        data += piece
    return data


def test_many_connections_carry_their_own_bytes_at_once(echo: int) -> None:
    with local(echo) as port:
        clients = [socket.create_connection(("127.0.0.1", port.port), 60) for _ in range(40)]
        payloads = [os.urandom(20000 + number) for number in range(40)]
        for client, payload in zip(clients, payloads, strict=True):
            client.sendall(payload)
        for client, payload in zip(reversed(clients), reversed(payloads), strict=True):
            assert receive(client, len(payload)) == payload
            client.close()


def test_a_conversation_goes_on_both_ways_as_a_websocket_does(echo: int) -> None:
    with local(echo) as port, socket.create_connection(("127.0.0.1", port.port), 60) as client:
        for number in range(200):
            client.sendall(b"%d;" % number)
            assert receive(client, len(b"%d;" % number)) == b"%d;" % number


def test_a_client_that_leaves_ends_the_connection_behind(echo: int) -> None:
    closed = threading.Event()

    class Watched(SocketChannel):
        def close(self) -> None:
            super().close()
            closed.set()

    with LocalPort(0, lambda patience: Watched(connect("127.0.0.1", echo, patience)), lambda error: None) as port:
        socket.create_connection(("127.0.0.1", port.port), 60).close()
        assert closed.wait(60)


def test_closing_ends_open_connections_and_frees_the_port(echo: int) -> None:
    port = local(echo)
    client = socket.create_connection(("127.0.0.1", port.port), 60)
    client.sendall(b"x")
    assert receive(client, 1) == b"x"
    port.close()
    assert client.recv(1) == b""
    client.close()
    with closing(LocalPort(port.port, lambda patience: pytest.fail("dialled"), lambda error: None)):
        pass


def test_a_browser_is_told_why_nothing_is_there_and_asks_again() -> None:
    troubles: list[Exception] = []

    def dial(patience: Patience) -> Channel:
        raise ClusterError('RayCluster "x" has no running head pod', reason="NoHead")

    straight = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with LocalPort(0, dial, troubles.append) as port, pytest.raises(urllib.error.HTTPError) as raised:
        straight.open(port.url, timeout=60)
    with raised.value as error:
        assert error.code == 503
        assert error.headers["Refresh"]
        assert 'RayCluster "x" has no running head pod' in error.read().decode()
    assert [type(trouble) for trouble in troubles] == [ClusterError]


def test_a_pod_that_does_not_listen_yet_is_told_like_a_head_that_is_away() -> None:
    """A port-forward says so only after the first bytes were sent."""
    ours, far = socket.socketpair()

    class Refusing(SocketChannel):
        def recv(self, patience: Patience) -> bytes:
            raise DialError("port 8265 of pod h: connection refused")

    far.sendall(b"x")
    troubles: list[Exception] = []
    with (
        far,
        LocalPort(0, lambda patience: Refusing(ours), troubles.append) as port,
        socket.create_connection(("127.0.0.1", port.port), 60) as client,
    ):
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert b"connection refused" in receive(client, 10000)
    assert [str(trouble) for trouble in troubles] == ["port 8265 of pod h: connection refused"]


def test_only_this_machine_can_connect(echo: int) -> None:
    with local(echo) as port:
        assert port.url == f"http://127.0.0.1:{port.port}"
        assert port._listener.getsockname()[0] == "127.0.0.1"


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="only Linux tells who has a port")
def test_a_port_that_is_taken_names_who_has_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        assert port_holder(number).startswith(f"pid {os.getpid()} (")
        with pytest.raises(UsageError, match=rf"port {number} is taken by pid {os.getpid()} \(") as raised:
            LocalPort(number, lambda patience: pytest.fail("dialled"), lambda error: None)
    assert "--port" in raised.value.hint


def test_a_port_whose_holder_cannot_be_told_is_still_an_answer(tmp_path: Path) -> None:
    assert port_holder(1, proc=tmp_path) == ""


def test_half_a_frame_from_the_far_side_holds_nothing_up(echo: int) -> None:
    """A ping, or a part of a frame, makes the connection readable and holds no data yet."""

    class Pinging(SocketChannel):
        def stale(self) -> bool:
            return True

    with (
        LocalPort(0, lambda patience: Pinging(connect("127.0.0.1", echo, patience)), lambda error: None) as port,
        socket.create_connection(("127.0.0.1", port.port), 60) as client,
    ):
        for word in (b"one", b"two"):
            client.sendall(word)
            assert receive(client, 3) == word
