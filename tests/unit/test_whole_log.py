"""A log of which only the whole can be had: read piece by piece, each byte once, in memory that does not grow with it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_server import Asked, Server, answer

from kubectl_nrl.ray_jobs import whole_log
from kubectl_nrl.ray_jobs.json_text import JsonText
from kubectl_nrl.ray_jobs.whole_log import Shorter, WholeLog

#: What makes escapes, halves of characters, and what only looks like them.
TEXT = st.lists(st.sampled_from([*'a"\\/u\n\r\t\x00\x1b\u00e9\u20ac\U0001f600', "\\ud83d"]), max_size=30).map("".join)


@given(TEXT, st.booleans(), st.lists(st.integers(1, 9), min_size=1))
def test_a_text_comes_out_as_it_went_in_wherever_its_bytes_are_cut(text: str, plain: bool, sizes: list[int]) -> None:
    data, reader, got, at = json.dumps({"logs": text}, ensure_ascii=plain).encode(), JsonText(), b"", 0
    for number in range(len(data)):
        size = sizes[number % len(sizes)]
        got += reader.feed(data[at : at + size])
        at += size
    assert (got, reader.ended) == (text.encode(), True)


@pytest.mark.parametrize("data", [b'{"logs": null}', b' {"logs" : ""} ', b'{"logs":"","more":"\\'])
def test_a_text_may_be_empty_or_missing(data: bytes) -> None:
    reader = JsonText()
    assert (reader.feed(data), reader.ended) == (b"", True)


@pytest.mark.parametrize("data", [b"<html>" + b" " * 300, b'{"logs": "\\x"}', b'{"logs": "\xff"}', b"[" * 300])
def test_what_is_no_such_text_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        JsonText().feed(data)


class Log:
    """A log that grows; each answer is what it was when that was asked for."""

    def __init__(self, data: bytes) -> None:
        self.data, self.asked = data, 0
        self.whole = WholeLog(self.ask)

    def ask(self) -> Iterator[bytes]:
        self.asked += 1
        data = self.data
        for at in range(0, len(data), 7):
            yield data[at : at + 7]


@given(st.binary(max_size=200), st.integers(1, 30), st.integers(0, 200))
def test_one_answer_serves_all_reads_up_to_its_end(data: bytes, limit: int, begin: int) -> None:
    log, at = Log(data), min(begin, len(data))
    got = b""
    while piece := log.whole.read(at + len(got), limit):
        got += piece
    assert got == data[at:]
    assert log.asked <= 2


@pytest.mark.parametrize("again", [0, 3])
def test_that_nothing_more_is_there_is_never_said_of_an_old_answer(again: int) -> None:
    """With `again` bytes that a reader asks for once more each time."""
    log = Log(b"0123456789")
    assert log.whole.read(0, 5) == b"01234"
    log.data += b"abc"
    assert log.whole.read(5 - again, 5 + again)[again:] == b"56789"
    assert log.whole.read(10 - again, 5 + again)[again:] == b"abc"
    assert log.whole.read(13 - again, 5 + again)[again:] == b""
    log.data += b"d"
    assert log.whole.read(13 - again, 5 + again)[again:] == b"d"


def test_a_log_that_is_shorter_than_it_was_says_how_long_it_is() -> None:
    log = Log(b"0123456789")
    assert log.whole.read(0, 10) == b"0123456789"
    log.data = b"new"
    with pytest.raises(Shorter) as caught:
        log.whole.read(10, 5)
    assert caught.value.size == 3
    assert log.whole.read(0, 5) == b"new"


def test_an_answer_that_breaks_is_not_taken_for_the_rest() -> None:
    data, answers = b"0123456789" * 3, 0

    def ask() -> Iterator[bytes]:
        nonlocal answers
        answers += 1
        yield data[:7]
        if answers == 1:
            raise ConnectionError("cut")
        yield data[7:]

    whole = WholeLog(ask)
    with pytest.raises(ConnectionError):
        whole.read(0, 20)
    assert whole.read(0, 20) == data[:20]


def test_a_long_answer_is_not_asked_for_without_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept = [0.0], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(whole_log.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(whole_log.time, "sleep", sleep)

    def slow() -> Iterator[bytes]:
        now[0] += 3.0
        yield b"x" * 7

    whole = WholeLog(slow)
    whole.read(0, 10)
    now[0] += 1.0
    whole.read(7, 10)
    assert slept == [0.0, 5.0]


#: Reads a log by the Jobs API alone to its end, and tells its bytes and by how many the most memory that it held has grown.
READER = """
import re, sys
from kubectl_nrl.cluster.dial import Address
from kubectl_nrl.cluster.port_requests import PortRequests
from kubectl_nrl.ray_jobs import Head, RayJobs

def most():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024

port = PortRequests(
    Address("127.0.0.1", int(sys.argv[1])).dial, "connect", "here", "here", lambda text: None, connect_timeout=60.0
)
jobs, size, before = RayJobs(Head(port)), 0, 0
while True:
    data = jobs.log_chunk("big", max(0, size - 64))
    before = before or most()
    fresh = len(data) - min(64, size)
    if not fresh:
        break
    size += fresh
jobs.close()
print(size, most() - before)
"""


def test_a_big_log_from_the_jobs_api_takes_no_more_memory_than_its_first_piece() -> None:
    log = ("x" * 90 + ' "\u00e9" \\ \n') * 700_000
    reply = answer(200, {"logs": log})

    def serve(asked: Asked) -> bytes:
        assert asked.target == "/api/jobs/big/logs"
        return reply

    with Server(serve) as server:
        child = subprocess.run(
            [sys.executable, "-c", READER, str(server.port)], capture_output=True, text=True, check=False
        )
        answers = len(server.asked)
    assert child.returncode == 0, child.stderr
    size, grown = map(int, child.stdout.split())
    assert size == len(log.encode())
    assert grown < 16 * 1024 * 1024
    assert answers == 2
