"""Bytes both ways between a socket of this machine and a channel, as they are: HTTP, WebSockets and streams alike.

One thread serves a connection, since neither a TLS socket nor the streams above it may be used by two at once.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable

from ..cluster.patience import SLICE, Patience
from ..cluster.sockets import Channel

_PIECE = 32 * 1024
#: Seconds within which the far side must take a piece.
TAKES = 60.0
#: Seconds to wait for the rest of a frame of which a part has come: the other direction waits as long.
REST = 0.05


def relay(client: socket.socket, channel: Channel, stopped: Callable[[], bool]) -> None:
    """Carry bytes until either side ends. Raises `OSError` when a side breaks: `DialError` when nothing had come back yet.

    A client that closes only its sending half is taken to be gone: Kubernetes' WebSocket protocol cannot say less.
    """
    poller = select.poll()
    poller.register(client, select.POLLIN)
    poller.register(channel.fileno(), select.POLLIN)
    while not stopped():
        ready = {number for number, _ in poller.poll(0 if channel.stale() else SLICE * 1000)}
        if client.fileno() in ready:
            data = client.recv(_PIECE)
            if not data:
                return
            channel.send(data, Patience(TAKES, stopped))
        if channel.stale() and not _pass_on(client, channel, stopped):
            return


def _pass_on(client: socket.socket, channel: Channel, stopped: Callable[[], bool]) -> bool:
    """Hand the client what has come; False at the end of the channel."""
    try:
        data = channel.recv(Patience(REST, stopped))
    except TimeoutError:
        return True
    client.sendall(data)
    return bool(data)
