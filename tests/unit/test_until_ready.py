"""Waiting for a cluster that is deleted, replaced, suspended or silent meanwhile; steps together; health by a forward."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from fake_cluster import FakeCluster

from kubectl_nrl.apply import Stopped, together
from kubectl_nrl.errors import ClusterError, ExitCode, NrlError
from kubectl_nrl.reasons import Snapshot
from kubectl_nrl.watch import Connection, UntilReady, ask_health, parts_of

UP = [{"type": name, "status": "True"} for name in ("HeadPodReady", "RayClusterProvisioned")]


class Bench:
    """One cluster that is waited for, and who is told of it (`watch.Onlooker`)."""

    def __init__(self) -> None:
        self.cluster, self.said, self.warned = FakeCluster(), list[str](), list[str]()
        self.pictures: list[Snapshot] = []
        self.say, self.warn, self.view, self.ready = (
            self.said.append, self.warned.append, self.pictures.append, self.pictures.append,
        )  # fmt: skip
        self.connection = Connection(self.said.append)
        self.live = self.cluster.put(
            {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "c"}, "spec": {}}
        )

    def wait(self, *, seconds: float = 20.0, stop: threading.Event | None = None, **words: Any) -> Any:
        until = UntilReady(self.cluster, self.live, self, **words)
        return until.until(time.monotonic() + seconds, stop or threading.Event())

    def when_watched(self, act: Callable[[], Any]) -> threading.Thread:
        def later() -> None:
            while not any(kind == "RayCluster" for verb, kind, _ in self.cluster.calls if verb == "watch"):
                time.sleep(0.01)
            act()

        thread = threading.Thread(target=later)
        thread.start()
        return thread

    def gets_ready(self) -> None:
        self.cluster.set_status("RayCluster", "c", conditions=UP)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_it_is_ready_when_the_watch_says_so(bench: Bench) -> None:
    bench.when_watched(bench.gets_ready)
    assert bench.wait()["status"]["conditions"] == UP
    assert bench.said == ["raycluster/c: accepted, KubeRay has not looked at it yet"]


def test_deleted_while_waiting_is_an_error_and_not_a_wait(bench: Bench) -> None:
    bench.when_watched(lambda: bench.cluster.remove("RayCluster", "c"))
    with pytest.raises(ClusterError, match="was deleted while it was waited for"):
        bench.wait()


def test_the_ready_state_of_another_uid_is_not_taken_for_this_one(bench: Bench) -> None:
    def replace() -> None:
        other = copy.deepcopy(bench.live)
        other["metadata"]["uid"] = "another"
        bench.cluster.put({**other, "status": {"conditions": UP}})

    bench.when_watched(replace)
    with pytest.raises(ClusterError, match="was replaced by another of the same name"):
        bench.wait()


def test_a_cluster_that_its_scheduler_suspends_is_waited_for(bench: Bench) -> None:
    bench.live = bench.cluster.put({**bench.live, "spec": {"suspend": True}})
    with pytest.raises(NrlError, match="kueue has not admitted it yet") as caught:
        bench.wait(seconds=0, suspended_by="kueue")
    assert caught.value.exit_code == ExitCode.GAVE_UP


def test_ready_pods_are_not_enough_the_dashboard_must_answer(bench: Bench) -> None:
    answers = [ClusterError("nothing listens there", reason="PortClosed"), None]

    def probe(live: Any) -> None:
        answer = answers.pop(0)
        if answer is not None:
            raise answer

    bench.live = bench.cluster.put({**bench.live, "status": {"conditions": UP}})
    assert bench.wait(probe=probe) is not None
    assert "waiting for it to answer (nothing listens there)" in bench.said[0]


def test_a_refused_token_is_no_wait(bench: Bench) -> None:
    def probe(live: Any) -> None:
        raise ClusterError("needs a token", status=401, reason="RayUnauthorized")

    bench.live = bench.cluster.put({**bench.live, "status": {"conditions": UP}})
    with pytest.raises(ClusterError, match="needs a token"):
        bench.wait(probe=probe)


def test_what_stops_the_others_stops_this_wait(bench: Bench) -> None:
    stop = threading.Event()
    bench.when_watched(stop.set)
    assert bench.wait(stop=stop) is None


def test_the_first_failure_ends_the_other_steps_and_is_the_one_that_is_raised() -> None:
    started = threading.Event()

    def waits(stop: threading.Event) -> None:
        started.set()
        assert stop.wait(20)
        raise Stopped

    def fails(stop: threading.Event) -> None:
        assert started.wait(20)
        raise ClusterError("first")

    with pytest.raises(ClusterError, match="first"):
        together({"a": waits, "b": fails})
    assert together({"a": lambda stop: 1, "b": lambda stop: 2}) == {"a": 1, "b": 2}


class Port:
    """A pod's port behind a forward."""

    def __init__(self, status: int) -> None:
        self.status, self.asked = status, list[Any]()

    def __call__(self, namespace: str, pod: str, port: int) -> Port:
        self.asked.append((namespace, pod, port))
        return self

    def request(self, method: str, path: str, headers: Any, **words: Any) -> Port:
        self.asked.append((method, path, headers["Host"]))
        return self

    def read(self) -> bytes:
        return b""

    def __enter__(self) -> Port:
        return self

    def __exit__(self, *raised: object) -> None:
        pass


def service(cluster: FakeCluster, target: Any, ready: str = "True") -> None:
    ports = [{"port": 80, "targetPort": target}]
    cluster.put(
        {"kind": "Service", "metadata": {"name": "judge"}, "spec": {"selector": {"app": "judge"}, "ports": ports}}
    )
    container = {"name": "j", "ports": [{"name": "http", "containerPort": 8000}]}
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    meta = {"name": "judge-1", "labels": {"app": "judge"}}
    cluster.put({"kind": "Pod", "metadata": meta, "spec": {"containers": [container]}, "status": status})


@pytest.mark.parametrize(("target", "port"), [(8000, 8000), ("http", 8000), (9, 9)])
def test_health_is_asked_of_a_ready_pod_behind_the_service(target: Any, port: int) -> None:
    cluster, there = FakeCluster(), Port(200)
    service(cluster, target)
    cluster.forward = there  # type: ignore[attr-defined]
    asked = parts_of("http://judge/health?a=1", "default")
    assert asked is not None
    ask_health(cluster, asked)
    assert there.asked == [("default", "judge-1", port), ("GET", "/health?a=1", "judge:80")]


@pytest.mark.parametrize(
    ("status", "ready", "words"), [(503, "True", "answers 503"), (200, "False", "no pod of service/judge")]
)
def test_what_is_not_healthy_says_why(status: int, ready: str, words: str) -> None:
    cluster = FakeCluster()
    service(cluster, 8000, ready)
    cluster.forward = Port(status)  # type: ignore[attr-defined]
    asked = parts_of("http://judge/", "default")
    assert asked is not None
    with pytest.raises(ClusterError, match=words):
        ask_health(cluster, asked)
