"""The RayJob submitter: the state KubeRay reports, the log by offset, and stopping."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from context import RUN, FakeCluster, thing
from nrl_plugins import submitter_rayjob
from nrl_plugins.submitter_rayjob import RayJobSubmitter

from kubectl_nrl.api import Submission
from kubectl_nrl.errors import ClusterError

SUBMITTER = RayJobSubmitter()


@dataclass
class Jobs:
    """Ray's Jobs API: one log, which grows by the chunks of `later`, one each time it was read to its end."""

    log: bytes = b""
    later: list[bytes | ClusterError] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    read: list[tuple[str, int]] = field(default_factory=list)

    def log_chunk(self, submission_id: str, offset: int) -> bytes:
        self.read.append((submission_id, offset))
        chunk = self.log[offset : offset + 4]
        if not chunk and self.later:
            more = self.later.pop(0)
            if isinstance(more, ClusterError):
                raise more
            self.log += more
        return chunk

    def stop(self, submission_id: str) -> None:
        self.stopped.append(submission_id)


@dataclass
class Cluster(FakeCluster):
    deleted: list[dict[str, Any]] = field(default_factory=list)
    states: list[dict[str, Any]] = field(default_factory=list)

    def list(self, api_version: str, kind: str, namespace: str | None = None, *, label_selector: str = "") -> list:
        found = super().list(api_version, kind, namespace, label_selector=label_selector)
        if found and len(self.states) > 1:
            self.states.pop(0)
        return [{**o, "status": self.states[0] if self.states else o.get("status", {})} for o in found]

    def delete(self, api_version: str, kind: str, name: str, namespace: str, **how: Any) -> bool:
        self.deleted.append({"kind": kind, "name": name, "namespace": namespace, **how})
        return True


@dataclass
class Connection:
    cluster: Cluster
    jobs: Jobs = field(default_factory=Jobs)
    namespace: str = "rl"


def rayjob(name: str = "r", created: str = "2026-01-02T00:00:00Z", **status: Any) -> dict:
    meta = {"labels": {"kubectl-nrl/run": RUN.id}, "uid": f"uid-{name}", "creationTimestamp": created}
    return thing("RayJob", name, metadata=meta, status=status)


def connected(*objects: dict, jobs: Jobs | None = None, states: list | None = None) -> Connection:
    return Connection(Cluster(list(objects), states=states or []), jobs or Jobs())


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submitter_rayjob, "PAUSE", 0)


@pytest.mark.parametrize(
    ("deployment", "job", "state"),
    [
        ("", "", "PENDING"), ("Initializing", "", "PENDING"), ("Suspended", "", "PENDING"), ("Waiting", "", "PENDING"),
        ("Running", "PENDING", "PENDING"), ("Running", "RUNNING", "RUNNING"), ("Retrying", "FAILED", "RUNNING"),
        ("Running", "SUCCEEDED", "RUNNING"), ("Complete", "SUCCEEDED", "SUCCEEDED"), ("Complete", "FAILED", "FAILED"),
        ("Complete", "STOPPED", "STOPPED"), ("Failed", "RUNNING", "FAILED"), ("Failed", "", "FAILED"),
        ("ValidationFailed", "", "FAILED"), ("SomethingNew", "RUNNING", "RUNNING"), ("Complete", "", "FAILED"),
    ],
)  # fmt: skip
def test_the_state_is_kuberays(deployment: str, job: str, state: str) -> None:
    connection = connected(rayjob(jobDeploymentStatus=deployment, jobStatus=job))
    found = SUBMITTER.state(RUN, connection)
    assert found.status == state
    assert found.final is (deployment in ("Complete", "Failed", "ValidationFailed"))


def test_a_final_state_says_why() -> None:
    connection = connected(rayjob(jobDeploymentStatus="Failed", reason="DeadlineExceeded", message="too late"))
    assert SUBMITTER.state(RUN, connection).message == "DeadlineExceeded: too late"


def test_a_state_on_the_way_has_kuberays_message() -> None:
    connection = connected(rayjob(jobDeploymentStatus="Initializing", message="waiting for pods"))
    assert SUBMITTER.state(RUN, connection).message == "waiting for pods"
    assert SUBMITTER.state(RUN, connected(rayjob())).message == ""


def test_a_rayjob_that_is_gone_is_unknown() -> None:
    assert SUBMITTER.state(RUN, connected()).status == "UNKNOWN"


