"""The client's half of WebSocket (RFC 6455) over a channel: binary messages, pings answered, an orderly end.

Written here because the stream must share the API connection's proxies, certificates and waiting rules, and because the
usual package costs more to import than all of it.
"""

from __future__ import annotations

import base64
import hashlib
import os
import struct
from collections import deque
from contextlib import suppress

from .patience import Patience
from .pool import exchange
from .sockets import Channel
from .wire import Headers, Request, ResponseParser, WireError

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MAX_FRAME = 64 * 1024 * 1024
_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def mask(payload: bytes, key: bytes) -> bytes:
    """XOR with the four bytes of `key`, repeated; its own inverse."""
    length = len(payload)
    if not length:
        return b""
    pad = (key * (length // 4 + 1))[:length]
    return (int.from_bytes(payload, "little") ^ int.from_bytes(pad, "little")).to_bytes(length, "little")


def encode_frame(opcode: int, payload: bytes, key: bytes) -> bytes:
    """A final, masked frame, as a client must send it."""
    length = len(payload)
    head = bytes([0x80 | opcode])
    if length < 126:
        head += bytes([0x80 | length])
    elif length < 65536:
        head += bytes([0x80 | 126]) + struct.pack(">H", length)
    else:
        head += bytes([0x80 | 127]) + struct.pack(">Q", length)
    return head + key + mask(payload, key)


class FrameParser:
    """Bytes of a server in, whole messages out as (opcode, payload); fragments are put together."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._fragments: list[bytes] = []
        self._opcode = 0

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Raises `WireError` on what is not WebSocket."""
        self._buffer += data
        messages = []
        start = 0
        while (frame := self._frame(start)) is not None:
            fin, opcode, begin, end = frame
            payload = bytes(self._buffer[begin:end])
            start = end
            if opcode >= CLOSE:
                if not fin or len(payload) > 125:
                    raise WireError("broken control frame in the stream")
                messages.append((opcode, payload))
                continue
            if (opcode == CONTINUATION) != bool(self._opcode):
                raise WireError("fragments of the stream are out of order")
            self._opcode = self._opcode or opcode
            self._fragments.append(payload)
            if fin:
                messages.append((self._opcode, b"".join(self._fragments)))
                self._fragments, self._opcode = [], 0
        del self._buffer[:start]
        return messages

    def _frame(self, start: int) -> tuple[bool, int, int, int] | None:
        """(final, opcode, begin, end) of the frame at `start`, or None when it is not whole yet."""
        buffer = self._buffer
        if len(buffer) - start < 2:
            return None
        first, second = buffer[start], buffer[start + 1]
        if first & 0x70 or second & 0x80 or (first & 0x0F) in (3, 4, 5, 6, 7) or (first & 0x0F) > PONG:
            raise WireError("a frame of the stream that no server may send")
        length, begin = second & 0x7F, start + 2
        if length > 125:
            size = 2 if length == 126 else 8
            if len(buffer) < begin + size:
                return None
            length = int.from_bytes(buffer[begin : begin + size], "big")
            begin += size
        if length > MAX_FRAME:
            raise WireError("a frame of the stream is too large")
        end = begin + length
        return (bool(first & 0x80), first & 0x0F, begin, end) if len(buffer) >= end else None


class WebSocket:
    """An open connection. Not safe for several threads at once."""

    def __init__(self, channel: Channel, first: bytes = b"") -> None:
        self._channel = channel
        self._parser = FrameParser()
        self._messages: deque[tuple[int, bytes]] = deque(self._parser.feed(first))
        self._ended = False

    def send(self, payload: bytes, patience: Patience) -> None:
        self._channel.send(encode_frame(BINARY, payload, os.urandom(4)), patience)

    def recv(self, patience: Patience) -> bytes | None:
        """The next message, or None when the peer ended the stream."""
        while True:
            while self._messages:
                opcode, payload = self._messages.popleft()
                if opcode == PING:
                    self._channel.send(encode_frame(PONG, payload, os.urandom(4)), patience)
                elif opcode == CLOSE:
                    self._ended = True
                elif opcode in (TEXT, BINARY) and not self._ended:
                    return payload
            if self._ended:
                return None
            data = self._channel.recv(patience)
            if not data:
                self._ended = True
            self._messages.extend(self._parser.feed(data))

    def stale(self) -> bool:
        return bool(self._messages) or self._ended or self._channel.stale()

    def fileno(self) -> int:
        return self._channel.fileno()

    def close(self) -> None:
        """Say goodbye without waiting for the answer, and close."""
        with suppress(OSError):
            if not self._ended:
                self._channel.send(encode_frame(CLOSE, struct.pack(">H", 1000), os.urandom(4)), Patience(0.5))
        self._channel.close()


def upgrade(
    channel: Channel, target: str, headers: Headers, protocols: tuple[str, ...], patience: Patience
) -> tuple[ResponseParser, bytes]:
    """Ask for the upgrade; returns the answer's head (101 or a refusal) and the body bytes that came with it.

    After a 101, `rest` of the head holds the first bytes of the stream.
    """
    key = base64.b64encode(os.urandom(16)).decode()
    words = {
        **headers,
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": key,
        "Sec-WebSocket-Protocol": ", ".join(protocols),
    }
    parser, first = exchange(channel, Request("GET", target, words), patience)
    if parser.status == 101:
        expected = base64.b64encode(hashlib.sha1((key + _MAGIC).encode(), usedforsecurity=False).digest()).decode()
        if parser.headers.get("sec-websocket-accept") != expected:
            raise WireError("the answer to the upgrade is not of a WebSocket server")
    return parser, first
