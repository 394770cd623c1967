"""`run` against a real API server on which nothing acts: the tests play the operator by writing RayJob statuses."""

from __future__ import annotations

import copy
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cluster.fault_proxy import FaultProxy
from cluster.fixtures import Cluster
from run_files import files
from waiting import PATIENCE, wait_until

from kubectl_nrl.testing import RUN_ID, Outcome, Project

pytestmark = pytest.mark.api

JOB = "t-test"


class Bench:
    """A Project whose runs go to one namespace, and the hand that plays KubeRay."""

    def __init__(self, cluster: Cluster, namespace: str, **words: Any) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.project = Project(files(**words), env={"KUBECONFIG": str(cluster.kubeconfig)})
        self.threads: list[threading.Thread] = []
        self.finished = 0.0

    def run(self, more: str = "", **words: Any) -> Outcome:
        """Run it; the timeout guards against a hand that failed, and a test's own comes later and wins."""
        line = f"run recipe.yaml --infra infra.yaml -n {self.namespace} --timeout {PATIENCE:.0f} {more}"
        return self.project.run(line, **words)

    def status(self, name: str = JOB, **status: Any) -> None:
        body = json.dumps({"status": status})
        self.kubectl("patch", "rayjob", name, "--subresource=status", "--type=merge", "-p", body)

    def kubectl(self, *words: str) -> str:
        return self.cluster.kubectl("-n", self.namespace, *words)

    def later(self, seconds: float, act: Callable[[], Any]) -> None:
        def wait_and_act() -> None:
            time.sleep(seconds)
            act()

        self.threads.append(threading.Thread(target=wait_and_act))
        self.threads[-1].start()

    def when_created(self, act: Callable[[], Any]) -> None:
        """Act as soon as the RayJob is there."""

        def wait_and_act() -> None:
            wait_until(lambda: f"rayjob.ray.io/{JOB}" in self.names("rayjobs"), "the RayJob")
            act()

        self.threads.append(threading.Thread(target=wait_and_act))
        self.threads[-1].start()

    def names(self, kinds: str) -> list[str]:
        return self.kubectl("get", kinds, "-o", "name").split()

    def uid(self, name: str = JOB) -> str:
        return self.kubectl("get", "rayjob", name, "-o", "jsonpath={.metadata.uid}")


@pytest.fixture
def bench(api_cluster: Cluster, api_namespace: str) -> Iterator[Bench]:
    made = Bench(api_cluster, api_namespace)
    yield made
    for thread in made.threads:
        thread.join()


