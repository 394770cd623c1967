"""Waiting for a cluster that is deleted, replaced, suspended or silent meanwhile; steps together; health by a forward."""

from __future__ import annotations

import copy
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from fake_cluster import FakeCluster
from waiting import PATIENCE, wait_until

from kubectl_nrl.apply import Stopped, together
from kubectl_nrl.errors import ClusterError, ExitCode, NrlError
from kubectl_nrl.reasons import Snapshot
from kubectl_nrl.watch import Connection, Unstartable, UntilReady, ask_health, parts_of, until_ready

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

    def wait(self, *, seconds: float = PATIENCE, stop: threading.Event | None = None, **words: Any) -> Any:
        until = UntilReady(self.cluster, self.live, self, **words)
        return until.until(time.monotonic() + seconds, stop or threading.Event())

    def when_watched(self, act: Callable[[], Any]) -> threading.Thread:
        def later() -> None:
            wait_until(lambda: self.cluster.watches("RayCluster"))
            act()

        thread = threading.Thread(target=later)
        thread.start()
        return thread

    def gets_ready(self) -> None:
        self.cluster.set_status("RayCluster", "c", conditions=UP)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(until_ready, "PROBE", 0.002)
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


def no_image(bench: Bench, name: str = "c") -> None:
    """The head of the cluster cannot get its image."""
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}
    status = {"phase": "Pending", "containerStatuses": [{"name": "ray", "image": "x:typo", "state": waiting}]}
    meta = {"name": f"{name}-head", "labels": {"ray.io/cluster": name, "ray.io/node-type": "head"}}
    bench.cluster.put({"kind": "Pod", "metadata": meta, "spec": {}, "status": status})


@pytest.fixture
def judged_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever arrives is judged when it does, also by a clock that stands still."""
    monkeypatch.setattr(until_ready, "JUDGE", 0.0)


def test_giving_up_names_what_its_pods_wait_for(bench: Bench, judged_at_once: None) -> None:
    def clock() -> float:
        return 1e9 if any(picture.troubles for picture in bench.pictures) else 0.0

    no_image(bench)
    until = UntilReady(bench.cluster, bench.live, bench, clock=clock)
    with pytest.raises(NrlError, match='looked at it yet; head: ImagePullBackOff, image "x:typo" not found') as caught:
        until.until(1e8, threading.Event())
    assert caught.value.exit_code == ExitCode.GAVE_UP
    assert "infra.image=" in caught.value.hint


def test_a_cause_is_not_counted_against_the_start_while_the_api_server_is_away(bench: Bench) -> None:
    now, pictures = [0], bench.pictures

    def clock() -> float:
        """Stands still while the outage is on its way to who watches."""
        now[0] += len(pictures) < 3 or any("lost" in line for line in bench.said)
        return now[0]

    def view(picture: Snapshot) -> None:
        """A cause, then a long outage, seen from within; then it is over, and the cluster gets up."""
        if not bench.cluster.watches("RayCluster"):
            return
        if not pictures:
            no_image(bench)
        pictures.append(picture)
        if len(pictures) == 3:
            bench.cluster.say("LOST", ClusterError("no route", reason="Unreachable"))
        elif len(pictures) == 24:
            bench.cluster.say("BACK")
            bench.gets_ready()

    bench.view = view  # type: ignore[method-assign]
    until = UntilReady(bench.cluster, bench.live, bench, start_limit=300.0, clock=clock)
    assert until.until(1e6, threading.Event()) is not None
    assert bench.said.count("connection to the API server is back") == 1


def test_an_outage_that_several_meet_is_said_once() -> None:
    said: list[str] = []
    connection = Connection(said.append)
    for who in ("a", "b", "c"):
        connection.lost(who, "no route")
    connection.lost("a", "no route")
    connection.leave("c")  # is not waited for any more
    connection.back("a")
    assert said == ["connection to the API server lost (no route), reconnecting"]
    connection.back("b")
    connection.back("b")
    assert said[1:] == ["connection to the API server is back"]


def test_a_start_is_given_up_on_a_cause_that_lasts(bench: Bench, judged_at_once: None) -> None:
    now = itertools.count()

    def clock() -> float:
        return next(now) if any(picture.troubles for picture in bench.pictures) else 0

    no_image(bench)
    until = UntilReady(bench.cluster, bench.live, bench, start_limit=300.0, clock=clock)
    with pytest.raises(Unstartable, match="ImagePullBackOff"):
        until.until(1e6, threading.Event())
    assert next(now) >= 300


def test_what_the_object_itself_says_has_no_second_name_before_it(bench: Bench) -> None:
    bench.live["metadata"]["creationTimestamp"] = "2026-11-30T11:00:00Z"
    bench.cluster.put(bench.live)
    meta = {"name": "new", "labels": {"ray.io/cluster": "c"}, "creationTimestamp": "2026-11-30T12:00:00Z"}

    def clock() -> float:
        return 1e9 if any("NotReconciled" in line for line in bench.said) else time.monotonic()

    bench.cluster.put({"kind": "Pod", "metadata": {**meta, "deletionTimestamp": "2026-11-30T12:00:00Z"}, "status": {}})
    until = UntilReady(bench.cluster, bench.live, bench, clock=clock)
    with pytest.raises(NrlError, match="NotReconciled"):
        until.until(1e8, threading.Event())
    assert next(line for line in bench.said if "NotReconciled" in line).startswith("raycluster/c: NotReconciled, ")


def test_where_pods_may_not_be_seen_its_controller_is_taken_at_its_word(bench: Bench) -> None:
    bench.cluster.faults["watch", "Pod"] = ClusterError("pods is forbidden", status=403)
    head = [{"type": "HeadPodReady", "status": "False", "reason": "ContainersNotReady"}]
    bench.live = bench.cluster.put({**bench.live, "status": {"state": "", "conditions": head}})

    def say(text: str) -> None:
        bench.said.append(text)
        if "ContainersNotReady" in text:
            bench.gets_ready()

    bench.say = say  # type: ignore[method-assign]
    assert bench.wait() is not None
    assert bench.said[:2] == [
        "raycluster/c: its pods are starting",
        "raycluster/c: its pods are starting: ContainersNotReady",
    ]
    assert bench.warned == ["pods cannot be watched: pods is forbidden"]


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
        assert stop.wait(PATIENCE)
        raise Stopped

    def fails(stop: threading.Event) -> None:
        assert started.wait(PATIENCE)
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


def test_a_port_on_which_nothing_listens_yet_is_told_in_few_words() -> None:
    def closed(namespace: str, pod: str, port: int) -> Any:
        raise ClusterError("cannot port-forward: connection refused", reason="PortClosed")

    cluster = FakeCluster()
    service(cluster, 8000)
    cluster.forward = closed  # type: ignore[attr-defined]
    asked = parts_of("http://judge/", "default")
    assert asked is not None
    with pytest.raises(ClusterError, match=r"^nothing listens on port 8000 of pod judge-1 yet$"):
        ask_health(cluster, asked)


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
