"""kill -9 at every step of `run`: what was created goes on without its maker, and nothing is left that nobody finds."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster.fixtures import Cluster
from command_line import CommandLine, Running, wait_until
from devices import DomainController, publish
from run_files import files
from stepping import SteppingProxy
from waiting import PATIENCE

from kubectl_nrl.testing import Project

pytestmark = pytest.mark.node

#: Everything that a run can leave, in `kubectl get` words. (The head's Service is KubeRay's, and goes with the RayJob.)
KINDS = "pods,rayclusters,resourceclaims,resourceclaimtemplates,computedomains,deployments,configmaps"
#: No run has so many steps: a test that gets there does not end.
MANY = 40


@dataclass
class Slaughter:
    """Runs of one infra file, each killed a step later than the one before, until one lived to see its driver's first line."""

    cli: CommandLine
    go: Path
    more: str = ""
    signal: int = signal.SIGKILL
    killed: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)

    def objects(self, kinds: str = KINDS) -> set[str]:
        words = ["-n", self.cli.namespace, "get", kinds, "-o", "name"]
        return set(self.cli.cluster.kubectl(*words).split()) - {"configmap/kube-root-ca.crt"}

    def rayjobs(self) -> dict[str, dict[str, Any]]:
        """By run id."""
        listed = json.loads(self.cli.cluster.kubectl("-n", self.cli.namespace, "get", "rayjobs", "-o", "json"))
        return {job["metadata"]["labels"]["kubectl-nrl/run"]: job for job in listed["items"]}

    def states(self) -> dict[str, str]:
        """Ray's word for each run."""
        return {run: str((job.get("status") or {}).get("jobStatus")) for run, job in self.rayjobs().items()}

    def gone(self, kinds: str) -> None:
        """Wait until no such object is there."""
        wait_until(lambda: not self.objects(kinds), lambda: f"nothing left: {self.objects(kinds)} of {self.states()}")

    def id(self, step: int) -> str:
        """The run id of a step."""
        return f"{self.cli.namespace}-{step}"

    def at(self, step: int, *, sending: str = "") -> bool:
        """Run, and kill it when the API server has carried out that step; False when it did not come to so many.

        With `sending` it is killed as it sends the first request of that method, which does not arrive.
        """
        run, running = self.id(step) + sending.lower(), list[Running]()
        struck = threading.Event()

        def strike() -> None:
            struck.set()
            os.kill(running[0].process.pid, self.signal)

        def before(_: int) -> None:
            if sending and not struck.is_set() and proxy.steps[-1].startswith(f"{sending} "):
                strike()
                raise ConnectionResetError("who sent this is dead")

        def after(now: int) -> None:
            # Of two steps at once, the first answer may come after the second question.
            if not sending and now >= step and not struck.is_set():
                strike()

        with SteppingProxy(self.cli.cluster.kubeconfig, before=before, after=after) as proxy:
            line = f"run recipe.yaml --infra infra.yaml --ttl 0 --run-id {run} {self.more}"
            running.append(self.cli.start(line, KUBECONFIG=str(proxy.kubeconfig)))
            process = running[0].process
            wait_until(
                lambda: process.poll() is not None or (not struck.is_set() and "waiting for go" in running[0].out),
                lambda: f"step {step}: {proxy.steps}\n{running[0]}",
            )
            self.steps = list(proxy.steps)
            lived = not struck.is_set()
            if lived:
                process.kill()
            expected = -signal.SIGKILL if lived or self.signal == signal.SIGKILL else 130
            assert process.wait(PATIENCE) == expected, running[0]
        self.killed.append(run)
        return not lived

    def everywhere(self) -> None:
        step = 1
        while self.at(step):
            step += 1
            assert step < MANY, self.steps

    def clean(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        """As after the minutes in which it leaves young things alone."""
        for name in ("SETTLING", "SETTLED", "LATE"):
            monkeypatch.setattr(import_module("kubectl_nrl.runs.leftovers"), name, -1.0)
        return self.clean_now()

    def clean_now(self) -> Any:
        env = {"KUBECONFIG": str(self.cli.cluster.kubeconfig), "NRL_K8S_USER": "e2e"}
        done = Project(env=env).run(f"clean --yes -n {self.cli.namespace} -o json")
        assert done.exit == 0, done
        return done.result("clean")["cluster"]["leftovers"]


@pytest.fixture
def slaughter(kwok_cluster: Cluster, kwok_namespace: str, tmp_path: Path) -> Iterator[Slaughter]:
    go = tmp_path / "go"
    yield Slaughter(CommandLine(kwok_cluster, kwok_namespace, tmp_path), go)
    go.touch()  # no driver outlives its test


def with_claims(slaughter: Slaughter) -> None:
    """A run with a ComputeDomain and a claim template, whose driver waits for `go`."""
    cli = slaughter.cli
    publish(cli.cluster)
    data = files(f"echo waiting for go; while [ ! -e {slaughter.go} ]; do sleep 0.2; done", image="fake/ray:1")
    data["infra.yaml"]["launch"]["codePath"] = str(slaughter.go.parent)
    pod = data["infra.yaml"]["kuberay"]["training"]["spec"]["workerGroupSpecs"][0]["template"]["spec"]
    pod["resourceClaims"] = [{"name": "compute-domain-channel"}, {"name": "roce-channel"}]
    for name, content in data.items():
        (cli.directory / name).write_text(yaml.safe_dump(content))


def test_a_run_with_claims_killed_at_every_step_leaves_nothing_that_clean_does_not_find(
    slaughter: Slaughter, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli = slaughter.cli
    with_claims(slaughter)
    with DomainController(cli.cluster, cli.namespace):
        slaughter.everywhere()
    assert {step.split()[0] for step in slaughter.steps} == {"POST", "PATCH", "GET"}
    made = slaughter.rayjobs()
    assert set(slaughter.killed) > set(made), "some were killed before their RayJob existed, some after"

    # Nothing of what is young or runs is taken, whoever asks.
    before = slaughter.objects()
    assert slaughter.clean_now() == []
    assert slaughter.objects() >= before

    # A run goes on without its maker, and is found by its id from elsewhere.
    first, *_, last = made
    followers = [cli.start(f"job logs {run} -f", **cli.elsewhere()) for run in (first, last)]
    for follower in followers:
        follower.until(lambda follower=follower: "waiting for go" in follower.out, "the log")
    slaughter.go.touch()
    for follower in followers:
        assert follower.end() == 0, follower
        assert follower.out == "waiting for go\n"

    wait_until(
        lambda: set(slaughter.states().values()) == {"SUCCEEDED"}, lambda: f"all to succeed: {slaughter.states()}"
    )
    slaughter.gone("pods,rayclusters,resourceclaims")
    found = slaughter.clean(monkeypatch)
    orphans = {left["run"] for left in found if left["kind"] == "ComputeDomain"}
    assert orphans - set(made), "children of a run that was never made"
    slaughter.gone(KINDS)
    assert set(slaughter.rayjobs()) == set(made)
    assert slaughter.clean(monkeypatch) == []


def test_an_upload_killed_at_every_step_is_submitted_or_gives_its_pods_back(slaughter: Slaughter) -> None:
    """A run whose code has not come waits for it, holding its pods: another laptop goes on, or the deadline ends it."""
    cli = slaughter.cli
    data = files("sh train.sh", image="fake/ray:1", codeSource="upload", preRunningDeadlineSeconds=3600)
    data["infra.yaml"]["launch"].pop("codePath")
    for name, content in data.items():
        (cli.directory / name).write_text(yaml.safe_dump(content))
    code = cli.directory / "code"
    code.mkdir()
    (code / "train.sh").write_text(f"echo waiting for go; while [ ! -e {slaughter.go} ]; do sleep 0.2; done")
    slaughter.more = "--repo-root code"
    slaughter.everywhere()
    assert slaughter.at(0, sending="PATCH"), slaughter.steps
    untold = slaughter.killed[-1]

    # Ray has the job by now, and KubeRay was never told.
    resumed = cli.start(f"job resume {untold} --repo-root code", **cli.elsewhere())
    resumed.until(lambda: "waiting for go" in resumed.out, "the log")
    assert f"Ray has job {untold} already" in resumed.err
    submitted = {run for run, job in slaughter.rayjobs().items() if job["spec"].get("jobId")}
    assert untold in submitted
    assert submitted < set(slaughter.rayjobs()), "some were killed before they submitted"

    slaughter.go.touch()
    assert resumed.end() == 0, resumed
    assert resumed.out == "waiting for go\n"
    for run, job in slaughter.rayjobs().items():
        if run not in submitted:
            cli.patch_rayjob(job["metadata"]["name"], preRunningDeadlineSeconds=1)

    def ends() -> dict[str, str]:
        statuses = {run: job.get("status") or {} for run, job in slaughter.rayjobs().items()}
        return {run: str(status.get("jobStatus") or status.get("reason")) for run, status in statuses.items()}

    wait_until(
        lambda: set(ends().values()) == {"SUCCEEDED", "PreRunningDeadlineExceeded"}, lambda: f"the ends: {ends()}"
    )
    assert {run for run, end in ends().items() if end == "SUCCEEDED"} == submitted
    slaughter.gone("pods,rayclusters")


def test_ctrl_c_at_every_step_takes_all_back_or_leaves_a_whole_run(slaughter: Slaughter) -> None:
    cli = slaughter.cli
    with_claims(slaughter)
    slaughter.signal = signal.SIGINT
    with DomainController(cli.cluster, cli.namespace):
        slaughter.everywhere()
    made = slaughter.rayjobs()
    assert set(slaughter.killed) > set(made), "some were interrupted before their RayJob existed, some after"

    def children() -> dict[str, Any]:
        words = ["get", "computedomains,resourceclaimtemplates", "-l", "kubectl-nrl/run", "-o", "json"]
        items = json.loads(cli.cluster.kubectl("-n", cli.namespace, *words))["items"]
        return {item["metadata"]["uid"]: item["metadata"] for item in items}

    def stray() -> list[str]:
        return [meta["name"] for meta in children().values() if meta["labels"]["kubectl-nrl/run"] not in made]

    wait_until(lambda: not stray(), lambda: f"{stray()} to be rolled back")
    assert len(children()) == 2 * len(made)
    for meta in children().values():
        [owner] = meta["ownerReferences"]
        assert owner["uid"] == made[meta["labels"]["kubectl-nrl/run"]]["metadata"]["uid"]
    slaughter.go.touch()
    wait_until(
        lambda: set(slaughter.states().values()) == {"SUCCEEDED"}, lambda: f"all to succeed: {slaughter.states()}"
    )
    slaughter.gone("pods,rayclusters,resourceclaims")
