"""A port of this machine behind which every connection is a connection to somewhere else."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ..cluster.patience import Cancelled, Patience
from ..cluster.sockets import Channel, DialError
from ..errors import ClusterError, UsageError
from .relay import relay

LOOPBACK = "127.0.0.1"
#: Seconds to reach the far side, and for which a client that was answered may go on sending.
DIAL, LINGER = 20.0, 2.0

Dial = Callable[[Patience], Channel]


class LocalPort:
    """Listens on the loopback address only; serves any number of connections at once until `close`.

    `trouble` is told why a connection could not be made, from the thread of that connection.
    """

    def __init__(self, port: int, dial: Dial, trouble: Callable[[Exception], None]) -> None:
        """Listen on `port`, 0 for a free one. Raises `UsageError` when it cannot be had."""
        self._dial, self._trouble = dial, trouble
        self._closed = threading.Event()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = _listen(port)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="local-port", daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError as error:
                if self._closed.is_set() or error.errno in (errno.EBADF, errno.EINVAL):
                    return
                self._closed.wait(0.1)  # out of descriptors: one may be free in a moment
                continue
            threading.Thread(target=self._serve, args=(client,), name="local-port-connection", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with self._lock:
            self._open.add(client)
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            channel = self._reach(client)
            if channel is not None:
                self._carry(client, channel)
        except (OSError, Cancelled):
            pass  # a connection that breaks concerns its two ends alone
        finally:
            with self._lock:
                self._open.discard(client)
            client.close()

    def _reach(self, client: socket.socket) -> Channel | None:
        try:
            return self._dial(Patience(DIAL, self._closed.is_set))
        except (OSError, ClusterError) as error:
            self._trouble(error)
            _refuse(client, error)
            return None

    def _carry(self, client: socket.socket, channel: Channel) -> None:
        try:
            relay(client, channel, self._closed.is_set)
        except DialError as error:
            self._trouble(error)
            _refuse(client, error)
        finally:
            channel.close()

    def close(self) -> None:
        """Stop listening and end every connection."""
        self._closed.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for client in self._open:
                with suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> LocalPort:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server((LOOPBACK, port), backlog=128)
    except OverflowError as error:
        raise UsageError(f"{port} is no port", "1 to 65535; leave --port out for a free one") from error
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            why = error.strerror or str(error)
            raise UsageError(f"port {port} cannot be listened on: {why}", "leave --port out for a free one") from error
        holder = port_holder(port)
        raise UsageError(
            f"port {port} is taken{f' by {holder}' if holder else ''}", "another --port, or --port 0 for a free one"
        ) from error


def _refuse(client: socket.socket, error: Exception) -> None:
    """An answer that a browser shows, and asks again after: the head may be back in a moment."""
    body = f"kubectl nrl: {getattr(error, 'message', '') or error}\nThis page asks again by itself.\n".encode()
    head = (
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\n"
        f"Refresh: 3\r\nRetry-After: 3\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with suppress(OSError):
        client.sendall(head.encode() + body)
        client.shutdown(socket.SHUT_WR)
        client.settimeout(LINGER)
        while client.recv(65536):  # closing with unread bytes of the request would take the answer away
            pass


def port_holder(port: int, proc: Path = Path("/proc")) -> str:
    """`pid 123 (name)`: which process of this machine listens on a port; empty when that cannot be told (not Linux, not mine)."""
    inodes = {inode for name in ("tcp", "tcp6") for inode in _listening(proc / "net" / name, port)}
    if not inodes:
        return ""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for process in proc.iterdir():
        if process.name.isdecimal() and wanted & _sockets(process / "fd"):
            with suppress(OSError):
                return (
                    f"pid {process.name} ({(process / 'comm').read_text(encoding='utf-8', errors='replace').strip()})"
                )
    return ""


def _listening(table: Path, port: int) -> list[str]:
    """Inodes of the sockets that listen on the port (proc_pid_net(5): state 0A, local address `HEX:PORT`)."""
    try:
        rows = [line.split() for line in table.read_text(encoding="ascii").splitlines()[1:]]
    except OSError:
        return []
    return [row[9] for row in rows if len(row) > 9 and row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port]


def _sockets(folder: Path) -> set[str]:
    found = set()
    with suppress(OSError):
        for entry in folder.iterdir():
            with suppress(OSError):
                found.add(os.readlink(entry))
    return found
