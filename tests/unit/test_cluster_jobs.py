"""`job list`, `job logs` and `job stop` over RayJobs and the Ray jobs of long-lived clusters, whoever submitted them."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from ray_cluster_case import UP, ClusterJobs, RayClusters, job
from run_files import files

from kubectl_nrl.commands import job_cluster, job_stop
from kubectl_nrl.errors import ClusterError
from kubectl_nrl.labels import CLUSTER_UID, DAEMON, ROLE
from kubectl_nrl.runs import ClusterRecord, jobs_of
from kubectl_nrl.testing import USER, Project


@pytest.fixture
def rays(monkeypatch: pytest.MonkeyPatch) -> RayClusters:
    found = RayClusters()
    monkeypatch.setattr("kubectl_nrl.cluster.Cluster.connect", lambda **words: found.cluster)
    monkeypatch.setattr("kubectl_nrl.ray_jobs.connect", found.connect)
    monkeypatch.setattr("kubectl_nrl.watch.job_follow.POLL", 0.01)
    return found


def put_rayjob(rays: RayClusters, name: str, owner: str = USER, cluster: str = "t", **status: Any) -> None:
    labels = {"kubectl-nrl/managed": "true", "kubectl-nrl/owner": owner, "kubectl-nrl/run": f"id-{name}"}
    metadata = {"name": name, "labels": {**labels, "kubectl-nrl/cluster": cluster}}
    rays.cluster.put({"kind": "RayJob", "metadata": metadata, "status": status})


def test_all_jobs_of_a_namespace_are_listed_with_their_owner(rays: RayClusters) -> None:
    put_rayjob(rays, "a", jobDeploymentStatus="Running", jobStatus="RUNNING", rayClusterName="a-x")
    rays.put("a-x", job("id-a"), **{"ray.io/originated-from-crd": "RayJob", "ray.io/originated-from-cr-name": "a"})
    rays.put("long", job("sub-1", user="anna"), job(None, job_id="02000000"), job("sub-2", "FAILED", USER))
    rays.put("asleep", status={"state": "suspended"})
    listed = Project().run("job list -n default -o json").ok().result("job_list")
    assert {(j["id"], j["rayjob"], j["rayCluster"], j["owner"], j["state"]) for j in listed} == {
        ("id-a", "a", "a-x", USER, "Running"),
        ("sub-1", "", "long", "anna", "RUNNING"),
        ("02000000", "", "long", "", "RUNNING"),
        ("sub-2", "", "long", USER, "FAILED"),
    }
    text = Project().run("job list -n default").ok()
    assert f"{USER} (you)" in text.out
    assert "started by hand" in text.out
    assert text.err == ""


def test_a_cluster_that_cannot_be_asked_is_named_and_hides_nothing_else(rays: RayClusters) -> None:
    rays.put("quiet").refuses = ClusterError(
        'pods "h" is forbidden: cannot create resource "pods/portforward"', status=403
    )
    rays.put("long", job("sub-1"))
    done = Project().run("job list -n default").ok()
    assert "sub-1" in done.out
    assert 'note: jobs of raycluster/quiet are not listed: pods "h" is forbidden' in done.err


def test_a_job_with_odd_fields_hides_no_other(rays: RayClusters) -> None:
    odd = {
        "submission_id": "odd",
        "status": None,
        "metadata": None,
        "message": None,
        "start_time": "x",
        "end_time": None,
    }
    rays.put("long", job("sub-1"), odd)
    listed = Project().run("job list -n default -o json").ok().result("job_list")
    assert {(j["id"], j["state"]) for j in listed} == {("sub-1", "RUNNING"), ("odd", "UNKNOWN")}


def test_a_cluster_that_never_answers_is_not_waited_for() -> None:
    never = threading.Event()

    class Hanging(ClusterJobs):
        def list(self) -> list[dict[str, Any]]:
            never.wait(60)
            return []

    record = ClusterRecord({"metadata": {"name": "h", "namespace": "d", "uid": "u"}})
    asked = jobs_of([record], lambda found: Hanging(), patience=0.05)
    never.set()
    assert (list(asked.jobs), dict(asked.silent)) == ([], {"h": "it did not answer within 0 s"})


def test_who_may_see_rayjobs_alone_sees_them_and_is_told_what_is_missing(rays: RayClusters) -> None:
    put_rayjob(rays, "a", jobDeploymentStatus="Running", jobStatus="RUNNING")
    forbidden = ClusterError('rayclusters.ray.io is forbidden: User "u" cannot list', status=403)
    rays.cluster.faults.update({("list", "RayCluster"): forbidden, ("get", "RayCluster"): forbidden})
    done = Project().run("job list -n default").ok()
    assert "id-a" in done.out
    assert "jobs of long-lived clusters are not listed: rayclusters.ray.io is forbidden" in done.err
    assert 'no run "nope"' in Project().run("job stop nope -n default").err


def test_who_may_see_ray_clusters_alone_sees_their_jobs_and_is_told_what_is_missing(rays: RayClusters) -> None:
    rays.put("long", job("sub-1"))
    rays.cluster.faults["list", "RayJob"] = ClusterError("rayjobs.ray.io is forbidden", status=403)
    done = Project().run("job list -n default").ok()
    assert "sub-1" in done.out
    assert "note: RayJobs are not listed: rayjobs.ray.io is forbidden" in done.err
    rays.cluster.faults["list", "RayCluster"] = ClusterError("rayclusters.ray.io is forbidden", status=403)
    assert Project().run("job list -n default").exit == 3


def test_a_recipe_narrows_the_list_to_its_clusters(rays: RayClusters) -> None:
    put_rayjob(rays, "of-it", cluster="t")
    put_rayjob(rays, "other", cluster="u")
    rays.put("t", job("on-t"))
    rays.put("u", job("on-u"))
    listed = Project(files()).run("job list recipe.yaml --infra infra.yaml -n default -o json").ok().result("job_list")
    assert {j["id"] for j in listed} == {"id-of-it", "on-t"}


@pytest.mark.parametrize("word", ["sub-1", "raycluster/long", "long", "recipe.yaml --infra infra.yaml"])
def test_a_submitted_job_is_found_by_its_id_its_cluster_or_its_recipe(rays: RayClusters, word: str) -> None:
    rays.put("long", job("older", start=1), job("sub-1", start=2), job(None, job_id="03000000", start=3))
    project = Project(files(name="long"))
    assert project.run(f"job logs {word} -n default").ok().out == "one\ntwo\n"
    assert project.run(f"logs {word} -n default --tail 1").ok().out == "two\n"


def test_a_recipes_newest_run_is_meant_whichever_way_it_was_started(rays: RayClusters) -> None:
    put_rayjob(
        rays, "j", cluster="t", jobDeploymentStatus="Complete", jobStatus="SUCCEEDED", rayClusterName="t-x", jobId="s"
    )
    rays.put("t-x").log = b"of the rayjob\n"
    rays.put("t", job("old", start=1)).log = b"of the cluster\n"
    project = Project(files())
    line = "job logs recipe.yaml --infra infra.yaml -n default"
    assert project.run(line).ok().out == "of the rayjob\n"
    rays.heads["t"].jobs["old"]["start_time"] = 4102444800000
    assert project.run(line).ok().out == "of the cluster\n"


def test_a_clusters_name_means_a_driver_and_no_daemon(rays: RayClusters) -> None:
    head = rays.put("t", job("run", user=USER, start=1), job("serve", user=USER, start=2))
    uid = rays.cluster.objects["RayCluster", "default", "t"]["metadata"]["uid"]
    head.jobs["serve"]["metadata"] |= {DAEMON: "x", ROLE: "training", CLUSTER_UID: uid}
    project = Project(files(name="t"))
    for words in ("raycluster/t", "recipe.yaml --infra infra.yaml"):
        head.jobs["run"]["status"] = "RUNNING"
        assert "job run on raycluster/t: STOPPED" in project.run(f"job stop {words} -n default").ok().out
    assert head.stopped == ["run", "run"]


def test_a_stop_by_a_clusters_name_means_what_runs_and_of_that_mine(rays: RayClusters) -> None:
    jobs = [job("mine", user=USER, start=1), job("annas", user="anna", start=2), job("over", "FAILED", USER, start=3)]
    head = rays.put("t", *jobs)
    Project().run("job stop raycluster/t -n default").ok()
    assert head.stopped == ["mine"]
    refused = Project().run("job stop raycluster/t -n default")
    assert (refused.exit, 'job "annas" belongs to "anna"' in refused.err) == (2, True), refused.err


@pytest.mark.parametrize(("status", "code"), [("SUCCEEDED", 0), ("FAILED", 1), ("STOPPED", 5)])
def test_following_ends_with_the_job_and_as_the_job(rays: RayClusters, status: str, code: int) -> None:
    head = rays.put("long", job("sub-1"))
    asked = 0
    real = head.get

    def get(submission_id: str) -> dict[str, Any] | None:
        nonlocal asked
        asked += 1
        if asked == 3:
            head.log += b"three\n"
            head.jobs["sub-1"]["status"] = status
        return real(submission_id)

    head.get = get  # type: ignore[method-assign]
    done = Project().run("job logs sub-1 -f -n default")
    assert (done.exit, done.out) == (code, "one\ntwo\nthree\n")
    assert f"job sub-1: {status}" in done.err


def forgets(rays: RayClusters, life: str) -> None:
    """A head that knows the job once, and then is of that life and does not."""
    head = rays.put("long", job("sub-1"))
    told = iter([dict(head.jobs["sub-1"])] * 2)

    def get(submission_id: str) -> dict[str, Any] | None:
        found = next(told, None)
        if found is None:
            head.life = life
        return found

    head.get = get  # type: ignore[method-assign]


def test_a_job_that_went_with_its_head_has_failed(rays: RayClusters) -> None:
    forgets(rays, "pod-1/1")
    result = Project().run("job logs sub-1 -f -n default -o json")
    assert result.exit == 1, result.err
    ended = result.result("cluster_job")
    assert (ended["state"], ended["reason"], ended["exitCode"]) == ("FAILED", "HeadRestarted", 1)
    assert "the history of its jobs is lost" in ended["message"]


def test_a_job_that_a_head_of_the_same_life_forgot_is_no_result(
    rays: RayClusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubectl_nrl.watch.job_follow.FORGETFUL", 0.0)
    forgets(rays, "pod-1/0")
    done = Project().run("job logs sub-1 -f -n default")
    assert done.exit == 6
    assert "does not know the driver any more, and its head was not started again; it may still run" in done.err
    assert "follow it again: kubectl nrl job logs sub-1 -f -n default" in done.err


def test_a_cluster_that_is_deleted_under_a_job_ends_it_and_what_is_left_is_named(
    rays: RayClusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubectl_nrl.commands.run_deleted.GONE", 0.0)
    rays.put("long", job("sub-1"))
    uid = rays.cluster.objects["RayCluster", "default", "long"]["metadata"]["uid"]
    forgotten = rays.heads["long"].get

    def get(submission_id: str) -> dict[str, Any] | None:
        rays.cluster.remove("RayCluster", "long")
        raise ClusterError("cut", reason="ConnectionLost")

    for pods, says in (([], "nothing of it runs any more"), ([uid], "still ending: long-head"), (["x"], "nothing of")):
        rays.cluster.put({"kind": "RayCluster", "metadata": {"name": "long", "uid": uid}, "spec": {}, "status": UP})
        for owner in pods:
            meta = {"name": "long-head", "labels": {"ray.io/cluster": "long"}, "ownerReferences": [{"uid": owner}]}
            rays.cluster.put({"kind": "Pod", "metadata": {**meta, "deletionTimestamp": "2026-11-30T12:00:00Z"}})
        calls = iter([forgotten, forgotten])
        rays.heads["long"].get = lambda submission_id, calls=calls: next(calls, get)(submission_id)  # type: ignore
        done = Project().run("job logs sub-1 -f -n default")
        assert done.exit == 5, done.err
        assert f"raycluster/long was deleted before the run ended, not by this command; {says}" in done.err
        assert "it may still run" not in done.err


def test_the_log_of_a_job_is_kept_but_not_a_daemons_nor_over_that_of_a_run_of_this_machine(rays: RayClusters) -> None:
    project, runs = Project(), ".local/state/kubectl-nrl/runs"
    here = project.home / runs / "here"
    here.mkdir(parents=True)
    (here / "local.json").write_text("{}")
    (here / "driver.log").write_text("of this machine")
    rays.put("a", job("sub-1"))
    rays.put("b", job("here"))
    uid = rays.put("c") and rays.cluster.objects["RayCluster", "default", "c"]["metadata"]["uid"]
    metadata = {"kubectl-nrl/daemon": "x", "kubectl-nrl/cluster-uid": uid, "kubectl-nrl/role": "gym"}
    rays.heads["c"].jobs["c-daemon"] = job("c-daemon", metadata=metadata)
    for name in ("a", "b", "c"):
        assert project.run(f"job logs raycluster/{name} -n default").ok().out == "one\ntwo\n"
    assert sorted(path.name for path in (project.home / runs).iterdir()) == ["here", "sub-1"]
    assert (project.home / runs / "sub-1" / "driver.log").read_bytes() == b"one\ntwo\n"
    assert (here / "driver.log").read_text() == "of this machine"


def test_an_id_on_two_clusters_is_asked_back(rays: RayClusters) -> None:
    rays.put("a", job("same"))
    rays.put("b", job("same"))
    done = Project().run("job logs same -n default")
    assert done.exit == 2
    assert "raycluster/a, raycluster/b" in done.err


def test_an_unknown_id_names_the_clusters_that_could_not_be_asked(rays: RayClusters) -> None:
    rays.put("quiet").refuses = ClusterError("no route")
    done = Project().run("job stop nope -n default")
    assert done.exit == 2
    assert "raycluster/quiet cannot be asked: no route" in done.err


def test_stop_returns_when_the_job_is_over_and_leaves_the_cluster(rays: RayClusters) -> None:
    head = rays.put("long", job("sub-1", user=USER))
    result = Project().run("job stop sub-1 -n default -o json").ok().result("cluster_job")
    assert (result["state"], result["stopped"], head.stopped) == ("STOPPED", True, ["sub-1"])
    assert ("RayCluster", "default", "long") in rays.cluster.objects
    again = Project().run("job stop sub-1 -n default").ok()
    assert "STOPPED, was over already" in again.out
    assert head.stopped == ["sub-1"]


def test_a_job_that_does_not_end_is_an_error(rays: RayClusters, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_cluster, "ENDED", 0.05)
    rays.put("long", job("sub-1", user=USER)).obeys = False
    done = Project().run("job stop sub-1 -n default")
    assert done.exit == 3
    assert "was not stopped: it is still RUNNING after" in done.err


@pytest.mark.parametrize(
    ("owner", "flags", "code"),
    [
        ("anna", "", 2),
        ("anna", "--yes", 2),
        ("anna", "--force", 2),
        ("anna", "--force --yes", 0),
        ("", "", 2),
        ("", "--yes", 0),
    ],
)
def test_somebody_elses_job_needs_force_and_a_yes(rays: RayClusters, owner: str, flags: str, code: int) -> None:
    head = rays.put("long", job("sub-1", user=owner))
    assert Project().run(f"job stop sub-1 -n default {flags}").exit == code
    assert bool(head.stopped) == (code == 0)


@pytest.mark.parametrize("verb", ["logs", "stop"])
def test_a_driver_started_by_hand_has_neither_log_nor_stop_and_says_where_it_is(rays: RayClusters, verb: str) -> None:
    rays.put("long", job(None, job_id="02000000", driver_info={"pid": "77", "node_ip_address": "10.0.0.9"}))
    done = Project().run(f"job {verb} 02000000 -n default")
    assert done.exit == 2
    assert "(process 77 on 10.0.0.9): Ray neither keeps its output nor can stop it" in done.err


@pytest.mark.parametrize(
    "line",
    [
        "job list x",
        "job logs a b",
        "job logs a=1",
        "job logs r.yaml s.yaml --infra i.yaml",
        "job logs pod/x",
        "job list -f",
    ],
)
def test_words_that_name_nothing_are_refused(rays: RayClusters, line: str) -> None:
    done = Project().run(line)
    assert done.exit == 2
    assert done.err.startswith("error: ")


def test_a_stop_that_ray_does_not_answer_deletes_the_rayjob_only_when_forced(
    rays: RayClusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_stop, "REST", 0.05)
    put_rayjob(rays, "j", jobDeploymentStatus="Running", jobStatus="RUNNING", rayClusterName="j-x", jobId="id-j")
    rays.put("j-x").stop = _refuse  # type: ignore[method-assign]
    rays.heads["j-x"].errors = [ClusterError("no answer")] * 1000
    done = Project().run("job stop id-j -n default")
    assert done.exit == 3
    assert "hint: kubectl nrl job stop id-j --force -n default" in done.err
    assert ("RayJob", "default", "j") in rays.cluster.objects
    forced = Project().run("job stop id-j -n default --force").ok()
    assert "was not stopped: no answer; deleting it" in forced.err
    assert "rayjob/j was deleted with its driver" in forced.out
    assert ("RayJob", "default", "j") not in rays.cluster.objects


def _refuse(submission_id: str) -> bool:
    raise ClusterError("no answer")
