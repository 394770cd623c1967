"""A server on this machine that answers what a test says, byte by byte, and remembers what it was asked."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from waiting import wait_until

from kubectl_nrl.cluster import Cluster

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "team"}}


@dataclass(frozen=True)
class Asked:
    """One request as it arrived; `connection` counts the connections from 1, `lines` are its headers as they were sent."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int
    lines: tuple[str, ...] = ()


def answer(status: int, body: object = b"", headers: dict[str, str] | None = None) -> bytes:
    """A whole response; a body that is no bytes is sent as JSON."""
    payload = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(payload)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + payload


def refused(code: int, reason: str, message: str = "", **details: object) -> dict[str, object]:
    """A Status object as the API server sends it."""
    status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return {**status, "details": details} if details else status


@dataclass
class Server:
    """`reply` makes the bytes to send for a request; None closes the connection without a word."""

    reply: Callable[[Asked], bytes | None]
    close_after: bool = False
    asked: list[Asked] = field(default_factory=list)

    def __enter__(self) -> Server:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def cut(self) -> None:
        """Close all open connections."""
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def until_closed(self) -> None:
        """Wait until this side has closed every connection."""
        wait_until(lambda: not self._open, "every connection to be closed")

    def _accept(self) -> None:
        count = 0
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            count += 1
            self._open.add(connection)
            self._threads.append(threading.Thread(target=self._serve, args=(connection, count)))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket, count: int) -> None:
        with connection:
            try:
                while (asked := self._read(connection, count)) is not None:
                    self.asked.append(asked)
                    reply = self.reply(asked)
                    if reply is None:
                        break
                    connection.sendall(reply)
                    if self.close_after:
                        break
            except OSError:
                pass
        self._open.discard(connection)

    @staticmethod
    def _read(connection: socket.socket, count: int) -> Asked | None:
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                return None
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
        while len(body) < int(headers.get("content-length", 0)):
            body += connection.recv(65536)
        method, target, _ = lines[0].split(" ")
        return Asked(method, target, headers, body, count, tuple(lines[1:]))


def connect(
    tmp_path: Path, url: str, user: dict[str, Any] | None = None, env: dict[str, str] | None = None, **more: Any
) -> Cluster:
    """A client of the server at `url`, as a kubeconfig names it; `more` goes into its cluster entry."""
    config = {
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": url, **more}}],
        "users": [{"name": "u", "user": user or {"token": "first"}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "team"}}],
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    return Cluster.connect(kubeconfig=str(path), env=env or {})


def in_turn(*replies: bytes | None) -> Callable[[Asked], bytes | None]:
    """Each reply once; the last one for ever."""
    left = list(replies)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]
