"""Bytes both ways over TCP, read and written in slices, so that whoever waits can stop waiting."""

from __future__ import annotations

import errno
import os
import select
import socket
import ssl
from contextlib import suppress
from typing import Protocol

from .patience import Patience

#: Seconds after which the next address of a name is tried.
NEXT_ADDRESS_SECONDS = 3.0


class Channel(Protocol):
    """Bytes both ways, `recv` returns b"" at the end. Both raise OSError, of which `TimeoutError` and `Cancelled` come of the patience.

    `stale` tells whether an idle one is at its end, `fileno` what to wait on (-1 when it is closed).
    """

    def send(self, data: bytes, patience: Patience) -> None: ...
    def recv(self, patience: Patience) -> bytes: ...
    def stale(self) -> bool: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...


class DialError(OSError):
    """No connection could be made; nothing of a request was sent. `final`: trying again cannot help."""

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class SocketChannel:
    """A connected socket, plain or TLS, that is read and written in slices of a `Patience`."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def send(self, data: bytes, patience: Patience) -> None:
        view = memoryview(data)
        while view:
            self._sock.settimeout(patience.slice())
            try:
                sent = self._sock.send(view[: 256 * 1024])
            except (TimeoutError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                continue
            view = view[sent:]
            patience = patience.renewed()

    def recv(self, patience: Patience) -> bytes:
        while True:
            self._sock.settimeout(patience.slice())
            try:
                return self._sock.recv(256 * 1024)
            except (TimeoutError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                continue
            except ssl.SSLEOFError:
                return b""

    def stale(self) -> bool:
        """Whether an idle connection has something to read: that can only be its end."""
        try:
            return bool(_poll(self._sock, select.POLLIN, 0.0))
        except (OSError, ValueError):
            return True

    def fileno(self) -> int:
        """The descriptor to wait on; -1 when it is closed. What was read ahead is told by `stale` alone."""
        return self._sock.fileno()

    def close(self) -> None:
        with suppress(OSError):
            self._sock.close()


def connect(host: str, port: int, patience: Patience) -> socket.socket:
    """The first address that answers, tried in the resolver's order; the last error when none does.

    One that swallows what is sent (a broken IPv6 route) must not use up the time of the others.
    """
    last: OSError = OSError(f"{host} has no address")
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for number, (family, kind, protocol, _, address) in enumerate(found, 1):
        attempt = patience if number == len(found) else patience.within(NEXT_ADDRESS_SECONDS)
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            code = sock.connect_ex(address)
            while code in (errno.EINPROGRESS, errno.EALREADY, errno.EWOULDBLOCK):
                if _poll(sock, select.POLLOUT, attempt.slice()):
                    code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                    break
            if code:
                raise OSError(code, os.strerror(code))
            _keep_alive(sock)
            return sock
        except OSError as error:
            sock.close()
            last = error
        except BaseException:
            sock.close()
            raise
    raise last


def secured(sock: socket.socket, context: ssl.SSLContext, name: str, patience: Patience) -> ssl.SSLSocket:
    """TLS on a connected socket, whose certificate must name `name`. Raises `OSError` (`ssl.SSLError` among them)."""
    wrapped = context.wrap_socket(sock, server_hostname=name, do_handshake_on_connect=False)
    try:
        while True:
            wrapped.settimeout(patience.slice())
            try:
                wrapped.do_handshake()
                return wrapped
            except (TimeoutError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                continue
    except BaseException:
        wrapped.close()
        raise


def _poll(sock: socket.socket, event: int, seconds: float) -> bool:
    """Whether the socket is ready (poll, since select cannot watch descriptors above 1023)."""
    poller = select.poll()
    poller.register(sock, event)
    return bool(poller.poll(seconds * 1000))


def _keep_alive(sock: socket.socket) -> None:
    """Notice a peer that vanished without a word in about 35 s, also when nothing is being sent."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)
