"""Whatever lies in a namespace, looking at it ends in an answer or in one line of error, and moves no cursor."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fake_cluster import FakeCluster
from hypothesis import given, settings
from hypothesis import strategies as st
from odd_objects import EVENT, POD, RAY_JOB, RAYCLUSTER, RAYJOB, RECORD
from ray_cluster_case import ClusterJobs

from kubectl_nrl.errors import ExitCode
from kubectl_nrl.testing import Project

#: What a terminal obeys.
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
LOOKS = [
    "status -n default", "status --all-users -n default", "status rayjob/j -n default", "status raycluster/c -n default",
    "status run-2 -n default", "runs --all-users -n default", "job list -n default", "cluster list -n default",
    "clean --dry-run -n default", "clean --dry-run -A rayjob/j raycluster/c --force", "verify rayjob/j -n default",
    "job stop run-2 -n default",
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
