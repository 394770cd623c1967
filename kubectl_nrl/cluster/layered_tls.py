"""TLS over a channel that has TLS of its own: what a proxy of the `https` kind takes.

Python's `wrap_socket` goes to the bare socket and would leave the outer layer out, hence the two memory buffers.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import TypeVar

from .patience import Patience
from .sockets import Channel

_T = TypeVar("_T")
_PIECE = 256 * 1024


class LayeredTls:
    """A channel; see `sockets.Channel`. Raises what `ssl` raises, `Cancelled`, or what the channel below does."""

    def __init__(self, below: Channel, context: ssl.SSLContext, name: str, patience: Patience) -> None:
        self._below = below
        self._arrived, self._leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._arrived, self._leaving, server_hostname=name)
        self._pump(self._tls.do_handshake, patience)

    def send(self, data: bytes, patience: Patience) -> None:
        view = memoryview(data)
        while view:
            piece = view[:_PIECE]
            view = view[self._pump(lambda piece=piece: self._tls.write(piece), patience) :]  # type: ignore[misc]
            patience = patience.renewed()

    def recv(self, patience: Patience) -> bytes:
        try:
            return self._pump(lambda: self._tls.read(_PIECE), patience)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            return b""

    def stale(self) -> bool:
        return bool(self._tls.pending() or self._arrived.pending) or self._below.stale()

    def fileno(self) -> int:
        return self._below.fileno()

    def close(self) -> None:
        self._below.close()

    def _pump(self, step: Callable[[], _T], patience: Patience) -> _T:
        """The result of a step of TLS, moving bytes to and from the channel below until it has one."""
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                self._flush(patience)
                data = self._below.recv(patience)
                if data:
                    self._arrived.write(data)
                else:
                    self._arrived.write_eof()
                continue
            self._flush(patience)
            return result

    def _flush(self, patience: Patience) -> None:
        if leaving := self._leaving.read():
            self._below.send(leaving, patience)