def test_of_two_rayjobs_of_one_id_the_newer_counts() -> None:
    old = rayjob("old", "2026-01-01T00:00:00Z", jobDeploymentStatus="Complete", jobStatus="SUCCEEDED")
    new = rayjob("new", "2026-01-02T00:00:00Z", jobDeploymentStatus="Running", jobStatus="RUNNING")
    assert SUBMITTER.state(RUN, connected(new, old)).status == "RUNNING"


def test_another_runs_rayjob_is_not_ours() -> None:
    other = rayjob(jobDeploymentStatus="Running")
    other["metadata"]["labels"] = {"kubectl-nrl/run": "another"}
    assert SUBMITTER.state(RUN, connected(other)).status == "UNKNOWN"


def test_submitting_is_kuberays() -> None:
    connection = connected(rayjob())
    assert SUBMITTER.submit(RUN, connection, Submission("line", "script")) == RUN
    assert connection.cluster.asked == []


RUNNING = {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}
DONE = {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}


def logs(connection: Connection, *, follow: bool, offset: int = 0) -> bytes:
    return b"".join(SUBMITTER.logs(RUN, connection, follow=follow, offset=offset))


@pytest.mark.parametrize("offset", [0, 3, 10, 11])
def test_the_log_from_an_offset(offset: int) -> None:
    connection = connected(rayjob(**RUNNING), jobs=Jobs(b"0123456789"))
    assert logs(connection, follow=False, offset=offset) == b"0123456789"[offset:]


def test_following_ends_with_the_job_and_misses_nothing() -> None:
    jobs = Jobs(b"one ", [b"two ", b"", b"three \xff"])
    connection = connected(rayjob(), jobs=jobs, states=[RUNNING] * 30 + [DONE])
    assert logs(connection, follow=True) == b"one two three \xff"


def test_what_is_written_at_the_very_end_is_read() -> None:
    jobs = Jobs(b"", [b"last words"])
    assert logs(connected(rayjob(), jobs=jobs, states=[RUNNING] * 3 + [DONE]), follow=True) == b"last words"


def test_a_lost_connection_is_no_end() -> None:
    jobs = Jobs(b"one ", [ClusterError("connection lost"), ClusterError("again"), b"two"])
    assert logs(connected(rayjob(), jobs=jobs, states=[RUNNING] * 30 + [DONE]), follow=True) == b"one two"


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_is_an_end_at_once(status: int) -> None:
    jobs = Jobs(b"", [ClusterError("no token", status=status)])
    with pytest.raises(ClusterError):
        logs(connected(rayjob(**RUNNING), jobs=jobs), follow=True)


def test_a_failure_without_follow_is_told() -> None:
    with pytest.raises(ClusterError):
        logs(connected(rayjob(**RUNNING), jobs=Jobs(b"", [ClusterError("lost")])), follow=False)


def test_the_log_is_that_of_the_id_kuberay_used() -> None:
    connection = connected(rayjob(jobId="retry-2", **RUNNING), jobs=Jobs(b"x"))
    logs(connection, follow=False)
    assert connection.jobs.read[0] == ("retry-2", 0)
    connection = connected(rayjob(**RUNNING), jobs=Jobs(b"x"))
    logs(connection, follow=False)
    assert connection.jobs.read[0] == (RUN.id, 0)


def test_a_running_job_is_stopped_in_ray() -> None:
    connection = connected(rayjob(jobId=RUN.id, **RUNNING))
    SUBMITTER.stop(RUN, connection)
    assert connection.jobs.stopped == [RUN.id]
    assert connection.cluster.deleted == []


def test_a_run_that_ray_does_not_know_yet_is_deleted() -> None:
    connection = connected(rayjob(jobDeploymentStatus="Initializing"))
    SUBMITTER.stop(RUN, connection)
    assert connection.cluster.deleted == [
        {"kind": "RayJob", "name": "r", "namespace": "rl", "propagation": "Foreground", "uid": "uid-r"}
    ]
    assert connection.jobs.stopped == []


def test_force_deletes() -> None:
    connection = connected(rayjob(**RUNNING))
    SUBMITTER.stop(RUN, connection, force=True)
    assert [d["name"] for d in connection.cluster.deleted] == ["r"]


def test_a_finished_run_is_left_alone() -> None:
    connection = connected(rayjob(**DONE))
    SUBMITTER.stop(RUN, connection, force=True)
    assert (connection.cluster.deleted, connection.jobs.stopped) == ([], [])


def test_stopping_what_is_not_there_says_so() -> None:
    with pytest.raises(ClusterError, match=RUN.id):
        SUBMITTER.stop(RUN, connected())