def test_what_only_the_server_sees_is_refused_before_anything_exists(bench: Bench) -> None:
    broken = copy.deepcopy(files()["infra.yaml"])
    [group] = broken["kuberay"]["training"]["spec"]["workerGroupSpecs"]
    group["template"]["spec"]["topologySpreadConstraints"] = [
        {"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    ]
    bench.project.write("infra.yaml", broken)
    done = bench.run()
    assert done.exit == 3
    assert f"pods of group w of rayjob/{JOB}" in done.err
    assert bench.names("rayjobs,pods") == []
    asked = bench.run("--dry-run=server -o json")
    assert asked.exit == 3
    assert [o["ok"] for o in asked.result("dry_run")["objects"]] == [True, True, False]


def test_a_queue_of_a_cluster_without_kueue_is_refused_before_anything_exists(bench: Bench) -> None:
    queued = {**files()["infra.yaml"], "scheduler": {"kind": "kueue", "queue": "rl"}}
    bench.project.write("infra.yaml", queued)
    done = bench.run()
    assert done.exit == 3
    assert "this cluster has no Kueue" in done.err
    assert "leave `scheduler` out, or ask for Kueue to be installed" in done.err
    assert bench.names("rayjobs") == []


def test_a_missing_namespace_is_named_with_its_fix(bench: Bench) -> None:
    done = bench.project.run("run recipe.yaml --infra infra.yaml -n no-such-namespace")
    assert done.exit == 3
    assert 'namespace "no-such-namespace" does not exist' in done.err
    assert "kubectl create namespace no-such-namespace" in done.err


def test_the_end_is_noticed_and_gives_the_exit_code(bench: Bench) -> None:
    def operator() -> None:
        bench.status(jobDeploymentStatus="Running", jobStatus="RUNNING")
        bench.status(jobDeploymentStatus="Failed", jobStatus="RUNNING", reason="DeadlineExceeded", message="too long")

    bench.when_created(operator)
    done = bench.run()
    assert done.exit == 1, done
    assert f"rayjob/{JOB}: FAILED (DeadlineExceeded)" in done.err


def test_a_used_name_is_an_error_with_its_result_and_replace_makes_a_new_run(bench: Bench) -> None:
    bench.run("--no-wait --rayjob-name again").ok()
    old = bench.uid("again")
    live = bench.run("--no-wait --rayjob-name again --run-id second")
    assert live.exit == 3
    assert 'RayJob "again" already exists and is live (Created' in live.err
    bench.status("again", jobDeploymentStatus="Complete", jobStatus="SUCCEEDED", endTime="2026-01-01T00:00:00Z")
    finished = bench.run("--no-wait --rayjob-name again --run-id second")
    assert finished.exit == 3
    assert "already exists and finished (SUCCEEDED, " in finished.err
    assert bench.uid("again") == old
    bench.run("--no-wait --rayjob-name again --run-id second --replace").ok()
    assert bench.uid("again") != old
    label = bench.kubectl("get", "rayjob", "again", "-o", "jsonpath={.metadata.labels.kubectl-nrl/run}")
    assert label == "second"


def test_another_object_under_the_name_is_not_the_run_that_was_started(bench: Bench) -> None:
    def replace() -> None:
        manifest = json.loads(bench.kubectl("get", "rayjob", JOB, "-o", "json"))
        bench.kubectl("delete", "rayjob", JOB, "--wait=true")
        manifest["metadata"] = {"name": JOB, "namespace": bench.namespace}
        bench.cluster.kubectl("create", "-f", "-", stdin=json.dumps(manifest))
        bench.status(jobDeploymentStatus="Complete", jobStatus="SUCCEEDED")

    bench.when_created(replace)
    done = bench.run()
    assert done.exit == 5, done
    assert f"rayjob/{JOB} was deleted before it ended" in done.err
    assert "not by this command; nothing of it runs any more" in done.err
    assert "kubectl nrl job logs" not in done.err, "there is nothing to come back to"


def test_a_cut_connection_costs_nothing_but_time(bench: Bench) -> None:
    with FaultProxy(bench.cluster.kubeconfig) as proxy:

        def operator() -> None:
            bench.status(jobDeploymentStatus="Running", jobStatus="RUNNING")
            wait_until(
                lambda: any("/rayjobs" in seen.target and "watch=1" in seen.target for seen in list(proxy.seen)),
                "a watch",
            )
            away = proxy.answer(503, times=None, path="/rayjobs")
            proxy.cut()
            bench.status(jobDeploymentStatus="Complete", jobStatus="FAILED")
            away.arrived(8)  # one request is tried three times before it counts as an outage
            proxy.clear()

        bench.when_created(operator)
        done = bench.run(env={"KUBECONFIG": str(proxy.kubeconfig)})
        bench.threads[0].join()
    assert done.exit == 1, done
    assert done.err.count("lost") == done.err.count("is back") == 1


def test_api_errors_while_creating_leave_nothing_behind(bench: Bench) -> None:
    with FaultProxy(bench.cluster.kubeconfig) as proxy:
        proxy.answer(403, method="POST", path=r"/rayjobs\?(?!.*dryRun)", times=None)
        done = bench.run(env={"KUBECONFIG": str(proxy.kubeconfig)})
    assert done.exit == 3, done
    assert bench.names("rayjobs") == []


RAYJOBS = {"apiGroups": ["ray.io"], "resources": ["rayjobs"], "verbs": ["get", "list", "watch", "create"]}


def test_who_may_do_little_is_told_what_that_costs(bench: Bench) -> None:
    limited = bench.cluster.user(bench.namespace, [RAYJOBS])
    bench.when_created(lambda: bench.status(jobDeploymentStatus="Complete", jobStatus="SUCCEEDED"))
    done = bench.run(env={"KUBECONFIG": str(limited)})
    assert done.exit == 0, done
    assert "pod templates were not checked by the API server: you may not create pods" in done.err
    [note] = [line for line in done.err.splitlines() if "pods/portforward" in line]
    assert "a run does without" in note and "to show the driver's log" in note


def test_who_may_not_create_rayjobs_gets_one_line_and_no_object(bench: Bench) -> None:
    reader = {**RAYJOBS, "verbs": ["get", "list", "watch"]}
    limited = bench.cluster.user(bench.namespace, [reader], name="reader")
    done = bench.run(env={"KUBECONFIG": str(limited)})
    assert done.exit == 3
    assert "rayjobs" in done.err
    assert "Traceback" not in done.err
    assert bench.names("rayjobs") == []


def test_runs_and_stop_go_by_labels_on_the_server(bench: Bench) -> None:
    bench.run("--no-wait").ok()
    listed = bench.project.run(f"runs -n {bench.namespace} -o json").ok().result("runs")
    assert [(r["id"], r["state"], r["gpusHeld"]) for r in listed] == [(RUN_ID, "Created", 0)]
    other = {"NRL_K8S_USER": "anna"}
    assert bench.project.run(f"runs -n {bench.namespace} -o json", env=other).ok().json == []
    refused = bench.project.run(f"job stop {RUN_ID} -n {bench.namespace}", env=other)
    assert refused.exit == 2
    assert "--force --yes" in refused.err
    stopped = bench.project.run(f"job stop {RUN_ID} -n {bench.namespace} -o json").ok().result("job_stop")
    assert stopped["deleted"] is True
    assert bench.names("rayjobs") == []
