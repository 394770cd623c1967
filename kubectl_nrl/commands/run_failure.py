"""What a failed run is said to have died of: the copy of its log, its dead pods and the plugins' known failures, together."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ExitCode
from ..rayjob_state import split_message
from .session import Session

if TYPE_CHECKING:
    from ..local import LocalRecord
    from ..rayjob_state import Outcome
    from ..triage import DeadPod, Failure


def of_rayjob(
    session: Session, outcome: Outcome, status: Mapping[str, Any], log: str, pods: Sequence[DeadPod]
) -> Failure | None:
    """Of a run on a cluster; None for one that did not fail. `log` is the copy's path, empty when there is none."""
    if outcome.exit_code != ExitCode.FAILED:
        return None
    # KubeRay appends the log's last lines to its message, which is all there is of a log that nobody has followed.
    message, appended = split_message(status)
    text = _end_of(log) or appended.encode()
    return failure_of(session, text, pods, [outcome.reason, message])


def of_cluster_job(session: Session, log: str, end: Sequence[str]) -> Failure:
    """Of a failed run on a long-lived cluster; `log` is the copy's path, empty when there is none, `end` what Ray says."""
    return failure_of(session, _end_of(log), (), end)


def of_local(session: Session, run: LocalRecord) -> Failure:
    """Of a failed run on this machine."""
    code = [f"exit status {run.exit_status}"] if run.exit_status else []
    return failure_of(session, _end_of(run.log), (), [run.reason, run.message, *code])


def failure_of(session: Session, log: bytes, pods: Sequence[DeadPod], end: Sequence[str]) -> Failure:
    """Of a log's last bytes."""
    from ..triage import triage

    return triage(log, patterns=session.manager.failure_patterns(), pods=pods, end=end)


def _end_of(path: str | Path) -> bytes:
    """A file's last bytes; none of one that is not there or cannot be read."""
    from ..triage import END

    if not path:
        return b""
    try:
        with open(path, "rb") as file:
            # One more than is looked at tells that the first line is not whole.
            file.seek(max(0, file.seek(0, os.SEEK_END) - END - 1))
            return file.read(END + 1)
    except OSError:
        return b""
