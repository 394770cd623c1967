"""Whatever lies in a namespace, looking at it ends in an answer or in one line of error, and moves no cursor."""

from __future__ import annotations

import base64
import gzip
import re
from typing import Any

import pytest
from fake_cluster import FakeCluster
from hypothesis import given, settings
from hypothesis import strategies as st
from odd_objects import EVENT, POD, RAY_JOB, RAYCLUSTER, RAYJOB, RECORD
from ray_cluster_case import ClusterJobs

from kubectl_nrl.diff import last_applied
from kubectl_nrl.errors import ExitCode
from kubectl_nrl.labels import LAST_APPLIED
from kubectl_nrl.runs import ClusterJob, ClusterRecord, ClusterRun, RunRecord
from kubectl_nrl.testing import TIME, Project

#: What a terminal obeys.
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
LOOKS = [
    "status -n default", "status --all-users -n default", "status rayjob/j -n default", "status raycluster/c -n default",
    "status run-2 -n default", "runs --all-users -n default", "job list -n default", "cluster list -n default",
    "clean --dry-run -n default", "clean --dry-run -A rayjob/j raycluster/c --force", "verify rayjob/j -n default",
    "job stop run-2 -n default", "job logs rayjob/j -n default", "cluster down c --dry-run -n default",
]  # fmt: skip


@pytest.fixture(scope="module")
def project() -> Project:
    return Project()


def looked(project: Project, objects: list[dict[str, Any]], jobs: list[dict[str, Any]], lines: list[str]) -> None:
    cluster, patch = FakeCluster(), pytest.MonkeyPatch()
    for obj in objects:
        cluster.put(obj)
    head = ClusterJobs()
    head.list = lambda: [dict(job) for job in jobs]  # type: ignore[method-assign]
    head.get = lambda submission_id: next((dict(j) for j in jobs if j.get("submission_id") == submission_id), None)  # type: ignore[method-assign]
    with patch.context() as patched:
        patched.setattr("kubectl_nrl.cluster.Cluster.connect", lambda **words: cluster)
        patched.setattr("kubectl_nrl.ray_jobs.connect", lambda *words: head)
        for line in lines:
            for form in ("", " -o json"):
                outcome = project.run(line + form)
                assert outcome.exit != ExitCode.BUG, f"{outcome}\n{objects}\n{jobs}"
                assert not OBEYED.search(outcome.out + outcome.err), f"{outcome!r}"
                if form == " -o json":
                    assert outcome.json is not None


@settings(max_examples=25)
@given(st.tuples(RAYJOB, RAYCLUSTER, POD, RECORD, EVENT), st.lists(RAY_JOB, max_size=2))
def test_whatever_lies_in_a_namespace_is_looked_at_without_a_fault(
    project: Project, objects: list[dict[str, Any]], jobs: list[dict[str, Any]]
) -> None:
    looked(project, objects, jobs, LOOKS)


@pytest.mark.parametrize(
    "packed",
    [
        "", "no base64", base64.b64encode(b"no gzip").decode(),
        base64.b64encode(gzip.compress(b"{}", mtime=0)[:-9]).decode(),
        base64.b64encode(gzip.compress(b"{}", mtime=0)[:10] + b"\xff" * 20).decode(),
        base64.b64encode(gzip.compress(b"[" * 9000, mtime=0)).decode(),
        base64.b64encode(gzip.compress(b"[1]", mtime=0)).decode(),
    ],
)  # fmt: skip
def test_what_was_applied_is_unknown_where_it_cannot_be_read(packed: str) -> None:
    assert last_applied({"metadata": {"annotations": {LAST_APPLIED: packed}}}) is None


def test_a_time_without_a_zone_in_a_record_is_utc() -> None:
    run = ClusterRun({"metadata": {}, "data": {"startTime": "2026-01-02T03:04:00", "endTime": "2026-01-02T03:04:05Z"}})
    assert run.seconds(TIME) == 5.0


@pytest.mark.parametrize("count", ["9" * 5000, "-1", "two", "1.5", "\u00b2", None])
def test_a_count_that_is_none_is_no_gpu(count: str | None) -> None:
    spec = {"headGroupSpec": {"rayStartParams": {"num-gpus": count}}}
    assert ClusterRecord({"metadata": {}, "spec": spec}).gpus == 0


@pytest.mark.parametrize("time", [2**70, -1, "yesterday", 1e300, None])
def test_a_job_that_started_at_no_time_has_no_age(time: Any) -> None:
    job = ClusterJob(ClusterRecord({"metadata": {}}), {"start_time": time, "status": "RUNNING"})
    assert (job.started, job.seconds(TIME)) == (None, None)


@pytest.mark.parametrize("odd", ["../../x", ".hidden", "a/b", "", "a b", "x" * 300])
def test_a_run_of_another_tool_whose_id_is_no_name_goes_by_its_rayjobs(odd: str) -> None:
    run = RunRecord({"metadata": {"name": "j", "namespace": "n"}, "spec": {"jobId": odd}})
    assert (run.id, run.submission_id) == ("j", odd)
