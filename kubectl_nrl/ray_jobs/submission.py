"""Submits a job exactly once, although the answer to a submission can get lost on its way.

Ray answers 500 to an id that it knows, so a lost answer is settled by asking for the job and by a mark in its metadata that only this
submission has; nothing is submitted again while that is unknown.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Mapping
from typing import Any

from ..errors import ClusterError
from .head import Head, job_path
from .packages import PATIENCE, PAUSE, passing

#: The dashboard's 500 when the agent that starts drivers is not up yet, which may be some seconds after the dashboard is (Ray:
#: dashboard/modules/job/job_head.py passes the agent's aiohttp errors on).
_NO_AGENT = re.compile(r"aiohttp\.client_exceptions|ServerDisconnected|ClientConnect|[Nn]o available agent")

#: Metadata key of the mark.
MARK = "kubectl-nrl/submission"


def submit(
    head: Head, entrypoint: str, submission_id: str, *, runtime_env: Mapping[str, Any], metadata: Mapping[str, str]
) -> bool:
    """Submit; False when an earlier submission had arrived already after all.

    Raises `ClusterError`: reason `AlreadyExists` for an id that another submission used, a passing one (`packages.passing`) when the
    outcome stayed unknown for `PATIENCE` seconds.
    """
    mark = secrets.token_hex(8)
    job = {
        "entrypoint": entrypoint,
        "submission_id": submission_id,
        "runtime_env": dict(runtime_env),
        "metadata": {**metadata, MARK: mark},
    }
    doing = f"submit Ray job {submission_id}"
    deadline, lost = time.monotonic() + PATIENCE, False
    while True:
        try:
            if lost and (found := _job(head, submission_id)) is not None:
                return _settle(found, submission_id, mark)
            lost = True
            words = {"Content-Type": "application/json"}
            status, body = head.send("POST", "/api/jobs/", doing, words, json.dumps(job).encode(), timeout=60.0)
            if status == 500 and (found := _job(head, submission_id)) is not None:
                return _settle(found, submission_id, mark)
            head.decode(status, body, doing)
            return True
        except ClusterError as error:
            may_pass = passing(error) or (error.reason == "RayError" and _NO_AGENT.search(error.message))
            if not may_pass or time.monotonic() >= deadline:
                raise
        time.sleep(PAUSE)


def _job(head: Head, submission_id: str) -> Mapping[str, Any] | None:
    doing = f"read Ray job {submission_id}"
    status, body = head.send("GET", job_path(submission_id), doing)
    found: Mapping[str, Any] | None = None if status == 404 else head.decode(status, body, doing)
    return found


def _settle(job: Mapping[str, Any], submission_id: str, mark: str) -> bool:
    if (job.get("metadata") or {}).get(MARK) == mark:
        return False
    raise ClusterError(
        f'job "{submission_id}" already exists on this Ray cluster ({job.get("status", "unknown")})',
        "pick another --run-id",
        reason="AlreadyExists",
    )
