"""`logs` on a cluster: whose log the words mean, which pods are read, and how their lines are told apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from ray_cluster_case import RayClusters, job
from run_files import files

from kubectl_nrl.errors import ClusterError
from kubectl_nrl.testing import USER, Project


class Pods(RayClusters):
    """Ray clusters with pods, each of which says its name and a number."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster.pod_log_stream = self.pod_log_stream  # type: ignore[attr-defined]
        self.asked: list[tuple[str, dict[str, str]]] = []

    def pod(self, name: str, ray_cluster: str, node_type: str, **more: Any) -> None:
        labels = {"ray.io/cluster": ray_cluster, "ray.io/node-type": node_type}
        status = {"phase": "Running", "containerStatuses": [{"name": "ray", "state": {"running": {}}}]}
        spec = {"containers": [{"name": "ray"}]}
        self.cluster.put(
            {"kind": "Pod", "metadata": {"name": name, "labels": labels, **more}, "spec": spec, "status": status}
        )

    def pod_log_stream(
        self, namespace: str, name: str, query: Mapping[str, str], *, cancelled: Callable[[], bool]
    ) -> Iterator[bytes]:
        self.asked.append((name, dict(query)))
        return iter([b"2026-11-30T12:00:00.5Z " + name.encode() + b" says 1\n2026-11-30T12:00:01Z \xff2\n"])


@pytest.fixture
def pods(monkeypatch: pytest.MonkeyPatch) -> Pods:
    found = Pods()
    monkeypatch.setattr("kubectl_nrl.cluster.Cluster.connect", lambda **words: found.cluster)
    monkeypatch.setattr("kubectl_nrl.ray_jobs.connect", found.connect)
    return found


def put_run(pods: Pods, **status: str) -> None:
    labels = {"kubectl-nrl/owner": USER, "kubectl-nrl/run": "id-1", "kubectl-nrl/cluster": "t"}
    job = {"kind": "RayJob", "metadata": {"name": "r", "labels": labels}}
    pods.cluster.put({**job, "status": {"rayClusterName": "r-x", "jobId": "id-1", **status}})


def test_a_run_shows_its_driver_and_its_pods_when_asked(pods: Pods) -> None:
    put_run(pods, jobDeploymentStatus="Running", jobStatus="RUNNING")
    pods.put("r-x", **{"ray.io/originated-from-crd": "RayJob", "ray.io/originated-from-cr-name": "r"})
    pods.pod("h", "r-x", "head")
    pods.pod("w1", "r-x", "worker")
    pods.pod("other", "r-y", "worker")
    project = Project(files())
    for words in ("id-1", "rayjob/r", "recipe.yaml --infra infra.yaml"):
        assert project.run(f"logs {words} -n default").ok().out == "one\ntwo\n"
        assert project.run(f"logs {words} -n default --source head").ok().raw == b"h says 1\n\xff2\n"
        assert project.run(f"logs {words} -n default --source worker").ok().raw == b"w1 says 1\n\xff2\n"


def test_a_cluster_without_a_job_shows_its_head(pods: Pods) -> None:
    pods.put("long", job(None, job_id="02000000"))
    pods.pod("h", "long", "head")
    assert Project().run("logs raycluster/long -n default").ok().out.startswith("h says 1")


def test_every_worker_is_named_before_its_lines_and_bounds_reach_the_server(pods: Pods) -> None:
    pods.put("long")
    for name in ("w2", "w1"):
        pods.pod(name, "long", "worker")
    done = Project().run("logs long -n default --all-workers --tail 7 --since 2m").ok()
    assert done.raw.splitlines() == [b"[w1] w1 says 1", b"[w1] \xff2", b"[w2] w2 says 1", b"[w2] \xff2"]
    assert [(name, q["tailLines"], q["sinceSeconds"]) for name, q in pods.asked] == [
        ("w1", "7", "120"),
        ("w2", "7", "120"),
    ]
    one = Project().run("logs long -n default --source worker").ok()
    assert one.out.startswith("w1 says 1")
    assert "one of 2 workers (--all-workers for all)" in one.err


def test_the_head_that_stays_is_read_and_not_the_one_that_goes(pods: Pods) -> None:
    pods.put("long")
    pods.pod("a-new", "long", "head")
    pods.pod(
        "z-old", "long", "head", deletionTimestamp="2026-01-01T00:00:00Z", creationTimestamp="2026-12-01T00:00:00Z"
    )
    assert Project().run("logs long -n default --source head").ok().out.startswith("a-new")


def test_a_daemon_is_the_job_of_its_role(pods: Pods) -> None:
    pods.put("t-gym", job("t-gym-daemon"), job("other"))
    pods.put("t", job("x"))
    assert Project().run("logs raycluster/t-gym -n default --source daemon").ok().out == "one\ntwo\n"
    none = Project().run("logs raycluster/t -n default --source daemon")
    assert (none.exit, "no daemon runs on raycluster/t" in none.err) == (2, True)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("logs", "RECIPE, ID or NAME is missing"),
        ("logs nope -n default", 'no run "nope" in namespace "default"'),
        ("logs long -n default --since 5m", "no time"),
        ("logs long -n default --since soon --source head", "is no length of time"),
        ("logs long -n default --since 0 --source head", "is no length of time"),
        ("logs long -n default --all-workers --source head", "--all-workers shows workers"),
        ("logs long -n default --source worker", "has no worker pod now"),
        ("logs recipe.yaml --infra infra.yaml --role gym -n default", 'no role "gym"'),
    ],
)
def test_bad_words_end_in_one_line(pods: Pods, line: str, said: str) -> None:
    pods.put("long")
    done = Project(files()).run(line)
    assert done.exit == 2
    assert said in done.err.splitlines()[0]


def test_pods_of_a_cluster_that_is_gone_or_not_there_yet_are_said_to_be(pods: Pods) -> None:
    put_run(pods, jobDeploymentStatus="Complete", jobStatus="SUCCEEDED")
    done = Project().run("logs id-1 -n default --source head")
    assert (done.exit, "the Ray cluster r-x is gone" in done.err) == (2, True)
    assert "hint: kubectl nrl job logs id-1 -n default" in done.err
    put_run(pods, rayClusterName="")
    assert "it has no Ray cluster yet" in Project().run("logs id-1 -n default --source head").err


def test_a_forbidden_log_is_one_line_with_verb_resource_and_namespace(pods: Pods) -> None:
    pods.put("long")
    pods.pod("h", "long", "head")
    said = (
        'cannot read the log of pods "h" in namespace "default": pods "h" is forbidden: User "u" cannot get "pods/log"'
    )

    def refuse(*words: Any, **more: Any) -> Any:
        raise ClusterError(said, status=403, reason="Forbidden")

    pods.cluster.pod_log_stream = refuse  # type: ignore[attr-defined]
    for flag in ("", "-f"):
        done = Project().run(f"logs long -n default --source head {flag}")
        assert (done.exit, done.err) == (3, f"error: {said}\n")
