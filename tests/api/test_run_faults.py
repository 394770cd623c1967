"""Answers that no run wants, at each step of its making: what was made is taken back, and said with what was refused."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from cluster.fixtures import Cluster
from devices import DomainController, publish
from run_files import files
from stepping import SteppingProxy
from waiting import PATIENCE, wait_until

from kubectl_nrl.testing import RUN_ID, Outcome, Project

pytestmark = pytest.mark.api

JOB = "t-test"
KINDS = "rayjobs,computedomains,resourceclaimtemplates"
#: Steps of creating a run with claims: the domain, the NICs' template, the RayJob; then the two learn their owner.
MAKING, OWNING = (1, 2, 3), (4, 5)


class Site:
    """A namespace of an API server on which nothing acts but the controller of ComputeDomains."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        data = files(name="t")
        pod = data["infra.yaml"]["kuberay"]["training"]["spec"]["workerGroupSpecs"][0]["template"]["spec"]
        pod["resourceClaims"] = [{"name": "compute-domain-channel"}, {"name": "roce-channel"}]
        self.project = Project(data, env={"KUBECONFIG": str(cluster.kubeconfig)})

    def run(self, more: str = "--no-wait", **words: Any) -> Outcome:
        return self.project.run(f"run recipe.yaml --infra infra.yaml -n {self.namespace} {more}", **words)

    def refused(self, status: int, step: int) -> Outcome:
        """A run whose n-th step is answered with that status."""

        def refuse(now: int) -> None:
            if now == step:
                proxy.answer(status)

        with SteppingProxy(self.cluster.kubeconfig, before=refuse) as proxy:
            return self.run(env={"KUBECONFIG": str(proxy.kubeconfig)})

    def names(self, kinds: str = KINDS) -> list[str]:
        return self.cluster.kubectl("-n", self.namespace, "get", kinds, "-o", "name").split()

    def empty(self) -> None:
        self.become(set())

    def become(self, wanted: set[str]) -> None:
        """Wait until these are all there are."""
        wait_until(lambda: set(self.names()) == wanted, self.names)


@pytest.fixture
def site(api_cluster: Cluster, api_namespace: str) -> Iterator[Site]:
    publish(api_cluster)
    with DomainController(api_cluster, api_namespace):
        yield Site(api_cluster, api_namespace)


@pytest.mark.parametrize("status", [403, 500, 503])
def test_a_refusal_in_the_middle_takes_back_what_was_made_and_says_so(site: Site, status: int) -> None:
    for step in MAKING:
        done = site.refused(status, step)
        assert done.exit == 3, done
        assert f"cannot create {('computedomains', 'resourceclaimtemplates', 'rayjobs')[step - 1]}" in done.err
        assert f'in namespace "{site.namespace}"' in done.err
        assert done.err.count("rolled back: ") == step - 1, done
        site.empty()


def test_a_child_that_somebody_else_creates_in_the_middle_stays_as_it_is_and_ours_go(site: Site) -> None:
    """Between the dry run, which found its name free, and its creation."""
    request = {"name": "nic", "exactly": {"deviceClassName": "bobs.example"}}
    theirs: dict[str, Any] = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": f"roce-{JOB.replace('-', '-training-')}", "labels": {"kubectl-nrl/owner": "bob"}},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    name = theirs["metadata"]["name"]

    def intrude(step: int) -> None:
        if step == MAKING[1]:
            site.cluster.kubectl("-n", site.namespace, "create", "-f", "-", stdin=json.dumps(theirs))

    with SteppingProxy(site.cluster.kubeconfig, before=intrude) as proxy:
        done = site.run(env={"KUBECONFIG": str(proxy.kubeconfig)})
    assert done.exit == 3, done
    assert f'"{name}" already exists' in done.err
    assert done.err.count("rolled back: computedomain/") == done.err.count("rolled back: ") == 1
    template = f"resourceclaimtemplate.resource.k8s.io/{name}"
    site.become({template})
    live = json.loads(site.cluster.kubectl("-n", site.namespace, "get", template, "-o", "json"))
    assert live["metadata"]["labels"] == {"kubectl-nrl/owner": "bob"}
    assert "ownerReferences" not in live["metadata"]
    assert live["spec"]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "bobs.example"


