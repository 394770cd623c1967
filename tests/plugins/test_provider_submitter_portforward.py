"""The submitter of long-lived clusters over a Jobs API that is handed in."""

from __future__ import annotations

from typing import Any

import pytest
from context import RUN
from nrl_plugins.submitter_portforward import PortForwardSubmitter

from kubectl_nrl.api import Staged, State, Submission
from kubectl_nrl.errors import ClusterError

SUBMITTER = PortForwardSubmitter()


class Jobs:
    def __init__(self, *states: Any, log: bytes = b"") -> None:
        self.states, self.log, self.asked = list(states), log, list[Any]()

    def submit(self, *args: Any, **words: Any) -> bool:
        self.asked.append((args, words))
        return True

    def get(self, submission_id: str) -> dict[str, Any] | None:
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(state, ClusterError):
            raise state
        return None if state is None else {"status": state, "message": "so"}

    def log_chunk(self, submission_id: str, offset: int) -> bytes:
        return self.log[offset : offset + 2]

    def stop(self, submission_id: str) -> bool:
        self.asked.append(("stop", submission_id))
        return True


class There:
    def __init__(self, jobs: Jobs) -> None:
        self.namespace, self.jobs, self.cluster = "ns", jobs, None


def test_it_submits_the_line_under_the_runs_id_with_the_staged_code() -> None:
    jobs = Jobs(None)
    SUBMITTER.submit(RUN, There(jobs), Submission("line", "script", Staged("gcs://x.zip"), {"user": "jdoe"}))
    (asked,) = jobs.asked
    assert asked == (
        ("line", RUN.id), {"runtime_env": {"working_dir": "gcs://x.zip"}, "metadata": {"user": "jdoe"}},
    )  # fmt: skip


def test_without_staged_code_ray_gets_no_working_directory() -> None:
    jobs = Jobs(None)
    SUBMITTER.submit(RUN, There(jobs), Submission("line", "script"))
    assert jobs.asked[0][1]["runtime_env"] == {}


@pytest.mark.parametrize(
    ("job", "state"), [("RUNNING", State("RUNNING", "so")), (None, State("UNKNOWN", "Ray does not know this job"))]
)
def test_a_job_that_ray_forgot_is_unknown(job: Any, state: State) -> None:
    assert SUBMITTER.state(RUN, There(Jobs(job))) == state


def test_following_reads_what_came_last_and_takes_an_outage_for_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nrl_plugins.submitter_portforward.PAUSE", 0.0)
    jobs = Jobs(
        "RUNNING", ClusterError("away", reason="ConnectionLost"), "RUNNING", "RUNNING", "SUCCEEDED", log=b"abcde"
    )
    assert b"".join(SUBMITTER.logs(RUN, There(jobs), follow=True, offset=1)) == b"bcde"


def test_it_stops_by_the_runs_id() -> None:
    jobs = Jobs("RUNNING")
    SUBMITTER.stop(RUN, There(jobs))
    assert jobs.asked == [("stop", RUN.id)]
