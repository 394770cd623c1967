"""Waiting for what goes away, or is made, while the API server is away for a moment: nothing ends, and it is said once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from fake_cluster import FakeCluster
from plans import plan, planned, rayjob

from kubectl_nrl.api import Ref
from kubectl_nrl.apply import Created, Doomed, Outages, delete_run, take_down, up, wait_for_claims
from kubectl_nrl.errors import ClusterError

LOST = ClusterError("lost the API server", reason="ConnectionLost")
OUTAGE = ["lost the API server; waiting", "connection to the API server is back"]


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubectl_nrl.apply.outages.PAUSE", 0.01)


class Away:
    """An API server that, from the n-th read on, does not answer for some requests."""

    def __init__(self, cluster: FakeCluster, *verbs: str, after: int = 0, times: int = 3) -> None:
        self._left = after + times
        self._times = times
        for verb in verbs:
            setattr(cluster, verb, self._around(getattr(cluster, verb)))

    def _around(self, ask: Callable[..., Any]) -> Callable[..., Any]:
        def request(*words: Any, **more: Any) -> Any:
            self._left -= 1
            if 0 <= self._left < self._times:
                raise LOST
            return ask(*words, **more)

        return request


def test_an_outage_is_said_once_with_its_end_and_each_anew() -> None:
    answers: list[Any] = [LOST, LOST, 1, 2, LOST, 3]
    said: list[str] = []

    def ask() -> int:
        answer = answers.pop(0)
        if isinstance(answer, ClusterError):
            raise answer
        return int(answer)

    outages = Outages(time.monotonic() + 60, said.append)
    assert [outages.ask(ask) for _ in range(3)] == [1, 2, 3]
    assert said == OUTAGE * 2


@pytest.mark.parametrize(
    ("error", "seconds"),
    [(LOST, 0), (ClusterError("may not", status=403, reason="Forbidden"), 60), (ClusterError("no", status=409), 60)],
    ids=["too late", "refused", "conflict"],
)
def test_what_waiting_does_not_help_is_raised(error: ClusterError, seconds: float) -> None:
    def ask() -> None:
        raise error

    said: list[str] = []
    with pytest.raises(ClusterError, match=error.message):
        Outages(time.monotonic() + seconds, said.append).ask(ask)
    assert said == []


def test_a_run_that_is_deleted_is_seen_gone_through_an_outage() -> None:
    cluster, said = FakeCluster(), list[str]()
    made = cluster.put({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "r"}, "status": {}})
    Away(cluster, "get", "list")
    assert delete_run(cluster, made, say=said.append, within=60) == ()
    assert said == OUTAGE


def test_clusters_that_are_taken_down_are_seen_gone_through_an_outage() -> None:
    cluster, said = FakeCluster(), list[str]()
    made = cluster.put({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "c"}})
    Away(cluster, "get", "list")
    done = take_down(cluster, [Doomed(made)], within=60, say=said.append)
    assert done.deleted == ["raycluster/c"]
    assert said == ["raycluster/c: deleting", *OUTAGE]


def test_what_a_controller_makes_is_awaited_through_an_outage() -> None:
    cluster, said = FakeCluster(), list[str]()
    domain = planned("ComputeDomain", "cd", refs=(Ref("v1", "ResourceClaimTemplate", "cd"),))
    cluster.after["create", "ComputeDomain"] = lambda: cluster.put(
        {"kind": "ResourceClaimTemplate", "metadata": {"name": "cd"}}
    )
    Away(cluster, "get")
    up(plan(domain, rayjob()), cluster, Created(), say=said.append, warn=said.append)
    assert said == OUTAGE


def test_claims_are_waited_for_through_an_outage() -> None:
    cluster, said = FakeCluster(groups={"resource.k8s.io": ("v1",)}), list[str]()
    Away(cluster, "served", "list", times=2)
    assert wait_for_claims(cluster, "default", {"uid-1"}, 60, said.append) == []
    assert said == OUTAGE
