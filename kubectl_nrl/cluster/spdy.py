"""The client's half of SPDY/3.1, as far as Kubernetes' streams need it.

WebSocket is asked for first, but the API server takes its GET for the verb `get`, while the roles people are given
for exec and port-forward say `create`: a POST, which only SPDY can make. No flow control: Kubernetes' SPDY library
has none.
"""

from __future__ import annotations

import struct
import zlib
from collections import deque
from collections.abc import Mapping, Sequence

from .patience import Patience
from .sockets import Channel
from .wire import WireError

SYN_STREAM, RST_STREAM, PING, GOAWAY = 1, 3, 6, 7
FIN = 1
#: Seconds for which the other streams are heard after those that matter have ended: an error may come behind.
LINGER = 2.0


def control_frame(kind: int, flags: int, payload: bytes) -> bytes:
    return struct.pack(">HHI", 0x8003, kind, flags << 24 | len(payload)) + payload


def data_frame(stream: int, flags: int, payload: bytes) -> bytes:
    return struct.pack(">II", stream, flags << 24 | len(payload)) + payload


class FrameParser:
    """Bytes in, whole frames out: (control type or 0, stream id or 0, flags, payload)."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, int, int, bytes]]:
        """Raises `WireError` on what is not SPDY/3."""
        self._buffer += data
        frames = []
        start = 0
        while len(self._buffer) - start >= 8:
            first, second = struct.unpack_from(">II", self._buffer, start)
            end = start + 8 + (second & 0xFFFFFF)
            if first >> 31 and first >> 16 != 0x8003:
                raise WireError("a frame of the stream is not SPDY/3")
            if len(self._buffer) < end:
                break
            payload = bytes(self._buffer[start + 8 : end])
            kind, stream = (first & 0xFFFF, 0) if first >> 31 else (0, first)
            frames.append((kind, stream, second >> 24, payload))
            start = end
        del self._buffer[:start]
        return frames


class SpdyStreams:
    """Numbered byte streams over one connection. Not safe for several threads at once.

    The end of those in `ends` is the end of all.
    """

    def __init__(self, channel: Channel, first: bytes, ends: Sequence[int]) -> None:
        self._channel = channel
        self._parser = FrameParser()
        self._frames = deque(self._parser.feed(first))
        self._packer = zlib.compressobj()
        self._ids: dict[int, int] = {}
        self._numbers: dict[int, int] = {}
        self._ends = set(ends)
        self._open: set[int] = set()
        self._writing: set[int] = set()
        self._ended = False

    def open(self, number: int, headers: Mapping[str, str], patience: Patience, *, half: bool) -> None:
        """Open a stream known as `number`; `half` says that nothing will be sent on it."""
        stream = 2 * len(self._ids) + 1
        self._ids[number], self._numbers[stream] = stream, number
        self._open.add(number)
        if not half:
            self._writing.add(number)
        block = struct.pack(">I", len(headers))
        for name, value in headers.items():
            for word in (name.lower().encode(), value.encode()):
                block += struct.pack(">I", len(word)) + word
        # Header blocks share one zlib stream; each is flushed so that it can be read at once.
        packed = self._packer.compress(block) + self._packer.flush(zlib.Z_SYNC_FLUSH)
        frame = control_frame(SYN_STREAM, 0, struct.pack(">IIBB", stream, 0, 0, 0) + packed)
        self._channel.send(frame + (data_frame(stream, FIN, b"") if half else b""), patience)

    def send(self, number: int, data: bytes, patience: Patience) -> None:
        self._channel.send(data_frame(self._ids[number], 0, data), patience)

    def recv(self, patience: Patience) -> tuple[int, bytes] | None:
        """The next bytes and the number of their stream, or None at the end."""
        while True:
            while self._frames:
                kind, stream, flags, payload = self._frames.popleft()
                if kind == 0 and stream in self._numbers:
                    number = self._numbers[stream]
                    if flags & FIN:
                        self._open.discard(number)
                    if payload:
                        return number, payload
                elif kind == PING and len(payload) == 4 and payload[3] % 2 == 0:
                    self._channel.send(control_frame(PING, 0, payload), patience)
                elif kind == RST_STREAM and len(payload) == 8:
                    self._open.discard(self._numbers.get(struct.unpack(">I", payload[:4])[0], -1))
                elif kind == GOAWAY:
                    self._ended = True
            if self._ended or not self._more(patience):
                self._ended = True
                return None

    def _more(self, patience: Patience) -> bool:
        """Wait for more frames; False at the end."""
        over = not self._open & self._ends
        try:
            if over:
                patience = patience.within(LINGER)
                for number in self._writing:
                    self._channel.send(data_frame(self._ids[number], FIN, b""), patience)
                self._writing.clear()
            data = self._channel.recv(patience) if self._open else b""
        except OSError:
            if over:
                return False
            raise
        self._frames.extend(self._parser.feed(data))
        return bool(data)

    def stale(self) -> bool:
        return self._ended or bool(self._frames) or self._channel.stale()

    def fileno(self) -> int:
        return self._channel.fileno()

    def close(self) -> None:
        self._channel.close()
