"""HTTP, WebSocket and SPDY bytes, cut at any place: the pieces in which they arrive change nothing."""

from __future__ import annotations

import contextlib
import os
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_nrl.cluster import spdy
from kubectl_nrl.cluster.patience import Patience
from kubectl_nrl.cluster.websocket import BINARY, CLOSE, PING, FrameParser, encode_frame, mask
from kubectl_nrl.cluster.wire import Request, ResponseParser, WireError, request_head


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({cut % (len(data) + 1) for cut in cuts})
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


def parse(data: bytes, cuts: list[int], method: str = "GET") -> tuple[ResponseParser, bytes]:
    parser = ResponseParser(method)
    body = b"".join(parser.feed(piece) for piece in pieces(data, cuts))
    return parser, body


CUTS = st.lists(st.integers(0, 10_000), max_size=12)


@given(st.binary(max_size=600), CUTS)
def test_a_body_of_known_length(body: bytes, cuts: list[int]) -> None:
    parser, got = parse(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX-A: b\r\n\r\n" % len(body) + body, cuts)
    assert (parser.status, got, parser.done, parser.reusable) == (200, body, True, True)
    assert parser.headers["x-a"] == "b"


@given(st.lists(st.binary(min_size=1, max_size=200), max_size=6), CUTS, st.booleans())
def test_a_chunked_body(chunks: list[bytes], cuts: list[int], trailer: bool) -> None:
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    data += b"".join(b"%x;name=value\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    data += b"0\r\n" + (b"X-Trailer: 1\r\n" if trailer else b"") + b"\r\n"
    parser, got = parse(data, cuts)
    assert (got, parser.done, parser.reusable) == (b"".join(chunks), True, True)


@given(st.binary(max_size=300), CUTS)
def test_a_body_until_the_end(body: bytes, cuts: list[int]) -> None:
    parser, got = parse(b"HTTP/1.1 200 OK\r\n\r\n" + body, cuts)
    assert (got, parser.done) == (body, False)
    parser.eof()
    assert (parser.done, parser.reusable) == (True, False)


@given(st.binary(max_size=400))
def test_rubbish_is_a_wire_error_or_waits(data: bytes) -> None:
    for start in (b"", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"):
        with contextlib.suppress(WireError):
            ResponseParser().feed(start + data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
    ],
)
def test_an_end_in_the_middle_is_not_an_end(data: bytes) -> None:
    parser, _ = parse(data, [])
    with pytest.raises(WireError):
        parser.eof()


def test_informational_answers_are_passed_over() -> None:
    data = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
    parser, _ = parse(data, [30])
    assert (parser.status, parser.done, parser.reusable) == (204, True, False)


def test_what_follows_an_upgrade_is_kept() -> None:
    parser, body = parse(b"HTTP/1.1 101 Switching\r\n\r\n\x82\x01a", [])
    assert (parser.status, parser.done, body, parser.rest) == (101, True, b"", b"\x82\x01a")


def test_a_head_answer_has_no_body() -> None:
    assert parse(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", [], "HEAD")[0].done


@pytest.mark.parametrize("word", ["a\r\nX: y", "a\nb"])
def test_no_header_breaks_out_of_its_line(word: str) -> None:
    with pytest.raises(ValueError, match="line break"):
        request_head(Request("GET", "/", {"X-A": word}))
    with pytest.raises(ValueError, match="line break"):
        request_head(Request("GET", "/a b"))


def server_frame(opcode: int, payload: bytes, fin: bool = True) -> bytes:
    head = bytes([(0x80 if fin else 0) | opcode])
    if len(payload) < 126:
        return head + bytes([len(payload)]) + payload
    if len(payload) < 65536:
        return head + b"\x7e" + struct.pack(">H", len(payload)) + payload
    return head + b"\x7f" + struct.pack(">Q", len(payload)) + payload


@given(st.lists(st.binary(max_size=300), max_size=6), CUTS)
def test_frames_come_out_as_they_went_in(messages: list[bytes], cuts: list[int]) -> None:
    data = b"".join(server_frame(BINARY, message) for message in messages)
    parser = FrameParser()
    got = [message for piece in pieces(data, cuts) for message in parser.feed(piece)]
    assert got == [(BINARY, message) for message in messages]


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=5), CUTS)
def test_fragments_are_put_together_with_a_ping_between(parts: list[bytes], cuts: list[int]) -> None:
    frames = [server_frame(BINARY if i == 0 else 0, p, fin=i == len(parts) - 1) for i, p in enumerate(parts)]
    data = server_frame(PING, b"?").join(frames)
    parser = FrameParser()
    got = [message for piece in pieces(data, cuts) for message in parser.feed(piece)]
    assert [m for m in got if m[0] == BINARY] == [(BINARY, b"".join(parts))]
    assert len([m for m in got if m[0] == PING]) == len(parts) - 1


def test_long_frames() -> None:
    for size in (125, 126, 65535, 65536, 200_000):
        assert FrameParser().feed(server_frame(BINARY, b"x" * size)) == [(BINARY, b"x" * size)]


@given(st.binary(max_size=200))
def test_rubbish_in_a_stream_is_a_wire_error_or_waits(data: bytes) -> None:
    with contextlib.suppress(WireError):
        FrameParser().feed(data)


@pytest.mark.parametrize(
    "data",
    [
        b"\xc2\x01a",
        b"\x82\x81abcd",
        b"\x83\x01a",
        b"\x80\x01a",
        b"\x02\x01a\x82\x01a",
        b"\x08\x00",
        b"\x82\x7f" + b"\xff" * 8,
    ],
    ids=["reserved bits", "masked", "unknown opcode", "continues nothing", "begins twice", "split close", "endless"],
)
def test_frames_that_no_server_may_send(data: bytes) -> None:
    with pytest.raises(WireError):
        FrameParser().feed(data)


@given(st.binary(max_size=300), st.binary(min_size=4, max_size=4))
def test_masking_is_its_own_inverse(payload: bytes, key: bytes) -> None:
    masked = mask(payload, key)
    assert mask(masked, key) == payload
    assert masked == bytes(b ^ key[i % 4] for i, b in enumerate(payload))


def test_a_client_frame_is_masked_and_final() -> None:
    key = os.urandom(4)
    for size, head in ((3, 2), (126, 4), (70_000, 10)):
        frame = encode_frame(CLOSE if size == 3 else BINARY, b"a" * size, key)
        assert frame[0] & 0x80 and frame[1] & 0x80
        assert frame[head : head + 4] == key and mask(frame[head + 4 :], key) == b"a" * size


@given(st.lists(st.tuples(st.integers(1, 9), st.booleans(), st.binary(max_size=200)), max_size=6), CUTS)
def test_spdy_frames_come_out_as_they_went_in(frames: list[tuple[int, bool, bytes]], cuts: list[int]) -> None:
    data = b"".join(spdy.data_frame(n, 1, p) if d else spdy.control_frame(n, 0, p) for n, d, p in frames)
    parser = spdy.FrameParser()
    got = [frame for piece in pieces(data, cuts) for frame in parser.feed(piece)]
    assert got == [(0, n, 1, p) if d else (n, 0, 0, p) for n, d, p in frames]


@given(st.binary(max_size=200))
def test_rubbish_in_a_spdy_stream_is_a_wire_error_or_waits(data: bytes) -> None:
    with contextlib.suppress(WireError):
        spdy.FrameParser().feed(data)


class Bytes:
    """A channel that gives what it was made with, and keeps what it is sent."""

    def __init__(self, *arrives: bytes) -> None:
        self.arrives, self.sent = list(arrives), b""

    def send(self, data: bytes, patience: Patience) -> None:
        self.sent += data

    def recv(self, patience: Patience) -> bytes:
        return self.arrives.pop(0) if self.arrives else b""

    def stale(self) -> bool:
        return bool(self.arrives)

    def close(self) -> None:
        self.arrives = []


def test_spdy_streams_are_told_apart_pings_answered_and_the_end_is_the_end_of_all() -> None:
    ping = spdy.control_frame(spdy.PING, 0, struct.pack(">I", 2))
    own = spdy.control_frame(spdy.PING, 0, struct.pack(">I", 1))
    reset = spdy.control_frame(spdy.RST_STREAM, 0, struct.pack(">II", 3, 1))
    channel = Bytes(ping + own + spdy.data_frame(3, 0, b"b"), spdy.data_frame(1, spdy.FIN, b"a"), reset, b"more")
    streams = spdy.SpdyStreams(channel, b"", (7, 8))
    for number in (7, 8):
        streams.open(number, {"streamType": "x"}, Patience(1), half=False)
    opened = channel.sent
    assert [streams.recv(Patience(1)) for _ in range(3)] == [(8, b"b"), (7, b"a"), None]
    assert channel.sent.startswith(opened + ping) and channel.arrives == [b"more"]


def test_an_error_that_comes_behind_the_end_of_the_data_is_heard() -> None:
    end = spdy.data_frame(3, spdy.FIN, b"")
    for error in ([spdy.data_frame(1, spdy.FIN, b"refused")], []):
        channel = Bytes(end, *error)
        streams = spdy.SpdyStreams(channel, b"", (0,))
        streams.open(1, {}, Patience(1), half=True)
        streams.open(0, {}, Patience(1), half=False)
        assert [streams.recv(Patience(1)) for _ in error] == [(1, b"refused")] * len(error)
        assert streams.recv(Patience(1)) is None
        assert channel.sent.endswith(spdy.data_frame(3, spdy.FIN, b""))


def test_spdy_headers_can_be_read_as_they_come() -> None:
    channel = Bytes()
    streams = spdy.SpdyStreams(channel, b"", (0,))
    unpacker = zlib.decompressobj()
    for number, headers in enumerate(({"streamType": "error", "port": "80"}, {"streamType": "data"})):
        channel.sent = b""
        streams.open(number, headers, Patience(1), half=number == 0)
        frames = spdy.FrameParser().feed(channel.sent)
        assert frames[0][0] == spdy.SYN_STREAM and frames[0][3][:4] == struct.pack(">I", 2 * number + 1)
        block = unpacker.decompress(frames[0][3][10:])
        assert block[:4] == struct.pack(">I", len(headers)) and block[4:18] == struct.pack(">I", 10) + b"streamtype"
        assert frames[1:] == ([(0, 1, spdy.FIN, b"")] if number == 0 else [])
