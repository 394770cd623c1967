"""How a RayJob's two status fields become one end: the table that no other code may second-guess."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from kubectl_nrl.errors import ExitCode
from kubectl_nrl.rayjob_state import describe, duration, outcome, span


@pytest.mark.parametrize(
    ("deployment", "job", "reason", "code"),
    [
        ("Complete", "SUCCEEDED", "", ExitCode.OK),
        ("Complete", "FAILED", "AppFailed", ExitCode.FAILED),
        ("Complete", "STOPPED", "", ExitCode.STOPPED),
        ("Complete", "", "", ExitCode.FAILED),
        ("Complete", "SOMETHING_NEW", "", ExitCode.FAILED),
        ("Failed", "FAILED", "AppFailed", ExitCode.FAILED),
        ("Failed", "RUNNING", "DeadlineExceeded", ExitCode.FAILED),
        ("Failed", "SUCCEEDED", "DeadlineExceeded", ExitCode.FAILED),
        ("Failed", "", "PreRunningDeadlineExceeded", ExitCode.FAILED),
        ("Failed", "", "SubmissionFailed", ExitCode.FAILED),
        ("ValidationFailed", "", "ValidationFailed", ExitCode.CLUSTER),
    ],
)
def test_final_states(deployment: str, job: str, reason: str, code: ExitCode) -> None:
    end = outcome({"jobDeploymentStatus": deployment, "jobStatus": job, "reason": reason, "message": "why"})
    assert end is not None
    assert end.exit_code is code
    assert end.message == "why"


@pytest.mark.parametrize("job", ["", "PENDING", "RUNNING"])
def test_what_is_over_is_not_called_by_a_word_for_what_runs(job: str) -> None:
    end = outcome({"jobDeploymentStatus": "Complete", "jobStatus": job})
    assert end is not None
    assert (end.state, end.exit_code) == ("UNKNOWN", ExitCode.FAILED)


@pytest.mark.parametrize(
    ("deployment", "job"),
    [
        ("", ""),
        ("Initializing", ""),
        ("Running", "PENDING"),
        ("Running", "RUNNING"),
        # Ray is done, KubeRay has not closed the run: a retry (backoffLimit) may follow.
        ("Running", "SUCCEEDED"),
        ("Running", "FAILED"),
        ("Waiting", ""),
        ("Retrying", "FAILED"),
        ("Suspending", "RUNNING"),
        ("Suspended", ""),
        ("FromAFutureKubeRay", "RUNNING"),
    ],
)
def test_states_that_go_on(deployment: str, job: str) -> None:
    status = {"jobDeploymentStatus": deployment, "jobStatus": job}
    assert outcome(status) is None
    assert describe(status)


def test_no_status_at_all_is_not_an_end() -> None:
    assert outcome({}) is None
    assert describe({}) == "Created: accepted, KubeRay has not looked at it yet"


def test_reason_is_part_of_the_words_and_of_the_description() -> None:
    status = {"jobDeploymentStatus": "Failed", "jobStatus": "RUNNING", "reason": "DeadlineExceeded"}
    end = outcome(status)
    assert end is not None
    assert end.words == "FAILED (DeadlineExceeded)"
    assert describe(status) == "Failed, driver RUNNING (DeadlineExceeded)"


def test_a_success_shows_no_leftover_reason_of_an_earlier_attempt() -> None:
    end = outcome({"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "reason": "AppFailed"})
    assert end is not None
    assert end.words == "SUCCEEDED"


def test_the_log_that_ray_appends_to_a_message_is_left_out() -> None:
    text = "Job entrypoint command failed with exit code 3, last available logs (truncated):\nRunning entrypoint: H4sI"
    end = outcome({"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "message": text})
    assert end is not None
    assert end.message == "Job entrypoint command failed with exit code 3"


def test_duration_counts_to_the_end_or_to_now() -> None:
    now = datetime(2026, 11, 30, 12, 0, 0, tzinfo=timezone.utc)
    start = {"startTime": "2026-11-30T11:59:00Z"}
    assert duration(start, now) == 60
    assert duration({**start, "endTime": "2026-11-30T11:59:30Z"}, now) == 30
    assert duration({}, now) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0, "0s"), (59.9, "59s"), (187, "3m07s"), (7500, "2h05m"), (273600, "3d4h")],
)
def test_spans_read_like_ages(seconds: float | None, text: str) -> None:
    assert span(seconds) == text
