"""The submitter of local runs: what it asks of the connection, and when a log is over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from context import RUN
from nrl_plugins import submitter_local
from nrl_plugins.submitter_local import LocalSubmitter

from kubectl_nrl.api import State, Submission

SUBMITTER = LocalSubmitter()


@dataclass
class Jobs:
    """Jobs of this machine: each look at the state takes the next of `states`, each of `chunks` comes before one."""

    states: list[str] = field(default_factory=lambda: ["RUNNING"])
    chunks: list[bytes] = field(default_factory=list)
    asked: list[tuple[Any, ...]] = field(default_factory=list)

    def submit(self, submission_id: str) -> None:
        self.asked.append(("submit", submission_id))

    def get(self, submission_id: str) -> dict[str, str] | None:
        status = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return {"status": status, "message": "so"} if status else None

    def log_chunk(self, submission_id: str, offset: int) -> bytes:
        self.asked.append(("log", offset))
        return self.chunks.pop(0) if self.chunks else b""

    def stop(self, submission_id: str) -> bool:
        self.asked.append(("stop", submission_id))
        return True


class Here:
    def __init__(self, jobs: Jobs) -> None:
        self.namespace, self.jobs, self.cluster = "", jobs, None


def test_it_submits_and_stops_by_the_runs_id() -> None:
    jobs = Jobs()
    assert SUBMITTER.submit(RUN, Here(jobs), Submission("", "script")) is RUN
    SUBMITTER.stop(RUN, Here(jobs))
    assert jobs.asked == [("submit", RUN.id), ("stop", RUN.id)]


def test_the_state_is_that_of_the_job() -> None:
    assert SUBMITTER.state(RUN, Here(Jobs(["FAILED"]))) == State("FAILED", "so")
    assert SUBMITTER.state(RUN, Here(Jobs([""]))).status == "UNKNOWN"


def test_a_log_that_is_not_followed_is_what_there_is() -> None:
    jobs = Jobs(chunks=[b"one", b"two"])
    assert list(SUBMITTER.logs(RUN, Here(jobs), follow=False, offset=5)) == [b"one", b"two"]
    assert jobs.asked == [("log", 5), ("log", 8), ("log", 11)]


def test_a_followed_log_is_read_once_more_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submitter_local, "PAUSE", 0)
    jobs = Jobs(["RUNNING", "RUNNING", "SUCCEEDED"], [b"a", b"", b"last"])
    assert list(SUBMITTER.logs(RUN, Here(jobs), follow=True, offset=0)) == [b"a", b"last"]
