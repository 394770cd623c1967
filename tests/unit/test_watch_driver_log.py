"""The driver's log from first to last byte: over outages, across attempts, into the copy on disk."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_cluster import FakeJobs
from waiting import wait_until

from kubectl_nrl.errors import ClusterError
from kubectl_nrl.script import encoded_line, launch_script
from kubectl_nrl.watch import DriverLog, LogCopy, Source, directory, read_record, shown
from kubectl_nrl.watch.log_place import OVERLAP
from kubectl_nrl.watch.log_view import LastLines, Shown, WandbPage

SOURCE = Source("r-abc", "r-abc", "id-1")


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
        wait_until(lambda: len(self.got) >= size)

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
    read = jobs.reads
    wait_until(lambda: jobs.reads > read + 3, "reads that find nothing new")
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
    wait_until(lambda: len(jobs.errors) < 1000, "a read that fails")
    assert not follower.finish()
    assert follower.log.end is not None
    assert "gone" in follower.log.end.why


def test_a_head_that_goes_after_the_drivers_end_was_read_is_no_loss() -> None:
    jobs = FakeJobs(b"some\n", status="SUCCEEDED")
    follower = Follower(jobs)
    follower.log.follow(SOURCE)
    follower.until(5)
    wait_until(lambda: follower.log._complete)
    jobs.errors = [ClusterError("gone", reason="Gone")] * 1000
    assert follower.finish()


def test_a_second_attempt_is_read_from_its_own_start(tmp_path: Path) -> None:
    copy = LogCopy.open(tmp_path / "id-1")
    jobs = FakeJobs(b"first attempt\n", status="FAILED")
    follower = Follower(jobs, copy)
    follower.log.follow(SOURCE)
    follower.until(14)
    wait_until(lambda: follower.log._complete)
    jobs.log, jobs.status = b"second\n", "RUNNING"
    follower.log.follow(Source("r-new", "r-new", "id-1"))
    follower.until(21)
    assert follower.finish()
    assert follower.got == b"first attempt\nsecond\n"
    assert (tmp_path / "id-1" / "driver.log").read_bytes() == b"second\n"
    assert (tmp_path / "id-1" / "driver.log.1").read_bytes() == b"first attempt\n"


def test_the_copy_is_the_resume_point(tmp_path: Path) -> None:
    folder = tmp_path / "id-1"
    jobs = FakeJobs(b"".join(b"line %d\n" % n for n in range(50)))
    size = len(jobs.log)
    first = Follower(jobs, LogCopy.open(folder))
    first.log.follow(SOURCE)
    first.until(size)
    first.log.stop()
    assert read_record(folder)["complete"] is False
    jobs.log += b"ghi\n"
    asked: list[int] = []
    chunk = jobs.log_chunk
    jobs.log_chunk = lambda sid, offset: (asked.append(offset), chunk(sid, offset))[1]  # type: ignore[method-assign]
    second = Follower(jobs, LogCopy.open(folder))
    second.log.follow(SOURCE)
    second.until(size + 4)
    assert second.finish()
    assert min(asked) == size - OVERLAP
    assert second.got == jobs.log
    assert (folder / "driver.log").read_bytes() == jobs.log
    assert read_record(folder)["complete"] is True


def test_a_log_that_was_cut_short_is_said_and_read_from_its_start(tmp_path: Path) -> None:
    jobs = FakeJobs(b"a long first log\n")
    follower = Follower(jobs, LogCopy.open(tmp_path / "id-1"))
    follower.log.follow(SOURCE)
    follower.until(17)
    jobs.log = b"short\n"
    follower.until(23)
    assert follower.finish()
    assert follower.got == b"a long first log\nshort\n"
    assert "reading it from its start" in follower.said[0] and len(follower.said) == 1
    assert (tmp_path / "id-1" / "driver.log.1").read_bytes() == b"a long first log\n"
    assert (tmp_path / "id-1" / "driver.log").read_bytes() == b"short\n"


def test_another_log_that_is_already_longer_is_not_taken_for_the_rest() -> None:
    jobs = FakeJobs(b"first log\n")
    follower = Follower(jobs)
    follower.log.follow(SOURCE)
    follower.until(10)
    jobs.log = b"another log, longer than the first\n"
    follower.until(10 + len(jobs.log))
    assert follower.finish()
    assert follower.got == b"first log\n" + jobs.log


def replaced(jobs: FakeJobs) -> None:
    """A new head that knows nothing of the job; the old one's connections broke."""
    jobs.life, jobs.log = "pod-2/0", b""
    unknown = ClusterError(
        "cannot read the log of Ray job id-1: Job id-1 does not exist", status=404, reason="NotFound"
    )
    jobs.errors = [ClusterError("cut", reason="ConnectionLost"), *[unknown] * 10_000]


