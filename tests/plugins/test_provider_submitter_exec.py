"""The submitter by exec over a head that is handed in: what it asks, and what it makes of the answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from context import RUN, context
from nrl_plugins.code_image import ImageCode
from nrl_plugins.code_upload import UploadCode
from nrl_plugins.submitter_exec import ExecSubmitter

from kubectl_nrl.api import RunInfo, Submission
from kubectl_nrl.errors import ClusterError

PLACED = RunInfo(RUN.id, RUN.time, RUN.user, f"/tmp/nrl-{RUN.user.name}/{RUN.id}")


class Jobs:
    """A head that answers in turn, the last for ever."""

    life = "1"

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked, self.sent = list(answers), list[list[str]](), b""

    def run(self, command: Sequence[str], stdin: bytes = b"", timeout: float = 30.0) -> tuple[int, bytes, bytes]:
        self.asked.append(list(command[4:]))
        self.sent = stdin
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, ClusterError):
            raise answer
        return (0, answer, b"")

    @property
    def waits(self) -> list[int]:
        """The turns that each read of the log waits on the head."""
        return [int(words[4]) for words in self.asked if words[1] == "look" and words[3] != "0"]


class There:
    def __init__(self, jobs: Jobs) -> None:
        self.namespace, self.jobs, self.cluster = "ns", jobs, None


def running(size: int = 0, log: bytes = b"") -> bytes:
    return b"nrl1 running - - %d - - -\n" % size + log


def test_it_sends_the_script_whole_and_ray_is_told_whose_it_is() -> None:
    jobs = Jobs(running())
    submission = Submission("line", "echo 'it runs'\n", metadata={"user": "jdoe", "kubectl-nrl/run": RUN.id})
    ExecSubmitter().submit(PLACED, There(jobs), submission)
    (asked,) = jobs.asked
    assert asked[0] == PLACED.place
    assert len(jobs.sent) == int(asked[1])
    script = jobs.sent[int(asked[2]) :].decode()
    config, rest = script.split("\n", 1)
    assert rest == submission.script
    assert json.loads(config.partition("=")[2].strip("'")) == {"metadata": dict(submission.metadata)}


def test_a_run_is_kept_below_the_directory_that_was_asked_for() -> None:
    place = ExecSubmitter().place(RUN, Submission("line", "script", tmp_dir="/scratch/"))
    assert place == f"/scratch/nrl-{RUN.user.name}/{RUN.id}"


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        (b"nrl1 absent - - - - - -\n", "UNKNOWN", "does not know"),
        (b"nrl1 staged - - 0 - - -\n", "UNKNOWN", "was not started"),
        (b"nrl1 running - - 3 - - -\n", "RUNNING", ""),
        (b"nrl1 stopping - - 3 stop - -\n", "RUNNING", "asked to end"),
        (b"nrl1 ended 0 9 3 - - -\n", "SUCCEEDED", ""),
        (b"nrl1 ended 0 9 3 - - 17 18\n", "SUCCEEDED", "2 of the processes that it started still run (pid 17, 18)"),
        (b"nrl1 ended 0 9 3 stop - -\n", "STOPPED", ""),
        (b"nrl1 ended 1 9 3 - full -\n", "FAILED", "exit status 1; the disk of the head is full"),
        (b"nrl1 gone - - 3 - - -\n", "FAILED", "left no exit status"),
        (b"nrl1 gone - - 3 stop - -\n", "STOPPED", ""),
        (b"nrl1 restarted - - 3 - - -\n", "FAILED", "started anew"),
        (b"junk of a profile\nnrl1 ended 0 9 3 - - -\n", "SUCCEEDED", ""),
    ],
)
def test_what_the_head_says_in_rays_words(answer: bytes, status: str, said: str) -> None:
    state = ExecSubmitter().state(PLACED, There(Jobs(answer)))
    assert state.status == status
    assert said in state.message if said else not state.message


@pytest.mark.parametrize("cut", [b"", b"nrl1 run", b"nrl1 running - - 3 - - -", b"nothing of the kind\n"])
def test_an_answer_that_broke_off_is_a_lost_connection(cut: bytes) -> None:
    with pytest.raises(ClusterError) as caught:
        ExecSubmitter().state(PLACED, There(Jobs(cut)))
    assert caught.value.reason == "ConnectionLost"


def test_a_reader_waits_on_the_head_once_there_is_nothing_new_and_the_state_is_then_not_asked_for() -> None:
    submitter, jobs = ExecSubmitter(), Jobs(running(3, b"abc"), running(3))
    there = There(jobs)

    def read(offset: int) -> bytes:
        return next(iter(submitter.logs(PLACED, there, follow=False, offset=offset)), b"")

    assert (read(0), read(3), read(3)) == (b"abc", b"", b"")
    first, second, third = jobs.waits
    assert (first, second, third > 0) == (0, 0, True)
    asked = len(jobs.asked)
    assert submitter.state(PLACED, there).status == "RUNNING"
    assert len(jobs.asked) == asked


def test_the_state_is_asked_for_where_no_reader_waits_and_after_a_reader_lost_its_connection() -> None:
    lost = ClusterError("lost", reason="ConnectionLost")
    submitter, jobs = ExecSubmitter(), Jobs(running(), running(), lost, b"nrl1 ended 0 9 0 - - -\n")
    there = There(jobs)
    for _ in range(2):
        next(iter(submitter.logs(PLACED, there, follow=False, offset=0)), b"")
    with pytest.raises(ClusterError):
        submitter._read(PLACED, there, 0)
    assert submitter.state(PLACED, there).status == "SUCCEEDED"


def test_following_ends_with_the_driver_and_its_last_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nrl_plugins.submitter_exec.PAUSE", 0.0)
    ended = b"nrl1 ended 0 9 5 - - -\n"
    lost = ClusterError("lost", reason="Unreachable")
    jobs = Jobs(running(), running(3, b"abc"), lost, ended, ended + b"de", ended, ended)
    assert b"".join(ExecSubmitter().logs(PLACED, There(jobs), follow=True, offset=0)) == b"abcde"


def test_a_refused_exec_names_the_way_out() -> None:
    jobs = Jobs(ClusterError("cannot exec: forbidden", status=403))
    with pytest.raises(ClusterError, match="nothing was started") as caught:
        ExecSubmitter().submit(PLACED, There(jobs), Submission("line", "script"))
    assert "--submitter portForward" in caught.value.hint


def test_a_stop_of_a_driver_that_the_head_does_not_know_is_an_error() -> None:
    with pytest.raises(ClusterError) as caught:
        ExecSubmitter().stop(PLACED, There(Jobs(b"nrl1 absent - - - - - -\n")))
    assert caught.value.reason == "NotFound"


@pytest.mark.parametrize(("force", "signals"), [(False, ["TERM"]), (True, ["KILL"])])
def test_force_kills_at_once(force: bool, signals: list[str]) -> None:
    jobs = Jobs(b"nrl1 ended 143 9 5 stop - -\n")
    ExecSubmitter().stop(PLACED, There(jobs), force=force)
    assert [words[2] for words in jobs.asked if words[1] == "stop"] == signals


def test_it_starts_the_code_that_is_on_the_pod_only() -> None:
    ctx = context({})
    assert "--code-source image or lustre" in str(ExecSubmitter().refuses(UploadCode(), ctx))
    assert ExecSubmitter().refuses(ImageCode(), ctx) is None


@pytest.mark.parametrize(("directory", "wrong"), [("/tmp", 0), ("tmp", 1), ("~/tmp", 1)])
def test_the_directory_on_the_head_is_an_absolute_path(directory: str, wrong: int) -> None:
    assert len(list(ExecSubmitter().problems(context({"submit": {"execTmpDir": directory}})))) == wrong


@pytest.mark.parametrize("number", [b"9" * 5000, b"999999999999999", b"-1", b"x", b"\xb2"])
@pytest.mark.parametrize("place", range(3))
def test_an_absurd_number_in_an_answer_is_not_known(place: int, number: bytes) -> None:
    """Status, time and size are what programs of the image say."""
    words = [b"0", b"1700000000", b"3"]
    words[place] = number
    state = ExecSubmitter().state(PLACED, There(Jobs(b"nrl1 ended %s %s %s - - -\n" % tuple(words))))
    assert state.status in ("SUCCEEDED", "FAILED")
    assert (state.ended is None) == (place == 1)
