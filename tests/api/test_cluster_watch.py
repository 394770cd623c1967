"""Watches of a real API server, cut, refused, forgotten and restored."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cluster.fault_proxy import FaultProxy
from cluster.fixtures import Cluster as Harness
from waiting import PATIENCE, wait_until

from kubectl_nrl.cluster import Cluster, WatchEvent
from kubectl_nrl.errors import ClusterError

pytestmark = pytest.mark.api


@pytest.fixture
def proxy(api_cluster: Harness) -> Iterator[FaultProxy]:
    with FaultProxy(api_cluster.kubeconfig) as running:
        yield running


@pytest.fixture
def admin(api_cluster: Harness) -> Iterator[Cluster]:
    with Cluster.connect(kubeconfig=str(api_cluster.kubeconfig)) as connected:
        yield connected


class Listener:
    """A watch of the namespace's labelled ConfigMaps in a thread of its own."""

    def __init__(self, kubeconfig: Any, namespace: str) -> None:
        self.events: list[WatchEvent] = []
        self.error: Exception | None = None
        self.stop = threading.Event()
        self._cluster = Cluster.connect(kubeconfig=str(kubeconfig))
        self._namespace = namespace
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            for event in self._cluster.watch("v1", "ConfigMap", self._namespace, label_selector="test", stop=self.stop):
                self.events.append(event)
        except ClusterError as error:
            self.error = error

    def __enter__(self) -> Listener:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        self._cluster.close()

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(event.type, event.object.get("metadata", {}).get("name", "")) for event in self.events]

    def until(self, right: Callable[[list[tuple[str, str]]], bool]) -> list[tuple[str, str]]:
        wait_until(lambda: right(self.told), lambda: f"other events than {self.told}")
        return self.told


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"test": ""}}}


def test_every_change_arrives_by_itself(admin: Cluster, api_cluster: Harness, api_namespace: str) -> None:
    admin.create(config_map("a"), namespace=api_namespace)
    with Listener(api_cluster.kubeconfig, api_namespace) as listener:
        listener.until(lambda told: told == [("ADDED", "a")])
        admin.create(config_map("b"), namespace=api_namespace)
        admin.patch("v1", "ConfigMap", "b", api_namespace, {"data": {"x": "1"}})
        admin.delete("v1", "ConfigMap", "a", api_namespace)
        told = listener.until(lambda told: len(told) == 4)
    assert told[1:] == [("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "a")]


def test_cuts_lose_nothing_and_repeat_nothing(admin: Cluster, proxy: FaultProxy, api_namespace: str) -> None:
    with Listener(proxy.kubeconfig, api_namespace) as listener:
        for number in range(6):
            admin.create(config_map(f"c{number}"), namespace=api_namespace)
            proxy.cut()
            time.sleep(0.05)
        told = listener.until(lambda told: sum(kind == "ADDED" for kind, _ in told) == 6)
    assert [name for kind, name in told if kind == "ADDED"] == [f"c{number}" for number in range(6)]
    assert {kind for kind, _ in told} <= {"ADDED", "LOST", "BACK"}


def test_an_outage_is_told_once_and_what_happened_in_it_is_made_up_for(
    admin: Cluster, proxy: FaultProxy, api_namespace: str
) -> None:
    admin.create(config_map("goes"), namespace=api_namespace)
    with Listener(proxy.kubeconfig, api_namespace) as listener:
        listener.until(lambda told: told == [("ADDED", "goes")])
        rule = proxy.answer(503, times=None, path="/configmaps")
        proxy.cut()
        listener.until(lambda told: told[-1:] == [("LOST", "")])
        admin.delete("v1", "ConfigMap", "goes", api_namespace)
        admin.create(config_map("comes"), namespace=api_namespace)
        tries = rule.hits
        listener.until(lambda told: rule.hits >= tries + 2)
        assert listener.told.count(("LOST", "")) == 1
        lost = next(event for event in listener.events if event.type == "LOST")
        assert lost.error is not None and lost.error.status == 503
        proxy.clear()
        told = listener.until(lambda told: ("ADDED", "comes") in told and ("BACK", "") in told)
    assert [entry for entry in told if entry[1]] == [("ADDED", "goes"), ("DELETED", "goes"), ("ADDED", "comes")]
    assert told.count(("BACK", "")) == 1


@pytest.mark.parametrize("in_watch", [True, False])
def test_a_version_that_was_forgotten(admin: Cluster, proxy: FaultProxy, api_namespace: str, in_watch: bool) -> None:
    admin.create(config_map("stays"), namespace=api_namespace)
    admin.create(config_map("goes"), namespace=api_namespace)
    with Listener(proxy.kubeconfig, api_namespace) as listener:
        listener.until(lambda told: len(told) == 2)
        rule = proxy.answer(410, path="watch=1", in_watch=in_watch)
        proxy.cut()
        admin.delete("v1", "ConfigMap", "goes", api_namespace)
        told = listener.until(lambda told: ("DELETED", "goes") in told)
        admin.create(config_map("comes"), namespace=api_namespace)
        told = listener.until(lambda told: ("ADDED", "comes") in told)
    assert rule.hits == 1
    assert told.count(("ADDED", "stays")) == 1 and ("MODIFIED", "stays") not in told


def test_a_permission_that_is_taken_away_ends_it(admin: Cluster, proxy: FaultProxy, api_namespace: str) -> None:
    with Listener(proxy.kubeconfig, api_namespace) as listener:
        admin.create(config_map("a"), namespace=api_namespace)
        listener.until(lambda told: told == [("ADDED", "a")])
        proxy.answer(403, times=None, path="/configmaps")
        proxy.cut()
        listener.until(lambda told: listener.error is not None)
    assert isinstance(listener.error, ClusterError) and listener.error.status == 403
    assert ("LOST", "") not in listener.told


def test_one_object_by_name(admin: Cluster, api_namespace: str) -> None:
    admin.create(config_map("a"), namespace=api_namespace)
    admin.create(config_map("b"), namespace=api_namespace)
    watch = admin.watch("v1", "ConfigMap", api_namespace, name="b")
    assert next(watch).object["metadata"]["name"] == "b"
    admin.patch("v1", "ConfigMap", "a", api_namespace, {"data": {"x": "1"}})
    admin.patch("v1", "ConfigMap", "b", api_namespace, {"data": {"x": "1"}})
    event = next(watch)
    assert (event.type, event.object["data"]) == ("MODIFIED", {"x": "1"})
    watch.close()  # type: ignore[attr-defined]


def test_a_slow_server_does_not_hold_up_a_stop(proxy: FaultProxy, api_namespace: str) -> None:
    rule = proxy.latency(3600, path="/configmaps")
    with Listener(proxy.kubeconfig, api_namespace) as listener:
        rule.arrived()
    assert listener.told == []
