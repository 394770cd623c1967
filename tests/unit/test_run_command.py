"""`kubectl nrl run` against a cluster in memory whose "operator" plays a script of states."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from fake_cluster import FakeCluster, FakeJobs
from run_files import files

from kubectl_nrl import triage
from kubectl_nrl.errors import ClusterError
from kubectl_nrl.facts import OFFLINE
from kubectl_nrl.testing import RUN_ID, USER, Outcome, Project

JOB = "t-test"
RAN = [("Initializing", ""), ("Running", "PENDING"), ("Running", "RUNNING")]


class World:
    """A Project on a fake cluster; `play` is what happens to a RayJob once it is created."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster, self.jobs, self.facts = (
            FakeCluster(),
            FakeJobs(b"step 1\nstep 2\n"),
            replace(OFFLINE, source="cluster"),
        )
        self.seen: list[Any] = []
        self.threads: list[threading.Thread] = []
        self.over = threading.Event()
        self.project = Project(files())
        monkeypatch.setattr("kubectl_nrl.cluster.Cluster.connect", lambda **words: self.cluster)
        monkeypatch.setattr("kubectl_nrl.facts.discover", lambda cluster: self.facts)
        monkeypatch.setattr("kubectl_nrl.ray_jobs.connect", lambda cluster, raycluster: self.jobs)

    def play(
        self, *states: tuple[str, str], pods_go: bool = True, then: Callable[[], Any] = lambda: None, **last: Any
    ) -> None:
        self.cluster.after["create", "RayJob"] = lambda: self._start(states, pods_go, last, then)

    def _start(self, states: Any, pods_go: bool, last: dict[str, Any], then: Callable[[], Any]) -> None:
        before = {kind: self.cluster.watches(kind) for kind in ("RayJob", "Pod")}

        def act() -> None:
            if self._act(states, pods_go, last, before):
                then()

        thread = threading.Thread(target=act, daemon=True)
        self.threads.append(thread)
        thread.start()

    def _watched(self, kind: str, before: Mapping[str, int]) -> bool:
        """Wait until the run that began meanwhile watches them, or may not; False when the test is over first."""
        while ("watch", kind) not in self.cluster.faults and self.cluster.watches(kind) <= before[kind]:
            if self.over.wait(0.01):
                return False
        return True

    def _act(self, states: Any, pods_go: bool, last: dict[str, Any], before: Mapping[str, int]) -> bool:
        """Go through the states while somebody watches: he sees each, and which pods there are before he sees the last."""
        job = self.cluster.objects["RayJob", "default", JOB]
        refs = [{"uid": job["metadata"]["uid"]}]
        self.cluster.put({"kind": "RayCluster", "metadata": {"name": "t-test-x1", "ownerReferences": refs}})
        for name, node_type in (("head", "head"), ("w0", "worker")):
            labels = {"ray.io/cluster": "t-test-x1", "ray.io/node-type": node_type, "ray.io/group": "w"}
            requests = {"cpu": "200m", "memory": "1Gi"}
            spec = {"containers": [{"resources": {"requests": requests}}]}
            self.cluster.put({"kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec})
        for number, (deployment, status) in enumerate(states):
            if not self._watched("Pod" if number else "RayJob", before):
                return False
            more = last if number == len(states) - 1 else {}
            self.cluster.set_status(
                "RayJob", JOB, jobDeploymentStatus=deployment, jobStatus=status, rayClusterName="t-test-x1",
                startTime="2026-01-02T03:04:05Z", **more,
            )  # fmt: skip
        if pods_go and states and states[-1][0] in ("Complete", "Failed"):
            self.cluster.remove("Pod", "w0")
        return True

    def run(self, more: str = "", verb: str = "run recipe.yaml --infra infra.yaml -n default") -> Outcome:
        return self.project.run(f"{verb} {more}")

    def created(self) -> list[tuple[str, str]]:
        return [(kind, name) for verb, kind, name in self.cluster.calls if verb == "create"]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(monkeypatch)
    yield made
    made.over.set()
    for thread in made.threads:
        thread.join(60)


@pytest.mark.parametrize(
    ("state", "code", "words"),
    [
        (("Complete", "SUCCEEDED"), 0, "SUCCEEDED after 57s"),
        (("Complete", "FAILED"), 1, "FAILED"),
        (("Failed", "RUNNING"), 1, "FAILED (DeadlineExceeded)"),
    ],
)
def test_the_exit_code_is_the_runs_end(world: World, state: tuple[str, str], code: int, words: str) -> None:
    reason = {"reason": "DeadlineExceeded"} if state[0] == "Failed" else {}
    world.play(*RAN, state, endTime="2026-01-02T03:05:02Z", **reason)
    done = world.run()
    assert done.exit == code
    assert f"rayjob/{JOB}: {words}" in done.err


def test_the_log_is_stdout_and_all_else_is_stderr(world: World) -> None:
    world.play(*RAN, ("Complete", "SUCCEEDED"))
    done = world.run().ok()
    assert done.out == "step 1\nstep 2\n"
    assert "Running, driver RUNNING" in done.err
    assert (world.project.home / f".local/state/kubectl-nrl/runs/{RUN_ID}/driver.log").read_bytes() == done.raw


def test_json_is_one_object_at_the_end_and_the_log_goes_to_stderr(world: World) -> None:
    world.play(*RAN, ("Complete", "SUCCEEDED"), endTime="2026-01-02T03:05:02Z")
    done = world.run("-o json").ok()
    result = done.result("run")
    assert "step 2" in done.err
    assert (result["id"], result["state"], result["exitCode"], result["durationSeconds"]) == (
        RUN_ID,
        "SUCCEEDED",
        0,
        57,
    )
    assert result["log"]["complete"] is True
    assert result["held"]["pods"] == [{"name": "head", "requests": {"cpu": "200m", "memory": "1Gi"}}]
    assert result["held"]["until"] == "2026-01-02 04:05:02 UTC"
    assert result["notGone"] == []


def test_what_is_still_held_and_how_to_release_it_is_said(world: World) -> None:
    world.play(*RAN, ("Complete", "SUCCEEDED"), endTime="2026-01-02T03:05:02Z")
    done = world.run("--ttl 60").ok()
    assert "held until 2026-01-02 03:06:02 UTC (the head, for its log: --ttl): head (cpu 200m, memory 1Gi)" in done.err
    assert f"release it: kubectl nrl job stop {RUN_ID} -n default" in done.err


def test_no_shutdown_says_that_everything_stays(world: World) -> None:
    world.play(*RAN, ("Complete", "SUCCEEDED"), pods_go=False)
    done = world.run("--no-shutdown").ok()
    assert "held for good (--no-shutdown): head (cpu 200m, memory 1Gi); w0" in done.err


def test_a_stopped_run_is_released_since_no_rule_does(world: World) -> None:
    world.play(*RAN, ("Complete", "STOPPED"), pods_go=False)
    world.cluster.after["delete", "RayCluster"] = lambda: [world.cluster.remove("Pod", n) for n in ("head", "w0")]
    done = world.run()
    assert done.exit == 5
    assert "all pods are gone" in done.err
    assert ("RayCluster", "default", "t-test-x1") not in world.cluster.objects
    assert ("RayJob", "default", JOB) in world.cluster.objects


def test_a_stopped_run_is_released_although_it_was_to_be_held(world: World) -> None:
    """No deletion rule matches STOPPED: the hold would never end."""
    world.play(*RAN, ("Complete", "STOPPED"), pods_go=False)
    world.cluster.after["delete", "RayCluster"] = lambda: [world.cluster.remove("Pod", n) for n in ("head", "w0")]
    done = world.run("--hold 600 -o json")
    assert done.exit == 5
    assert "(--hold): it is released now" in done.err
    assert (done.result("run")["held"], done.result("run")["notGone"]) == (None, [])
    assert ("RayCluster", "default", "t-test-x1") not in world.cluster.objects


def test_a_stopped_run_that_kuberay_itself_ends_after_its_hold_says_what_it_holds(world: World) -> None:
    world.facts = replace(world.facts, deletion_rules=False)
    world.play(*RAN, ("Complete", "STOPPED"), pods_go=False, endTime="2026-01-02T03:05:02Z")
    done = world.run("--hold 600")
    assert done.exit == 5
    assert "held until 2026-01-02 03:15:02 UTC (--hold): head (cpu 200m, memory 1Gi); w0" in done.err
    assert not [c for c in world.cluster.calls if c[0] == "delete"]


def test_an_api_server_that_is_away_after_the_end_changes_no_result(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(self: Any, within: float, *, head_too: bool) -> Any:
        raise ClusterError("cannot reach the API server", reason="Unreachable")

    monkeypatch.setattr("kubectl_nrl.watch.Follow.until_gone", away)
    world.play(*RAN, ("Complete", "SUCCEEDED"), pods_go=False)
    done = world.run("-o json").ok()
    result = done.result("run")
    assert (result["state"], result["exitCode"], result["notGone"]) == ("SUCCEEDED", 0, ["head", "w0"])
    assert f"cannot reach the API server\nhint: kubectl nrl status {RUN_ID} -n default" in done.err


def test_pods_that_may_be_listed_and_not_watched_are_waited_for_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubectl_nrl.commands.run_follow.WORKERS", 0.3)
    world.cluster.faults["watch", "Pod"] = ClusterError("cannot watch pods", status=403, reason="Forbidden")
    world.play(*RAN, ("Complete", "SUCCEEDED"), pods_go=False)
    done = world.run("-o json").ok()
    assert done.result("run")["notGone"] == ["w0"]
    assert "the workers are gone" not in done.err


def test_workers_that_nobody_may_see_are_not_said_to_be_gone(world: World) -> None:
    for verb in ("watch", "list"):
        world.cluster.faults[verb, "Pod"] = ClusterError("cannot look at pods", status=403, reason="Forbidden")
    world.play(*RAN, ("Complete", "SUCCEEDED"), pods_go=False)
    done = world.run().ok()
    assert "warning: whether its workers are gone is not known: they cannot be seen" in done.err
    assert "the workers are gone" not in done.err


def test_workers_that_stay_are_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubectl_nrl.commands.run_follow.WORKERS", 0.3)
    world.play(*RAN, ("Complete", "SUCCEEDED"), pods_go=False)
    done = world.run("-o json").ok()
    assert "pod w0 is still there" in done.err
    assert done.result("run")["notGone"] == ["w0"]


def test_the_result_is_said_before_the_workers_are_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubectl_nrl.commands.run_follow.WORKERS", 1.5)
    world.play(*RAN, ("Complete", "SUCCEEDED"), pods_go=False)
    lines = world.run().ok().err.splitlines()
    result = next(i for i, line in enumerate(lines) if line.startswith(f"rayjob/{JOB}: SUCCEEDED"))
    assert result < next(i for i, line in enumerate(lines) if "still there" in line)


def test_giving_up_exits_4_with_lines_that_work_when_pasted(world: World) -> None:
    world.play(*RAN)
    done = world.run("--timeout 1 --context some --kubeconfig '/a b/c'")
    assert done.exit == 4
    line = next(w for w in done.err.splitlines() if "follow it again" in w).split(": ", 1)[1]
    assert shlex.split(line) == [
        "kubectl", "nrl", "job", "logs", RUN_ID, "-f", "-n", "default", "--context", "some", "--kubeconfig", "/a b/c",
    ]  # fmt: skip
    assert ("RayJob", "default", JOB) in world.cluster.objects


def deletes(world: World, *, head_goes: bool = True, orphans: bool = False) -> None:
    """Somebody deletes the RayJob while it runs, and the garbage collector does its work, or is to leave what it owns."""

    def delete() -> None:
        world.cluster.remove("RayJob", JOB)
        if orphans:
            meta = {**world.cluster.objects["RayCluster", "default", "t-test-x1"]["metadata"], "ownerReferences": []}
            world.cluster.put({"kind": "RayCluster", "metadata": meta})
            return
        world.cluster.remove("RayCluster", "t-test-x1")
        world.cluster.remove("Pod", "w0")
        head = world.cluster.objects["Pod", "default", "head"]
        held = {"deletionTimestamp": "2026-01-02T03:05:02Z", "finalizers": ["example.com/hold"]}
        world.cluster.put({**head, "metadata": {**head["metadata"], **held}})
        if head_goes:
            world.cluster.remove("Pod", "head")

    world.play(*RAN, then=delete)


def test_a_run_that_somebody_deletes_was_stopped_and_nothing_of_it_runs(world: World) -> None:
    deletes(world)
    done = world.run("-o json")
    assert done.exit == 5, done.err
    result = done.result("run")
    assert (result["state"], result["exitCode"], result["notGone"]) == ("DELETED", 5, [])
    says = f"rayjob/{JOB} was deleted before it ended, not by this command; nothing of it runs any more"
    assert says in done.err
    assert "may still run" not in done.err and "follow it again" not in done.err


def test_what_of_a_deleted_run_does_not_go_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubectl_nrl.commands.run_deleted.GONE", 0.0)
    deletes(world, head_goes=False)
    done = world.run("-o json")
    assert (done.exit, done.result("run")["notGone"]) == (5, ["head"]), done.err
    assert "not by this command; still ending: head" in done.err
    assert "pod head is still there (being deleted; finalizer example.com/hold)" in done.err


def test_the_ray_cluster_of_a_run_that_was_never_seen_is_looked_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was deleted before this program looked for the first time."""
    monkeypatch.setattr("kubectl_nrl.commands.run_deleted.GONE", 0.0)
    monkeypatch.setattr("kubectl_nrl.watch.follow.UNSEEN", 0.0)

    def delete() -> None:
        world.cluster.remove("RayJob", JOB)
        labels = {"ray.io/originated-from-cr-name": JOB}
        meta = {"name": "t-test-x1", "labels": labels, "deletionTimestamp": "2026-01-02T03:05:02Z"}
        world.cluster.put({"kind": "RayCluster", "metadata": meta})
        pod = {"name": "h", "labels": {"ray.io/cluster": "t-test-x1"}, "deletionTimestamp": "2026-01-02T03:05:02Z"}
        world.cluster.put({"kind": "Pod", "metadata": pod})

    world.cluster.after["create", "RayJob"] = delete
    done = world.run()
    assert (done.exit, "not by this command; still ending: h" in done.err) == (5, True), done.err


def test_a_run_that_is_deleted_without_its_ray_cluster_may_still_run(world: World) -> None:
    deletes(world, orphans=True)
    done = world.run()
    assert done.exit == 6, done.err
    assert "raycluster/t-test-x1 was left behind, and the driver may still run" in done.err
    assert "hint: kubectl delete raycluster t-test-x1 -n default" in done.err


def test_a_spec_that_kuberay_refuses_exits_3(world: World) -> None:
    world.play(("ValidationFailed", ""), message="spec is wrong")
    done = world.run()
    assert done.exit == 3
    assert "spec is wrong" in done.err
    assert "held for good (no deletion rule of KubeRay matches ValidationFailed)" in done.err
    assert ("RayCluster", "default", "t-test-x1") in world.cluster.objects


def test_ctrl_c_leaves_the_run_alone_and_says_how_to_come_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.play(*RAN)

    def interrupt(self: Any, timeout: float | None = None) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("kubectl_nrl.watch.Follow.until_final", interrupt)
    done = world.run()
    assert done.exit == 130
    assert f"kubectl nrl job logs {RUN_ID} -f -n default" in done.err
    assert f"kubectl nrl job stop {RUN_ID} -n default" in done.err
    assert not [c for c in world.cluster.calls if c[0] == "delete"]


def test_ctrl_c_while_the_workers_go_says_that_the_run_is_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: Any, within: float, *, head_too: bool) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("kubectl_nrl.watch.Follow.until_gone", interrupt)
    world.play(*RAN, ("Complete", "FAILED"))
    done = world.run()
    assert done.exit == 130
    assert "interrupted; the run is over (FAILED)" in done.err


def test_ctrl_c_while_creating_takes_back_what_was_made(world: World) -> None:
    world.cluster.faults["create", "RayJob"] = KeyboardInterrupt()
    done = world.run()
    assert done.exit == 130
    assert world.cluster.objects == {}


def test_a_run_of_which_nobody_can_tell_whether_it_exists_says_how_to_come_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubectl_nrl.apply.create.UNANSWERED", 0.0)
    create = world.cluster.create

    def lossy(manifest: Any, *, namespace: str, dry_run: bool = False) -> Any:
        made = create(manifest, namespace=namespace, dry_run=dry_run)
        if manifest["kind"] == "RayJob" and not dry_run:
            world.cluster.faults["get", "RayJob"] = ClusterError("cannot reach it", reason="Unreachable")
            raise ClusterError("lost the API server", reason="ConnectionLost")
        return made

    monkeypatch.setattr(world.cluster, "create", lossy)
    done = world.run("-o json --context some")
    assert done.exit == 6 and done.json["exitCode"] == 6
    assert f"stop and release: kubectl nrl job stop {RUN_ID} -n default --context some" in done.err
    assert f"whether rayjob/{JOB} was created is not known: lost the API server" in done.err
    assert ("RayJob", "default", JOB) in world.cluster.objects


def test_no_wait_returns_at_once_with_the_lines(world: World) -> None:
    done = world.run("--no-wait -o json").ok()
    result = done.result("run")
    assert result["state"] == "Created"
    assert result["commands"]["logs"] in done.err
    assert not [c for c in world.cluster.calls if c[0] == "watch"]


def test_all_refusals_of_the_api_server_are_said_at_once_and_nothing_is_made(world: World) -> None:
    world.cluster.faults["dry-run", "RayJob"] = ClusterError("unknown field spec.foo", status=400)
    world.cluster.faults["dry-run", "Pod"] = ClusterError("volumeMounts[0].name: not found", status=422)
    done = world.run()
    assert done.exit == 3
    assert "unknown field spec.foo" in done.err
    assert "head pod of rayjob/t-test: volumeMounts[0].name: not found" in done.err
    assert world.created() == []


def test_a_missing_namespace_is_one_line_with_its_fix(world: World) -> None:
    missing = ClusterError('namespaces "default" not found', status=404, reason="NotFound")
    world.cluster.faults["dry-run", "RayJob"] = missing
    world.cluster.faults["dry-run", "Pod"] = missing
    done = world.run()
    assert done.exit == 3
    assert 'error: namespace "default" does not exist\nhint: kubectl create namespace default' in done.err


def test_missing_permissions_end_the_run_before_anything_is_made(world: World) -> None:
    world.cluster.denied = {("watch", "rayjobs"), ("get", "rayjobs")}
    done = world.run()
    assert done.exit == 3
    assert "2 checks failed" in done.err
    assert 'hint: ask an admin for verb "watch" on rayjobs.ray.io in namespace "default"' in done.err
    assert world.created() == []


def test_a_check_of_a_plugin_ends_the_run_before_anything_is_made(world: World) -> None:
    world.project.env["KUBECTL_NRL_PLUGINS"] = world.project._add_plugin(
        """
        from kubectl_nrl import hookimpl
        from kubectl_nrl.api import Check

        @hookimpl
        def nrl_preflight(ctx, cluster):
            yield Check("moon phase", False, "the moon is full", "wait a day")
        """
    )
    done = world.run()
    assert done.exit == 3
    assert "error: moon phase: the moon is full\nhint: wait a day" in done.err
    assert world.created() == []


def test_observers_see_the_whole_life_of_a_run(world: World) -> None:
    world.project.env["KUBECTL_NRL_PLUGINS"] = world.project._add_plugin(
        """
        import json, os
        from kubectl_nrl import hookimpl

        @hookimpl
        def nrl_event(event):
            with open("events.jsonl", "a") as file:
                print(json.dumps(dict(event)), file=file)
        """
    )
    world.play(*RAN, ("Complete", "SUCCEEDED"))
    world.run().ok()
    import json

    events = [json.loads(line) for line in world.project.read("events.jsonl").splitlines()]
    names = [e["event"] for e in events]
    assert names[:2] == ["created", "submitted"]
    assert names[-2:] == ["final", "torn-down"]
    assert {e["run"] for e in events} == {RUN_ID}
    assert [e["jobStatus"] for e in events if e["event"] == "state"][-1] == "SUCCEEDED"


def holder(world: World, status: dict[str, Any], owner: str = USER) -> None:
    labels = {"kubectl-nrl/owner": owner, "kubectl-nrl/managed": "true"}
    meta = {"name": "mine", "labels": labels}
    world.cluster.put({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": meta, "status": status})


def test_an_id_of_a_run_on_a_long_lived_cluster_is_taken(world: World) -> None:
    """Every later command goes by the id alone."""
    data = {"id": "train-1", "rayCluster": "gym"}
    labels = {"kubectl-nrl/record": "run"}
    world.cluster.put({"kind": "ConfigMap", "metadata": {"name": "nrl-run-train-1", "labels": labels}, "data": data})
    done = world.run("--run-id train-1")
    assert done.exit == 3
    assert 'run id "train-1" is taken by a run on raycluster/gym (no end was seen)' in done.err
    assert world.created() == []


DONE = {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}


def test_a_used_name_is_never_a_success(world: World) -> None:
    holder(world, DONE)
    done = world.run("--rayjob-name mine")
    assert done.exit == 3
    assert 'RayJob "mine" already exists and finished (SUCCEEDED' in done.err
    assert world.created() == []


def test_replace_deletes_my_finished_run_only_after_the_new_one_was_checked(world: World) -> None:
    holder(world, DONE)
    world.cluster.faults["dry-run", "Pod"] = ClusterError("wrong", status=422)
    assert world.run("--rayjob-name mine --replace --no-wait").exit == 3
    assert not [c for c in world.cluster.calls if c[0] == "delete"]
    del world.cluster.faults["dry-run", "Pod"]
    world.run("--rayjob-name mine --replace --no-wait").ok()
    verbs = [verb for verb, kind, _ in world.cluster.calls if kind == "RayJob"]
    assert verbs.index("delete") < verbs.index("create")


def test_replacing_a_live_run_needs_a_yes_where_nobody_can_be_asked(world: World) -> None:
    holder(world, {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"})
    done = world.run("--rayjob-name mine --replace --no-wait")
    assert done.exit == 2
    assert "--replace --yes" in done.err
    world.run("--rayjob-name mine --replace --yes --no-wait").ok()


def test_no_kuberay_is_said_as_such(world: World) -> None:
    world.facts = replace(OFFLINE, source="cluster", kuberay=False)
    done = world.run()
    assert done.exit == 3
    assert "this cluster has no KubeRay (ray.io/v1 is not served by https://fake)" in done.err
    assert "helm install kuberay-operator" in done.err


@pytest.mark.parametrize(
    "flags",
    ["--ttl 5 --no-shutdown", "--hold 5 --no-shutdown", "--ttl -1", "--hold x", "--timeout -5", "--run-id a/b",
     "--run-id ''", "--dry-run=client", "--dry-run=server --dry-run"],
)  # fmt: skip
def test_wrong_usage_exits_2_and_sends_nothing(world: World, flags: str) -> None:
    done = world.run(flags)
    assert done.exit == 2, done
    assert world.cluster.calls == []


def test_flags_of_long_lived_clusters_draw_a_warning(world: World) -> None:
    done = world.run("--recreate --skip-daemons --no-wait").ok()
    assert "warning: --recreate has no meaning for a RayJob" in done.err
    assert "warning: --skip-daemons has no meaning for a RayJob" in done.err


def test_what_is_wrong_in_the_files_is_said_even_without_a_cluster(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(cluster: Any) -> Any:
        raise ClusterError("connection refused")

    monkeypatch.setattr("kubectl_nrl.facts.discover", unreachable)
    assert world.run().exit == 3
    done = world.run("infra.launch.entrypoint=''")
    assert done.exit == 2
    assert "entrypoint" in done.err


def test_dry_run_prints_what_a_run_would_create_and_sends_nothing(world: World) -> None:
    done = world.run("--dry-run").ok()
    [job] = done.documents
    assert (job["kind"], job["metadata"]["name"]) == ("RayJob", JOB)
    assert "#   echo" in done.out
    assert world.cluster.calls == []
    as_json = world.run("--dry-run -o json").ok().json
    assert as_json["kind"] == "List"


def test_dry_run_server_asks_everything_and_makes_nothing(world: World) -> None:
    done = world.run("--dry-run=server -o json").ok()
    result = done.result("dry_run")
    assert [o["object"] for o in result["objects"]][:2] == [f"rayjob/{JOB}", f"head pod of rayjob/{JOB}"]
    assert all(o["ok"] for o in result["objects"])
    assert world.cluster.objects == {}
    world.cluster.faults["dry-run", "Pod"] = ClusterError("wrong", status=422)
    refused = world.run("--dry-run=server -o json")
    assert refused.exit == 3
    assert refused.result("dry_run")["objects"][1]["message"] == "wrong"


def test_the_wandb_page_is_said_and_recorded(world: World) -> None:
    world.jobs.log = b"wandb: View run at https://wandb.ai/t/p/runs/abc\n"
    world.jobs.chunk = 100
    world.play(*RAN, ("Complete", "SUCCEEDED"))
    done = world.run().ok()
    assert "wandb: https://wandb.ai/t/p/runs/abc" in done.err
    job = world.cluster.objects["RayJob", "default", JOB]
    assert job["metadata"]["annotations"]["kubectl-nrl/wandb-url"] == "https://wandb.ai/t/p/runs/abc"


def test_a_second_writer_of_the_copy_is_none(world: World) -> None:
    from kubectl_nrl.watch import LogCopy, directory

    held = LogCopy.open(directory(RUN_ID, world.project.env))
    assert held is not None
    world.play(*RAN, ("Complete", "SUCCEEDED"))
    assert world.run().ok().out == "step 1\nstep 2\n"
    held.close()


TRACEBACK = (
    b'Traceback (most recent call last):\n  File "x.py", line 1, in f\nRuntimeError: No CUDA GPUs are available\n'
)


def killed(world: World) -> None:
    """The worker's container dies for want of memory and comes back; then its pod goes with the run."""
    pod = world.cluster.objects["Pod", "default", "w0"]
    ended = {"name": "ray", "restartCount": 1, "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}
    world.cluster.put({**pod, "status": {"containerStatuses": [ended]}})


def failing(world: World, monkeypatch: pytest.MonkeyPatch, **status: Any) -> None:
    """A run whose worker dies, which is seen, before the run fails: only what was seen can be told."""
    seen, act = threading.Event(), world.cluster.set_status

    def death_of(pod: Any) -> Any:
        died = triage.death_of(pod)
        if died:
            seen.set()
        return died

    def set_status(*words: Any, **fields: Any) -> None:
        if fields["jobStatus"] == "RUNNING":
            killed(world)
        if fields["jobDeploymentStatus"] == "Failed":
            assert seen.wait(60)
        act(*words, **fields)

    monkeypatch.setattr("kubectl_nrl.watch.wait.death_of", death_of)
    world.cluster.set_status = set_status  # type: ignore[method-assign]
    world.play(*RAN, ("Failed", "FAILED"), endTime="2026-01-02T03:05:02Z", reason="AppFailed", **status)


def test_a_failed_run_ends_with_its_last_error_its_dead_pods_and_what_helps(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.jobs.log, world.jobs.chunk = b"step 1\n" + TRACEBACK, 1000
    failing(world, monkeypatch)
    done = world.run()
    assert done.exit == 1
    said = done.err[done.err.index("last error in its log:") :].splitlines()
    assert said[1:4] == [f"  {line}" for line in TRACEBACK.decode().splitlines()]
    assert said[4] == "pod w0 (workers of w) died: OOMKilled, container ray, exit 137"
    assert said[5].startswith("likely cause: a container used more memory than its limit")
    assert "likely cause: the process sees no GPU (no-gpu)" in said
    assert done.out == "step 1\n" + TRACEBACK.decode()


def test_what_it_died_of_is_data_too_for_run_and_for_job_logs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.jobs.log, world.jobs.chunk = TRACEBACK, 1000
    failing(world, monkeypatch)
    failure = world.run("-o json").result("run")["failure"]
    assert failure["lines"] == TRACEBACK.decode().splitlines()
    assert [pod["name"] for pod in failure["pods"]] == ["w0"]
    assert [hint["id"] for hint in failure["hints"]] == ["pod-oom-killed", "no-gpu"]
    again = world.run(f"{RUN_ID} -f -n default -o json", verb="job logs").result("run")["failure"]
    assert [hint["id"] for hint in again["hints"]] == ["no-gpu"]
    text = world.run(f"{RUN_ID} -f -n default", verb="job logs")
    assert "likely cause: the process sees no GPU" in text.err
    assert "likely cause" not in world.run(f"{RUN_ID} -n default", verb="job logs").err


def test_a_log_that_nobody_followed_is_judged_by_what_kuberay_kept_of_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head may be gone with its log; KubeRay's message holds the last lines."""
    world.jobs.errors = [ClusterError("no such head", reason="Gone")] * 99
    kept = "Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):\n"
    failing(world, monkeypatch, message=kept + TRACEBACK.decode())
    done = world.run()
    assert "  RuntimeError: No CUDA GPUs are available" in done.err
    assert "likely cause: the process sees no GPU" in done.err


def test_a_run_that_succeeded_or_was_stopped_died_of_nothing(world: World) -> None:
    world.jobs.log, world.jobs.chunk = TRACEBACK, 1000
    world.play(*RAN, ("Complete", "SUCCEEDED"), endTime="2026-01-02T03:05:02Z")
    done = world.run("-o json")
    assert done.result("run")["failure"] is None
    assert "last error" not in done.err


@pytest.mark.parametrize(
    ("match", "said"),
    [
        ("No CUDA GPUs", "likely cause: the GPU operator is broken here (ours)\nhint: ask #gpu-help"),
        ("(", 'failure pattern "ours": match is no regular expression'),
    ],
    ids=["right", "broken"],
)
def test_a_plugins_known_failures_come_first_and_a_broken_one_costs_a_warning(
    world: World, monkeypatch: pytest.MonkeyPatch, match: str, said: str
) -> None:
    world.jobs.log, world.jobs.chunk = TRACEBACK, 1000
    world.project.env["KUBECTL_NRL_PLUGINS"] = world.project._add_plugin(
        f"""
        from kubectl_nrl import hookimpl
        from kubectl_nrl.api import FailurePattern

        @hookimpl
        def nrl_failure_patterns():
            yield FailurePattern("ours", {match!r}, "the GPU operator is broken here", "ask #gpu-help")
        """
    )
    failing(world, monkeypatch)
    done = world.run()
    assert done.exit == 1
    assert said in done.err
    assert "likely cause: a container used more memory than its limit" in done.err


def test_a_copy_that_the_disk_has_no_room_for_is_said_once_and_named_nowhere_as_the_log(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Any, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kubectl_nrl.watch.LogCopy.append", full)
    failing(world, monkeypatch)
    done = world.run()
    assert (done.exit, done.out) == (1, "step 1\nstep 2\n")
    assert done.err.count("no copy is kept on this machine any more: No space left on device (") == 1
    assert "\nlog: " not in done.err