def test_a_child_that_may_not_be_told_its_owner_costs_a_warning(site: Site) -> None:
    for step in OWNING:
        done = site.refused(403, step).ok()
        assert done.err.count("will not be removed with the run: cannot patch") == 1, done
        assert f"rayjob.ray.io/{JOB}" in site.names()
        site.cluster.kubectl("-n", site.namespace, "delete", KINDS, "--all")
        site.empty()


def test_two_runs_of_one_infra_file_share_nothing(site: Site) -> None:
    site.run().ok()
    site.project.suffix = "two"
    site.run().ok()
    listed = json.loads(site.cluster.kubectl("-n", site.namespace, "get", KINDS, "-o", "json"))["items"]
    by_run: dict[str, set[tuple[str, str]]] = {}
    for made in listed:
        run = made["metadata"]["labels"].get("kubectl-nrl/run")
        if run:  # the other templates are the controller's
            by_run.setdefault(run, set()).add((made["kind"], made["metadata"]["name"]))
    assert [len(made) for made in by_run.values()] == [3, 3]
    assert not set.intersection(*by_run.values())


def test_a_namespace_that_is_being_deleted_takes_no_run(site: Site) -> None:
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    kubectl = site.cluster.kubectl
    kubectl("-n", site.namespace, "create", "configmap", "held")
    kubectl("-n", site.namespace, "patch", "configmap", "held", "--type=merge", "-p", json.dumps(hold))
    try:
        kubectl("delete", "namespace", site.namespace, "--wait=false")
        done = site.run()
        assert done.exit == 3, done
        assert f'namespace "{site.namespace}" is being deleted' in done.err
        assert site.names() == []
    finally:
        free = json.dumps({"metadata": {"finalizers": None}})
        kubectl("-n", site.namespace, "patch", "configmap", "held", "--type=merge", "-p", free)


def test_an_api_server_that_stays_away_ends_the_wait_as_unknown(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubectl_nrl.watch.follow.PATIENCE", 3.0)

    def go_away(step: int) -> None:
        if step > OWNING[-1] and leaving.ident is None:  # the first watch
            leaving.start()

    def away() -> None:
        proxy.refuse()
        proxy.cut()

    leaving = threading.Timer(1.0, away)
    with SteppingProxy(site.cluster.kubeconfig, after=go_away) as proxy:
        done = site.run("", env={"KUBECONFIG": str(proxy.kubeconfig)})
        leaving.join()
    assert done.exit == 6, done
    assert "the API server has not been reached for" in done.err
    assert f"kubectl nrl job logs {RUN_ID} -f -n {site.namespace}" in done.err
    assert f"rayjob.ray.io/{JOB}" in site.names()


@pytest.mark.parametrize("status", [429, 500, 503])
def test_answers_of_an_api_server_in_trouble_while_waiting_cost_only_time(site: Site, status: int) -> None:
    def operator() -> None:
        wait_until(lambda: f"rayjob.ray.io/{JOB}" in site.names("rayjobs"), "the RayJob")
        body = json.dumps({"status": {"jobDeploymentStatus": "Complete", "jobStatus": "FAILED"}})
        words = ["patch", "rayjob", JOB, "--subresource=status", "--type=merge", "-p", body]
        site.cluster.kubectl("-n", site.namespace, *words)

    waiting = threading.Thread(target=operator)
    with SteppingProxy(site.cluster.kubeconfig) as proxy:
        rule = proxy.answer(status, times=3, path=r"/rayjobs\?.*fieldSelector")
        waiting.start()
        done = site.run(f"--timeout {PATIENCE:.0f}", env={"KUBECONFIG": str(proxy.kubeconfig)})
        waiting.join()
    assert done.exit == 1, done
    assert rule.hits == 3
