"""Following a driver on a long-lived cluster through what heads and connections do."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from fake_cluster import FakeCluster

from kubectl_nrl.api import User
from kubectl_nrl.errors import ClusterError
from kubectl_nrl.ray_jobs import head_history
from kubectl_nrl.runs import cluster_runs, find_cluster_run, new_record, note, see, write_record
from kubectl_nrl.runs.cluster_run import record_name
from kubectl_nrl.watch import JobFollow, JobTarget

NOW = datetime(2026, 11, 30, 12, 10, tzinfo=timezone.utc)
LOST = ClusterError("connection reset", reason="ConnectionLost")
CLOSED = ClusterError("nothing listens there", reason="PortClosed")


class Jobs:
    """Answers one after the other, the last for ever; an error is raised. A head that was started again, `restarted`, knows nothing."""

    def __init__(self, *answers: Any, restarted: bool = True) -> None:
        self.answers, self.restarted, self.life = list(answers), restarted, "one"

    def get(self, submission_id: str) -> dict[str, Any] | None:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, ClusterError):
            raise answer
        self.life = "two" if answer is None and self.restarted else "one"
        return None if answer is None else {"status": answer, "message": f"so {answer}"}

    def log_chunk(self, submission_id: str, offset: int) -> bytes:
        return b""

    def close(self) -> None:
        pass


class Bench:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kubectl_nrl.watch.job_follow.POLL", 0.0)
        self.cluster, self.said, self.time = FakeCluster(), list[str](), 0.0
        self.uid = self.cluster.put({"kind": "RayCluster", "metadata": {"name": "c"}})["metadata"]["uid"]

    def clock(self) -> float:
        self.time += 1.0
        return self.time

    def follow(self, *answers: Any, timeout: float | None = None, restarted: bool = True, **words: Any) -> Any:
        jobs = Jobs(*answers, restarted=restarted)
        target = JobTarget("default", "c", self.uid, "run")
        follow = JobFollow(
            self.cluster, target, lambda name: jobs, say=self.said.append, clock=self.clock, **words
        )  # fmt: skip
        return follow.until_final(timeout)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


@pytest.mark.parametrize("state", ["SUCCEEDED", "FAILED", "STOPPED"])
def test_a_final_state_of_ray_is_the_end(bench: Bench, state: str) -> None:
    end = bench.follow("PENDING", "RUNNING", "RUNNING", state)
    assert (end.how, end.state) == ("final", state)
    assert bench.said == ["driver PENDING", "driver RUNNING"]


def test_silence_is_no_end_and_is_said_once(bench: Bench) -> None:
    end = bench.follow("RUNNING", *[LOST] * 8, "RUNNING", "SUCCEEDED")
    assert end.how == "final"
    assert bench.said == [
        "driver RUNNING", "no answer from raycluster/c (connection reset); asking again", "raycluster/c answers again",
    ]  # fmt: skip


def test_silence_that_outlasts_patience_is_an_unknown_end(bench: Bench) -> None:
    end = bench.follow("RUNNING", LOST, patience=30)
    assert (end.how, end.state, "no answer for" in end.message) == ("lost", "RUNNING", True)


def test_an_unknown_state_counts_as_running(bench: Bench) -> None:
    assert bench.follow("SOMETHING_NEW", "SUCCEEDED").how == "final"


def test_a_refused_token_is_not_asked_again(bench: Bench) -> None:
    assert bench.follow(ClusterError("needs a token", status=401, reason="RayUnauthorized")).how == "lost"


def test_a_head_that_does_not_know_the_job_lost_its_history(bench: Bench) -> None:
    end = bench.follow("RUNNING", CLOSED, CLOSED, None)
    assert (end.how, "history of its jobs is lost" in end.message) == ("forgotten", True)


def test_a_head_that_was_not_started_again_says_nothing_of_a_driver_that_it_forgot(bench: Bench) -> None:
    end = bench.follow("RUNNING", None, restarted=False)
    assert (end.how, end.state) == ("lost", "RUNNING")
    assert end.message == "raycluster/c does not know the driver any more, and its head was not started again"


def test_a_head_that_forgot_for_a_moment_goes_on(bench: Bench) -> None:
    assert bench.follow("RUNNING", None, None, "RUNNING", "SUCCEEDED", restarted=False).how == "final"


def test_a_cluster_that_was_deleted_or_replaced_is_named(bench: Bench) -> None:
    gone = ClusterError("the Ray cluster c is gone", reason="Gone")
    bench.cluster.remove("RayCluster", "c")
    for answer in (CLOSED, gone, None):
        end = bench.follow("RUNNING", answer)
        assert (end.how, end.message) == ("deleted", "raycluster/c was deleted before the run ended")
    bench.cluster.put({"kind": "RayCluster", "metadata": {"name": "c", "uid": "another"}})
    end = bench.follow(None)
    assert (end.how, "was replaced by another of the same name" in end.message) == ("deleted", True)
    bench.cluster.put({"kind": "RayCluster", "metadata": {"name": "c", "uid": bench.uid, "deletionTimestamp": "x"}})
    assert bench.follow("RUNNING", CLOSED).message == "raycluster/c is being deleted, before the run ended"


def test_giving_up_says_the_state(bench: Bench) -> None:
    end = bench.follow("RUNNING", timeout=5)
    assert (end.how, end.state) == ("timeout", "RUNNING")


def head(name: str, created: str, **container: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {
            "name": name, "labels": {"ray.io/cluster": "c", "ray.io/node-type": "head"}, "creationTimestamp": created,
        },
        "spec": {"containers": [{"name": "ray"}, {"name": "sidecar"}]},
        "status": {"containerStatuses": [{"name": "sidecar"}, {"name": "ray", **container}]} if container else {},
    }  # fmt: skip


def test_a_restarted_container_says_when_and_why(bench: Bench) -> None:
    bench.cluster.now = NOW
    bench.cluster.put(
        head(
            "h", "2026-11-30T10:00:00Z", state={"running": {"startedAt": "2026-11-30T12:06:00Z"}},
            lastState={"terminated": {"reason": "OOMKilled", "exitCode": 137}}, restartCount=1,
        )
    )  # fmt: skip
    said = head_history(bench.cluster, "default", "c")
    assert said == "the head of raycluster/c restarted 4m00s ago (OOMKilled); the history of its jobs is lost"


def test_a_sidecar_that_was_injected_first_is_not_taken_for_ray(bench: Bench) -> None:
    pod = head(
        "h", "2026-11-30T10:00:00Z", state={"running": {"startedAt": "2026-11-30T12:06:00Z"}},
        lastState={"terminated": {"reason": "OOMKilled", "exitCode": 137}}, restartCount=1,
    )  # fmt: skip
    pod["spec"]["containers"] = [{"name": "sidecar"}, {"name": "ray", "env": [{"name": "KUBERAY_GEN_RAY_START_CMD"}]}]
    bench.cluster.put(pod)
    bench.cluster.now = NOW
    assert "restarted 4m00s ago (OOMKilled)" in head_history(bench.cluster, "default", "c")


def test_a_new_head_pod_says_when(bench: Bench) -> None:
    bench.cluster.now = NOW
    bench.cluster.put(head("old", "2026-11-30T10:00:00Z"))
    bench.cluster.put(head("new", "2026-11-30T12:09:00Z"))
    assert "restarted 1m00s ago;" in head_history(bench.cluster, "default", "c")


def test_a_record_is_found_again_by_its_id_and_by_its_owner(bench: Bench) -> None:
    raycluster = {"metadata": {"name": "c", "namespace": "default", "uid": bench.uid}}
    for run_id, user in (
        ("one", User("jdoe", "jdoe")),
        ("Two_2", User("jdoe", "j.doe")),
        ("three", User("bob", "bob")),
    ):
        record = new_record(
            run_id, raycluster, user, cluster_label="c", submitter="portForward", submission_id=run_id, recipe="r.yaml",
            started=NOW,
        )  # fmt: skip
        run = write_record(bench.cluster, record)
        note(bench.cluster, run, state="SUCCEEDED", ended=NOW)
    found = find_cluster_run(bench.cluster, "default", "Two_2")
    assert found is not None
    assert (found.id, found.state, found.seconds(NOW), found.submitter) == ("Two_2", "SUCCEEDED", 0.0, "portForward")
    assert [run.id for run in cluster_runs(bench.cluster, "default", User("jdoe", "jdoe"))] == ["one"]
    everybody = cluster_runs(bench.cluster, "default", User("jdoe", "jdoe"), all_users=True)
    assert {run.id for run in everybody} == {"one", "Two_2", "three"}
    assert find_cluster_run(bench.cluster, "default", "four") is None


def test_runs_without_an_end_are_asked_of_their_cluster_once(bench: Bench) -> None:
    raycluster = {"metadata": {"name": "c", "namespace": "default", "uid": bench.uid}}
    gone = {"metadata": {"name": "gone", "namespace": "default", "uid": "9"}}
    for run_id, where in (("ended", raycluster), ("lives", raycluster), ("forgotten", raycluster), ("lost", gone)):
        record = new_record(
            run_id, where, User("jdoe", "jdoe"), cluster_label="c", submitter="portForward", submission_id=run_id,
            recipe="", started=NOW,
        )  # fmt: skip
        run = write_record(bench.cluster, record)
        if run_id == "ended":
            note(bench.cluster, run, state="STOPPED", ended=NOW)
    asked: list[str] = []

    class Ray(Jobs):
        def list(self) -> list[dict[str, Any]]:
            asked.append("list")
            return [{"submission_id": "lives", "status": "RUNNING"}, {"submission_id": "ended", "status": "RUNNING"}]

    runs = cluster_runs(bench.cluster, "default", User("jdoe", "jdoe"))
    seen = see(
        runs, bench.cluster, lambda live: Ray(None), lambda run: ("HeadRestarted", f"{run.ray_cluster} restarted")
    )
    assert {one.run.id: (one.state, one.reason, one.message) for one in seen} == {
        "ended": ("STOPPED", "", ""),
        "lives": ("RUNNING", "", ""),
        "forgotten": ("UNKNOWN", "HeadRestarted", "c restarted"),
        "lost": ("UNKNOWN", "", "raycluster/gone is gone"),
    }
    assert asked == ["list"]


def test_ids_that_map_to_one_name_have_two_records() -> None:
    assert record_name("20261130-120000-abcd") == "nrl-run-20261130-120000-abcd"
    assert len({record_name(run_id) for run_id in ("a_b", "a.b", "A-b", "a-b")}) == 4
    assert len(record_name("A" * 63)) <= 100
