"""Runs in a queue of the real Kueue: they wait with a reason, start when there is quota, are preempted and come again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster.fixtures import Cluster
from command_line import CommandLine, pasted, wait_until
from run_files import files
from waiting import wait_for

pytestmark = pytest.mark.node

KUEUE = "kueue.x-k8s.io/v1beta2"
#: What one run of run_files asks for, and quota for one run and a half.
ONE_AND_A_HALF = {"cpu": "600m", "memory": "3Gi"}


def _listed(items: list[dict[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


@pytest.fixture(scope="module")
def kueue(kwok_cluster: Cluster) -> Iterator[Cluster]:
    """The fake nodes with Kueue, a flavor and two priorities."""
    with kwok_cluster.kueue():
        names = ["resourceflavor/queued-any", "workloadpriorityclass/urgent"]
        items = [
            {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "queued-any"}},
            {"apiVersion": KUEUE, "kind": "WorkloadPriorityClass", "metadata": {"name": "urgent"}, "value": 1000},
        ]
        kwok_cluster.kubectl("apply", "-f", "-", stdin=_listed(items))
        yield kwok_cluster
        kwok_cluster.kubectl(
            "delete", *names
        )  # while Kueue is there to let go of them: the next `apply` would find them going


class Queued(CommandLine):
    """A command line whose runs go to the LocalQueue `rl` of its namespace, and end when their gate is opened.

    Their last words come before the gate: Kueue has the head deleted at once, with what nobody has read yet.
    """

    @property
    def cluster_queue(self) -> str:
        return f"queue-of-{self.namespace}"

    def write_gated(self, *, queue: str = "rl", resources: dict[str, str] | None = None) -> None:
        """A driver that says which attempt runs, and waits for its gate."""
        here = shlex.quote(str(self.directory))
        attempt = f"mkdir {here}/tried-$NRL_K8S_RUN_ID 2>/dev/null && n=1 || n=2"
        gate = f"{here}/open-$NRL_K8S_RUN_ID-$n"
        entrypoint = f"{attempt}; echo started $n; while [ ! -e {gate} ]; do sleep 0.1; done"
        wanted = files(entrypoint, codePath="/tmp", name="q")
        wanted["infra.yaml"]["scheduler"] = {"kind": "kueue", "queue": queue}
        worker = wanted["infra.yaml"]["kuberay"]["training"]["spec"]["workerGroupSpecs"][0]["template"]
        worker["spec"]["containers"][0]["resources"]["requests"].update(resources or {})
        for file, data in wanted.items():
            (self.directory / file).write_text(yaml.safe_dump(data))

    def open(self, run: str, attempt: int = 1) -> None:
        (self.directory / f"open-{run}-{attempt}").touch()

    def queue_objects(self) -> list[dict[str, Any]]:
        resources = [{"name": name, "nominalQuota": quota} for name, quota in ONE_AND_A_HALF.items()]
        group = {"coveredResources": list(ONE_AND_A_HALF), "flavors": [{"name": "queued-any", "resources": resources}]}
        spec = {
            "namespaceSelector": {},
            "preemption": {"withinClusterQueue": "LowerPriority"},
            "resourceGroups": [group],
        }
        local = {"name": "rl", "namespace": self.namespace}
        return [
            {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": self.cluster_queue}, "spec": spec},
            {
                "apiVersion": KUEUE,
                "kind": "LocalQueue",
                "metadata": local,
                "spec": {"clusterQueue": self.cluster_queue},
            },
        ]

    def states(self) -> dict[str, str]:
        return {run["id"]: run["state"] for run in self.json("runs")}


@pytest.fixture
def cli(kueue: Cluster, tmp_path: Path) -> Iterator[Queued]:
    namespace = kueue.namespace("queued")
    line = Queued(kueue, namespace, tmp_path)
    kueue.kubectl("create", "-f", "-", stdin=_listed(line.queue_objects()))
    yield line
    # While Kueue is there to let go of its Workloads: their finalizer would hold the namespace for good.
    kueue.kubectl("-n", namespace, "delete", "rayjobs", "--all", "--wait=false")
    left = ["-n", namespace, "get", "rayjobs,workloads", "-o", "name"]
    wait_until(lambda: not kueue.kubectl(*left), "the runs of the test to be gone")
    kueue.delete_namespace(namespace)
    kueue.kubectl("delete", "clusterqueue", line.cluster_queue)


def test_a_run_waits_with_its_reason_and_starts_when_quota_is_free(cli: Queued) -> None:
    """No limit of time strikes a queue: `--start-timeout` is for what cannot heal alone."""
    cli.write_gated()
    first = cli.start("run recipe.yaml --infra infra.yaml --run-id first")
    first.until(lambda: "started" in first.out, "the first run's driver")
    second = cli.start("run recipe.yaml --infra infra.yaml --run-id second --start-timeout 1")
    second.until(lambda: "insufficient unused quota for cpu" in second.err, "the reason")
    assert "LocalQueue rl" in second.err
    wait_until(lambda: cli.states() == {"first": "Running", "second": "Suspended"}, cli.states)
    assert cli.pods() == ["head", "worker"]
    cli.open("first")
    second.until(lambda: "started" in second.out, "the second run's driver")
    cli.open("second")
    assert (first.end(), second.end()) == (0, 0), f"{first}\n{second}"
    assert second.out == "started 1\n"
    cli.pods_become()


def test_a_preempted_run_says_by_whom_and_is_followed_through_its_second_attempt(cli: Queued) -> None:
    """An eviction is no end: the exit code and the log are those of the attempt that ended."""
    cli.write_gated()
    low = cli.start("run recipe.yaml --infra infra.yaml --run-id low")
    low.until(lambda: "started" in low.out, "the driver of the run that will be preempted")
    high = cli.start(
        "run recipe.yaml --infra infra.yaml --run-id high --rayjob-name boss infra.scheduler.priority=urgent"
    )
    high.until(lambda: "started" in high.out, "the driver of the run that preempts")
    low.until(lambda: "Preempted" in low.err, "the preemption")
    assert "rayjob/boss" in low.err
    cli.open("high")
    low.until(lambda: "started 2" in low.out, "the driver of its second attempt")
    cli.open("low", attempt=2)  # the first one may live for a moment after its eviction
    assert (high.end(), low.end()) == (0, 0), f"{high}\n{low}"
    assert low.out == "started 1\nstarted 2\n"
    assert "SUCCEEDED" in low.err
    cli.pods_become()


def test_a_queued_run_is_left_found_and_stopped(cli: Queued) -> None:
    """A run that waits holds nothing, is told from a running one, and goes without a trace in the queue."""
    cli.write_gated()
    first = cli.json("run recipe.yaml --infra infra.yaml --run-id first --no-wait")
    wait_until(lambda: cli.states() == {"first": "Running"}, "the first run to run")
    left = cli.run("run recipe.yaml --infra infra.yaml --run-id second --no-wait")
    wait_until(lambda: cli.states() == {"first": "Running", "second": "Suspended"}, "the second run to be queued")
    [waiting] = [run for run in cli.json("runs") if run["id"] == "second"]
    assert (waiting["gpusHeld"], waiting["final"], waiting["reason"]) == (0, False, "queued, or by hand")
    cli.run(pasted(left.err, "stop and release"))
    workloads = ["-n", cli.namespace, "get", "workloads", "-o", "jsonpath={.items[*].metadata.ownerReferences[0].name}"]
    wait_until(lambda: cli.cluster.kubectl(*workloads).split() == [first["rayjob"]], "its Workload to go")
    cli.open("first")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"queue": "nope"}, 'not found in namespace "{namespace}"'),
        ({"resources": {"example.com/widget": "1"}}, "does not cover example.com/widget"),
        ({"resources": {"memory": "64Gi"}}, "65Gi memory of at most 3Gi"),
    ],
    ids=["no such queue", "a resource without quota", "more than the quota"],
)
def test_what_the_queue_would_never_admit_is_refused_before_anything_exists(
    cli: Queued, changes: dict[str, Any], words: str
) -> None:
    cli.write_gated(**changes)
    refused = cli.run("run recipe.yaml --infra infra.yaml", expect=3)
    assert words.format(namespace=cli.namespace) in refused.err
    assert cli.rayjobs() == []


@pytest.mark.parametrize(
    ("queue", "resources", "words"),
    [
        ("nope", {}, "LocalQueue nope doesn't exist"),
        ("rl", {"example.com/widget": "1"}, "example.com/widget unavailable in ClusterQueue"),
        ("rl", {"memory": "64Gi"}, "> maximum capacity (3Gi)"),
    ],
    ids=["no such queue", "a resource without quota", "more than the quota"],
)
def test_what_the_queue_never_admits_is_told_from_what_passes(
    cli: Queued, queue: str, resources: dict[str, str], words: str
) -> None:
    """For a run that was made when the queue was still right: waiting does not help, and the reason says so."""
    from nrl_plugins.scheduler_kueue import KueueScheduler

    from kubectl_nrl.cluster import Cluster as Api

    cli.write_gated(queue=queue, resources=resources)
    made = cli.run("run recipe.yaml --infra infra.yaml --dry-run -o json").out
    [rayjob] = [item for item in json.loads(made)["items"] if item["kind"] == "RayJob"]
    cli.cluster.kubectl("-n", cli.namespace, "create", "-f", "-", stdin=json.dumps(rayjob))
    api = Api.connect(kubeconfig=str(cli.cluster.kubeconfig))

    def reasons() -> list[Any]:
        [live] = api.list("ray.io/v1", "RayJob", cli.namespace)
        return list(KueueScheduler().reasons(live, api))

    said = wait_for(
        lambda: [reason for reason in reasons() if words in reason.message], lambda: f"{words}; it says {reasons()}"
    )
    assert [reason.heals for reason in said] == [False]