def test_a_replaced_head_is_said_once_and_nothing_is_repeated(tmp_path: Path) -> None:
    jobs = FakeJobs(b"one\ntwo\n")
    follower = Follower(jobs, LogCopy.open(tmp_path / "id-1"))
    follower.log.follow(SOURCE)
    follower.until(8)
    replaced(jobs)
    wait_until(lambda: len(follower.connected) > 4)
    assert not follower.finish(), "the rest of that log will never come"
    assert follower.got == b"one\ntwo\n"
    assert follower.said == ["driver log: the head was replaced: Ray's job history and earlier log are lost"]
    assert follower.log.end is not None
    assert (follower.log.end.bytes, follower.log.end.why) == (8, follower.said[0].removeprefix("driver log: "))
    assert (tmp_path / "id-1" / "driver.log").read_bytes() == b"one\ntwo\n"


def test_a_connection_that_broke_before_a_known_and_an_unknown_life_is_the_same_head() -> None:
    jobs = FakeJobs(b"one\n")
    follower = Follower(jobs)
    follower.log.follow(SOURCE)
    follower.until(4)
    for life in ("", "pod-1/0"):
        jobs.life, jobs.errors = life, [ClusterError("cut", reason="ConnectionLost")]
        wait_until(lambda: not jobs.errors)
        jobs.log += b"more\n"
        follower.until(len(jobs.log))
    assert follower.finish()
    assert (follower.got, follower.said) == (jobs.log, [])


@pytest.mark.parametrize("again", ["one\ntwo\nthree\n", "x\n"])
def test_a_job_that_runs_again_on_a_new_head_is_shown_from_its_start(tmp_path: Path, again: str) -> None:
    """Also when its log begins as the old one did, and when this program was not running while it happened."""
    jobs = FakeJobs(b"one\ntwo\n")
    first = Follower(jobs, LogCopy.open(tmp_path / "id-1"))
    first.log.follow(SOURCE)
    first.until(8)
    first.log.stop()
    jobs.life, jobs.log = "pod-2/0", again.encode()
    second = Follower(jobs, LogCopy.open(tmp_path / "id-1"))
    second.log.follow(SOURCE)
    second.until(8 + len(again))
    assert second.finish()
    assert second.got == b"one\ntwo\n" + again.encode()
    assert ["head was replaced" in second.said[0], "started again" in second.said[1]] == [True, True]
    assert len(second.said) == 2
    assert (tmp_path / "id-1" / "driver.log").read_bytes() == again.encode()
    assert (tmp_path / "id-1" / "driver.log.1").read_bytes() == b"one\ntwo\n"


def test_an_api_server_that_is_away_is_left_to_say_to_who_watches_it() -> None:
    jobs = FakeJobs(b"one\n")
    follower = Follower(jobs)
    follower.log.follow(SOURCE)
    follower.until(4)
    jobs.errors = [ClusterError("cut", reason="ConnectionLost")] + [ClusterError("away", reason="Unreachable")] * 3
    jobs.log += b"two\n"
    follower.until(8)
    assert (follower.finish(), follower.said) == (True, [])


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
    wait_until(lambda: not jobs.errors)
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


class FullDisk:
    """A file that takes a few bytes and then no more, as a full disk does."""

    def __init__(self, fd: int, mode: str, room: int) -> None:
        self.file, self.room = io.FileIO(fd, mode), room

    def write(self, data: memoryview) -> int:
        if not self.room:
            raise OSError(28, "No space left on device")
        written = self.file.write(data[: self.room]) or 0
        self.room -= written
        return written

    def close(self) -> None:
        self.file.close()


