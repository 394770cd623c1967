"""The driver's log from first to last byte: over outages, across attempts, into the copy on disk."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_cluster import FakeJobs

from kubectl_nrl.errors import ClusterError
from kubectl_nrl.script import encoded_line, launch_script
from kubectl_nrl.watch import DriverLog, LogCopy, Source, directory, read_record, shown, tail
from kubectl_nrl.watch.log_view import Shown, WandbPage

SOURCE = Source("r-abc", "r-abc", "id-1")


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


class Follower:
    def __init__(self, jobs: FakeJobs, copy: LogCopy | None = None) -> None:
        self.jobs, self.got, self.said, self.pages, self.connected = jobs, b"", [], [], []  # type: ignore[var-annotated]
        self.log = DriverLog(
            self.connect, self.sink, copy=copy, say=self.said.append, wandb=self.pages.append, poll=0.01
        )

    def connect(self, cluster: str) -> FakeJobs:
        self.connected.append(cluster)
        return self.jobs

    def sink(self, data: bytes) -> None:
        self.got += data

    def until(self, size: int) -> None:
        wait_for(lambda: len(self.got) >= size)

    def finish(self, patience: float = 60.0) -> bool:
        self.log.finish(patience)
        end = self.log.join(60)
        assert end is not None
        return end.complete


def test_every_byte_once_in_order_while_the_log_grows() -> None:
    jobs = FakeJobs(b"one\n")
    follower = Follower(jobs)
    follower.log.follow(SOURCE)
    follower.until(4)
    jobs.log += b"two\n\xff\xfe not text\n"
    follower.until(len(jobs.log))
    jobs.log += b"last words without a newline"
    assert follower.finish()
    assert follower.got == jobs.log


def test_an_outage_repeats_and_loses_nothing() -> None:
    jobs = FakeJobs(b"".join(b"line %d\n" % n for n in range(50)))
    jobs.errors = [ClusterError("cut"), ClusterError("cut")]
    follower = Follower(jobs)
    follower.log.follow(SOURCE)
    follower.until(60)
    jobs.errors = [ClusterError("cut again")] * 3
    assert follower.finish()
    assert follower.got == jobs.log
    assert len(follower.connected) >= 3


def test_the_end_of_the_stream_is_not_the_end_of_the_log() -> None:
    jobs = FakeJobs(b"early\n")
    follower = Follower(jobs)
    follower.log.follow(SOURCE)
    follower.until(6)
    time.sleep(0.1)
    assert follower.log.end is None
    jobs.log += b"late\n"
    follower.until(11)
    assert follower.finish()


def test_a_head_that_goes_before_the_end_was_read_is_said() -> None:
    jobs = FakeJobs(b"some\n")
    follower = Follower(jobs)
    follower.log.follow(SOURCE)
    follower.until(5)
    jobs.errors = [ClusterError("the Ray cluster r-abc is gone", reason="Gone")] * 1000
    time.sleep(0.05)
    assert not follower.finish()
    assert follower.log.end is not None
    assert "gone" in follower.log.end.why


def test_a_head_that_goes_after_the_drivers_end_was_read_is_no_loss() -> None:
    jobs = FakeJobs(b"some\n", status="SUCCEEDED")
    follower = Follower(jobs)
    follower.log.follow(SOURCE)
    follower.until(5)
    wait_for(lambda: follower.log._driver_over)
    jobs.errors = [ClusterError("gone", reason="Gone")] * 1000
    assert follower.finish()


def test_a_second_attempt_is_read_from_its_own_start(tmp_path: Path) -> None:
    copy = LogCopy.open(tmp_path / "id-1")
    jobs = FakeJobs(b"first attempt\n", status="FAILED")
    follower = Follower(jobs, copy)
    follower.log.follow(SOURCE)
    follower.until(14)
    wait_for(lambda: follower.log._driver_over)
    jobs.log, jobs.status = b"second\n", "RUNNING"
    follower.log.follow(Source("r-new", "r-new", "id-1"))
    follower.until(21)
    assert follower.finish()
    assert follower.got == b"first attempt\nsecond\n"
    assert (tmp_path / "id-1" / "driver.log").read_bytes() == b"second\n"
    assert (tmp_path / "id-1" / "driver.log.1").read_bytes() == b"first attempt\n"


def test_the_copy_is_the_resume_point(tmp_path: Path) -> None:
    folder = tmp_path / "id-1"
    jobs = FakeJobs(b"abc\ndef\n")
    first = Follower(jobs, LogCopy.open(folder))
    first.log.follow(SOURCE)
    first.until(8)
    first.log.stop()
    assert read_record(folder)["complete"] is False
    jobs.log += b"ghi\n"
    asked: list[int] = []
    chunk = jobs.log_chunk
    jobs.log_chunk = lambda sid, offset: (asked.append(offset), chunk(sid, offset))[1]  # type: ignore[method-assign]
    second = Follower(jobs, LogCopy.open(folder))
    second.log.follow(SOURCE)
    second.until(12)
    assert second.finish()
    assert min(asked) == 8
    assert second.got == b"abc\ndef\nghi\n"
    assert (folder / "driver.log").read_bytes() == jobs.log
    assert read_record(folder)["complete"] is True


def test_a_replaced_heads_log_is_another_attempt(tmp_path: Path) -> None:
    jobs = FakeJobs(b"a long first log\n")
    follower = Follower(jobs, LogCopy.open(tmp_path / "id-1"))
    follower.log.follow(SOURCE)
    follower.until(17)
    jobs.errors, jobs.log = [ClusterError("the head was replaced", reason="LogReplaced")], b"short\n"
    follower.until(23)
    assert follower.finish()
    assert follower.got == b"a long first log\nshort\n"
    assert (tmp_path / "id-1" / "driver.log.1").read_bytes() == b"a long first log\n"


def test_a_refusal_is_said_at_once_and_only_once() -> None:
    jobs = FakeJobs(b"")
    jobs.errors = [ClusterError("you may not create pods/portforward", status=403)] * 2
    follower = Follower(jobs)
    pauses: list[float] = []
    follower.log._pause = pauses.append  # type: ignore[method-assign]
    jobs.log = b"x\n"
    follower.log.follow(SOURCE)
    follower.until(2)
    assert pauses[:2] == [30.0, 30.0]
    assert len(follower.said) == 1
    assert "watched without it" in follower.said[0]
    follower.log.stop()


def test_a_log_that_has_not_begun_is_no_news() -> None:
    jobs = FakeJobs(b"")
    jobs.errors = [ClusterError("no running head pod", reason="NoHead")] * 5
    follower = Follower(jobs)
    follower.log.follow(SOURCE)
    wait_for(lambda: not jobs.errors)
    jobs.log = b"x\n"
    follower.until(2)
    assert follower.finish()
    assert follower.said == []


def test_the_copy_is_for_its_owner_only_and_has_one_writer(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "id-1"
    copy = LogCopy.open(folder)
    assert copy is not None
    copy.attempt("r-abc")
    copy.append(b"x")
    assert LogCopy.open(folder) is None
    copy.close()
    assert (folder / "driver.log").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    again = LogCopy.open(folder)
    assert again is not None
    again.close()


def test_a_full_disk_costs_the_copy_and_not_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = LogCopy.open(tmp_path / "id-1")
    assert copy is not None

    def full(data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(copy, "append", full)
    follower = Follower(FakeJobs(b"a\nb\nc\nd\ne\n"), copy)
    follower.log.follow(SOURCE)
    follower.until(10)
    assert follower.finish()
    assert len(follower.said) == 1
    assert "No space" in follower.said[0]


def test_a_closed_pipe_reaches_the_thread_that_waits() -> None:
    follower = Follower(FakeJobs(b"a\n"))

    def closed(data: bytes) -> None:
        raise BrokenPipeError

    follower.log._sink = closed
    follower.log.follow(SOURCE)
    follower.log.join(60)
    assert isinstance(follower.log.failure, BrokenPipeError)


@pytest.mark.parametrize("run_id", ["../x", ".hidden", "a/b", "a\0b"])
def test_no_id_leads_out_of_the_state_directory(run_id: str) -> None:
    with pytest.raises(ValueError):
        directory(run_id, {"HOME": "/h"})


def test_the_state_directory_is_the_xdg_one() -> None:
    assert directory("id", {"XDG_STATE_HOME": "/s"}) == Path("/s/kubectl-nrl/runs/id")
    assert directory("id", {"HOME": "/h", "XDG_STATE_HOME": "rel"}) == Path("/h/.local/state/kubectl-nrl/runs/id")


def test_a_damaged_record_is_none(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{")
    assert read_record(tmp_path) == {}
    (tmp_path / "run.json").write_text(json.dumps([1]))
    assert read_record(tmp_path) == {}


LINE = encoded_line("id-1", launch_script("echo step 1", run_id="id-1", recipe="a: 1\n")).encode()
ECHO = b"Runtime env is set up.\nRunning entrypoint for job id-1: " + LINE + b"\nstep 1\n"


@pytest.mark.parametrize("size", [1, 3, 50, 1000])
def test_the_encoded_line_is_never_shown(size: int) -> None:
    out = shown(ECHO[i : i + size] for i in range(0, len(ECHO), size))
    assert b"H4sI" not in out
    assert out == b"Runtime env is set up.\nRunning entrypoint for job id-1: (shown by kubectl nrl check)\nstep 1\n"


def test_the_echo_as_the_submitter_of_other_modes_quotes_it_is_not_shown() -> None:
    quoted = LINE.replace(b"'", b'"')
    assert shown([b"Running entrypoint for job id-1: " + quoted + b"\nx\n"]) == (
        b"Running entrypoint for job id-1: (shown by kubectl nrl check)\nx\n"
    )


def test_an_echo_cut_off_at_the_end_is_not_shown_either() -> None:
    assert b"H4sI" not in shown([b"Running entrypoint for job id-1: " + LINE[:60]])


def test_a_plain_entrypoint_is_shown_and_bytes_pass_untouched_after_the_first_lines() -> None:
    assert shown([b"Running entrypoint for job x: python a.py\n"]) == b"Running entrypoint for job x: python a.py\n"
    view = Shown()
    view.feed(b"x\n" * 250)
    assert view.feed(b"50%\r") == b"50%\r"


def test_the_wandb_page_is_found_across_chunks_and_once() -> None:
    page = WandbPage()
    text = b"\x1b[34mwandb\x1b[0m: View run at \x1b[4mhttps://wandb.ai/team/proj/runs/ab12cd\x1b[0m\nwandb: https://wandb.ai/t/p/runs/second\n"
    found = [page.feed(text[i : i + 5]) for i in range(0, len(text), 5)]
    assert [f for f in found if f] == ["https://wandb.ai/team/proj/runs/ab12cd"]


@pytest.mark.parametrize(
    ("data", "lines", "expected"),
    [
        (b"a\nb\nc\n", 2, b"b\nc\n"),
        (b"a\nb\nc", 1, b"c"),
        (b"a\nb\n", 5, b"a\nb\n"),
        (b"a\nb\n", 0, b""),
        (b"a\nb\n", -1, b"a\nb\n"),
        (b"1\r2\r3\nb\n", 2, b"1\r2\r3\nb\n"),
        (b"", 3, b""),
    ],
)
def test_tail(data: bytes, lines: int, expected: bytes) -> None:
    assert tail(data, lines) == expected
