"""Which request meets which fault, and the HTTP framing that the fault proxy relies on."""

from __future__ import annotations

import asyncio
import json

import pytest
from cluster.faults import Faults
from cluster.http_framing import Head, body, has_body, read_head


def test_faults_act_in_order_and_as_often_as_asked() -> None:
    faults = Faults()
    first, second = faults.answer(503, times=1), faults.answer(409, times=None, method="POST|PUT", path="rayjobs$")
    assert faults.meet("POST", "/ns/rayjobs") == [first]
    assert faults.meet("POST", "/ns/rayjobs") == [second]
    assert faults.meet("GET", "/ns/rayjobs") == []
    assert faults.meet("PUT", "/ns/rayjobs/x") == []
    assert (first.hits, second.hits) == (1, 1)


def test_latency_adds_up_and_joins_an_answer() -> None:
    faults = Faults()
    slow, slower, refused = faults.latency(0.1), faults.latency(0.2, times=1), faults.answer(500)
    assert faults.meet("GET", "/") == [slow, slower, refused]
    assert faults.meet("GET", "/") == [slow]
    faults.clear()
    assert faults.meet("GET", "/") == []


def test_answers_are_status_objects() -> None:
    head, _, payload = Faults().answer(429, retry_after=5).answer().decode().partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 429 TooManyRequests\r\n")
    assert "Retry-After: 5" in head
    status = json.loads(payload)
    assert (status["kind"], status["code"], status["details"]) == ("Status", 429, {"retryAfterSeconds": 5})


def read(raw: bytes) -> tuple[Head | None, bytes, bytes]:
    async def run() -> tuple[Head | None, bytes, bytes]:
        reader = asyncio.StreamReader()
        reader.feed_data(raw)
        reader.feed_eof()
        head = await read_head(reader)
        passed = b"".join([piece async for piece in body(reader, head)]) if head else b""
        return head, passed, await reader.read()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("headers", "framed"),
    [
        (b"Content-Length: 5\r\n", b"hello"),
        (b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n3;x=y\r\nyou\r\n0\r\n\r\n"),
        (b"Transfer-Encoding: chunked\r\n", b"0\r\nTrailer: x\r\n\r\n"),
    ],
)
def test_a_body_ends_where_its_framing_says(headers: bytes, framed: bytes) -> None:
    head, passed, rest = read(b"HTTP/1.1 200 OK\r\n" + headers + b"\r\n" + framed + b"HTTP/1.1 next")
    assert head
    assert (passed, rest) == (framed, b"HTTP/1.1 next")


@pytest.mark.parametrize("cut", [b"Content-Length: 5\r\n\r\nhel", b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel"])
def test_a_body_that_breaks_off_is_an_error(cut: bytes) -> None:
    with pytest.raises(asyncio.IncompleteReadError):
        read(b"HTTP/1.1 200 OK\r\n" + cut)


def test_heads_keep_their_headers() -> None:
    raw = b"GET /a?b=c HTTP/1.1\r\nHost: x:1\r\nAuthorization: Bearer t\r\nX-A: 1\r\nX-A: 2\r\n\r\n"
    head, _, _ = read(raw)
    assert head
    assert head.encode() == raw
    assert head.get("authorization") == "Bearer t"
    assert b"Bearer" not in head.without("Authorization").encode()
    assert read(b"")[0] is None


def test_which_messages_have_bodies() -> None:
    get, head = Head("GET / HTTP/1.1", []), Head("HEAD / HTTP/1.1", [])
    assert not has_body(get)
    assert has_body(Head("POST / HTTP/1.1", [("Content-Length", "2")]))
    assert has_body(get, Head("HTTP/1.1 200 OK", []))
    assert not has_body(head, Head("HTTP/1.1 200 OK", [("Content-Length", "2")]))
    assert not has_body(get, Head("HTTP/1.1 304 Not Modified", []))