def test_a_full_disk_costs_the_copy_and_not_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fitted is the log's beginning, so that the next one reads on there."""
    folder = tmp_path / "id-1"
    follower = Follower(FakeJobs(b"a\nb\nc\nd\ne\n"), LogCopy.open(folder))
    with monkeypatch.context() as patch:
        patch.setattr("kubectl_nrl.watch.log_copy.io", SimpleNamespace(FileIO=lambda fd, mode: FullDisk(fd, mode, 5)))
        follower.log.follow(SOURCE)
        follower.until(10)
        follower.jobs.log += b"f\n"
        follower.until(12)
        assert follower.finish()
    assert len(follower.said) == 1
    assert "No space" in follower.said[0]
    assert (folder / "driver.log").read_bytes() == b"a\nb\nc"
    assert not read_record(folder)["complete"]
    again = Follower(follower.jobs, LogCopy.open(folder))
    again.log.follow(SOURCE)
    assert again.finish()
    assert again.got == follower.jobs.log == (folder / "driver.log").read_bytes()


@pytest.mark.parametrize("call", ["note", "attempt", "put_aside"])
def test_a_copy_that_cannot_be_written_anywhere_never_stops_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    folder = tmp_path / "id-1"
    folder.mkdir()
    (folder / "driver.log").write_bytes(b"of another attempt\n")
    copy = LogCopy.open(folder)

    def full(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(LogCopy, call, full)
    follower = Follower(FakeJobs(b"a\nb\n"), copy)
    follower.log.follow(SOURCE)
    follower.until(4)
    assert follower.finish()
    assert follower.got == b"a\nb\n"
    assert [line.count("Read-only") for line in follower.said] == [1]


def test_two_who_follow_one_run_both_see_all_of_it_and_one_keeps_the_copy(tmp_path: Path) -> None:
    jobs = FakeJobs(b"".join(b"line %d\n" % n for n in range(300)))
    both = [Follower(jobs, LogCopy.open(tmp_path / "id-1")) for _ in range(2)]
    for follower in both:
        follower.log.follow(SOURCE)
    jobs.log += b"last\n"
    for follower in both:
        follower.until(len(jobs.log))
        assert follower.finish()
        assert follower.got == jobs.log
    assert (tmp_path / "id-1" / "driver.log").read_bytes() == jobs.log


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
    out = b"".join(shown(ECHO[i : i + size] for i in range(0, len(ECHO), size)))
    assert b"H4sI" not in out
    assert out == b"Runtime env is set up.\nRunning entrypoint for job id-1: (shown by kubectl nrl check)\nstep 1\n"


def test_the_echo_as_the_submitter_of_other_modes_quotes_it_is_not_shown() -> None:
    quoted = LINE.replace(b"'", b'"')
    assert b"".join(shown([b"Running entrypoint for job id-1: " + quoted + b"\nx\n"])) == (
        b"Running entrypoint for job id-1: (shown by kubectl nrl check)\nx\n"
    )


def test_an_echo_cut_off_at_the_end_is_not_shown_either() -> None:
    assert b"H4sI" not in b"".join(shown([b"Running entrypoint for job id-1: " + LINE[:60]]))


def test_a_plain_entrypoint_is_shown_and_bytes_pass_untouched_after_the_first_lines() -> None:
    plain = b"Running entrypoint for job x: python a.py\n"
    assert b"".join(shown([plain])) == plain
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
@pytest.mark.parametrize("size", [1, 2, 100])
def test_the_last_lines(data: bytes, lines: int, expected: bytes, size: int) -> None:
    last = LastLines(lines)
    for start in range(0, len(data), size):
        last.feed(data[start : start + size])
    assert last.take() == expected


def test_the_last_lines_of_a_long_log_take_no_more_memory_than_those_lines() -> None:
    last = LastLines(3)
    for number in range(10_000):
        last.feed(b"line %d\n" % number)
        assert len(last._pieces) <= 5
    assert last.take() == b"line 9997\nline 9998\nline 9999\n"
