"""Children of a long-lived cluster: used again, handed on, made anew, and never taken from under one that lives."""

from __future__ import annotations

from typing import Any

import pytest
from fake_cluster import FakeCluster

from kubectl_nrl.api import Ref, User
from kubectl_nrl.apply import BringUp, Doomed, look, take_down
from kubectl_nrl.apply.units import Unit
from kubectl_nrl.errors import ClusterError, ExitCode, NrlError
from kubectl_nrl.plan import WORKLOAD_WAVE, PlannedObject

JDOE = User("jdoe", "jdoe")
LABELS = {"kubectl-nrl/owner": "jdoe"}


def planned(kind: str, name: str, spec: Any, *, wave: int = 0, refs: tuple[Ref, ...] = ()) -> PlannedObject:
    api = "ray.io/v1" if kind == "RayCluster" else "resource.k8s.io/v1"
    meta = {"name": name, "namespace": "default", "labels": dict(LABELS), "annotations": {"kubectl-nrl/user": "jdoe"}}
    return PlannedObject(
        {"apiVersion": api, "kind": kind, "metadata": meta, "spec": spec}, wave, "training", True, refs
    )


def unit(claim: Any = None, refs: tuple[Ref, ...] = ()) -> Unit:
    child = planned("ResourceClaimTemplate", "nics", claim or {"count": 8}, refs=refs)
    return Unit("training", planned("RayCluster", "c", {"head": 1}, wave=WORKLOAD_WAVE), (child,))


class Bench:
    def __init__(self) -> None:
        self.cluster, self.said = FakeCluster(), list[str]()

    def up(self, wanted: Unit) -> BringUp:
        made = BringUp(self.cluster, "default", JDOE, say=self.said.append, warn=self.said.append)
        made.create(look([wanted], "default", self.cluster, JDOE))
        return made

    def child(self) -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.objects["ResourceClaimTemplate", "default", "nics"]
        return found

    def cluster_uid(self) -> str:
        return str(self.cluster.objects["RayCluster", "default", "c"]["metadata"]["uid"])

    def owners(self) -> list[str]:
        return [ref["uid"] for ref in self.child()["metadata"].get("ownerReferences") or ()]

    def left(self, spec: Any, **meta: Any) -> str:
        """A child of an earlier cluster; its uid."""
        obj = planned("ResourceClaimTemplate", "nics", spec).manifest
        return str(self.cluster.put({**obj, "metadata": {**obj["metadata"], **meta}})["metadata"]["uid"])


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_children_come_first_and_then_know_their_cluster(bench: Bench) -> None:
    bench.up(unit())
    assert [kind for verb, kind, _ in bench.cluster.calls if verb == "create"] == [
        "ResourceClaimTemplate",
        "RayCluster",
    ]
    assert bench.owners() == [bench.cluster_uid()]


def test_a_second_call_writes_nothing(bench: Bench) -> None:
    bench.up(unit())
    bench.cluster.calls.clear()
    assert bench.up(unit()).made.objects == []
    assert {verb for verb, _, _ in bench.cluster.calls} == {"get"}


def test_a_child_that_a_killed_call_left_is_handed_on(bench: Bench) -> None:
    uid = bench.left({"count": 8})
    bench.up(unit())
    assert (bench.child()["metadata"]["uid"], bench.owners()) == (uid, [bench.cluster_uid()])


def test_a_child_whose_owner_is_gone_is_made_anew_since_it_is_being_collected(bench: Bench) -> None:
    uid = bench.left({"count": 8}, ownerReferences=[{"uid": "gone"}])
    bench.up(unit())
    assert bench.child()["metadata"]["uid"] != uid
    assert bench.owners() == [bench.cluster_uid()]


def test_a_leftover_that_differs_is_made_anew(bench: Bench) -> None:
    bench.left({"count": 4})
    bench.up(unit())
    assert bench.child()["spec"] == {"count": 8}


def test_a_child_that_differs_under_a_live_cluster_stays_and_is_told(bench: Bench) -> None:
    bench.up(unit())
    (standing,) = look([unit({"count": 4})], "default", bench.cluster, JDOE)
    assert standing.verdict == "drifted"
    assert [f"{words} {change}" for words, change in standing.changes] == [
        "resourceclaimtemplate/nics spec.count: 8 -> 4"
    ]
    bench.up(unit({"count": 4}))
    assert bench.child()["spec"] == {"count": 8}


def test_a_child_that_vanished_under_a_live_cluster_is_made_again(bench: Bench) -> None:
    bench.up(unit())
    bench.cluster.remove("ResourceClaimTemplate", "nics")
    (standing,) = look([unit()], "default", bench.cluster, JDOE)
    assert standing.verdict == "partial"
    bench.up(unit())
    assert bench.owners() == [bench.cluster_uid()]


def test_what_no_controller_makes_of_a_child_takes_the_child_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubectl_nrl.apply.bring_up.CONTROLLER", 0.0)
    wanted = unit(refs=(Ref("resource.k8s.io/v1", "ResourceClaimTemplate", "made-by-a-controller"),))
    with pytest.raises(ClusterError, match="was not made of resourceclaimtemplate/nics"):
        bench.up(wanted)
    assert bench.cluster.objects == {}


def test_a_lost_answer_is_settled_by_looking(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    create, failed = bench.cluster.create, list[str]()

    def lossy(manifest: Any, *, namespace: str, dry_run: bool = False) -> dict[str, Any]:
        made: dict[str, Any] = create(manifest, namespace=namespace, dry_run=dry_run)
        if not failed:
            failed.append("once")
            raise ClusterError("lost", reason="ConnectionLost")
        return made

    bench.cluster.create = lossy  # type: ignore[method-assign]
    bench.up(unit())
    assert bench.owners() == [bench.cluster_uid()]


def test_children_go_when_the_pods_are_gone_and_not_before(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.up(unit())
    labels = {"ray.io/cluster": "c", "ray.io/node-type": "worker"}
    bench.cluster.put({"kind": "Pod", "metadata": {"name": "p", "labels": labels}})
    looked: list[bool] = []

    def pod_goes(seconds: float) -> None:
        looked.append(("ResourceClaimTemplate", "default", "nics") in bench.cluster.objects)
        bench.cluster.remove("Pod", "p")

    monkeypatch.setattr("time.sleep", pod_goes)
    main = {"apiVersion": "ray.io/v1", **bench.cluster.objects["RayCluster", "default", "c"]}
    doomed = [Doomed(main, (bench.child(),))]
    done = take_down(bench.cluster, doomed, within=20, say=bench.said.append)
    assert (done.deleted, looked, bench.cluster.objects) == (["raycluster/c"], [True], {})


def test_pods_that_stay_are_named_at_the_end_of_patience(bench: Bench) -> None:
    bench.up(unit())
    labels = {"ray.io/cluster": "c", "ray.io/node-type": "worker"}
    bench.cluster.put({"kind": "Pod", "metadata": {"name": "p", "labels": labels, "finalizers": ["x/y"]}})
    main = {"apiVersion": "ray.io/v1", **bench.cluster.objects["RayCluster", "default", "c"]}
    with pytest.raises(NrlError, match=r"still there: pod/p \(held by finalizer x/y\)") as caught:
        take_down(bench.cluster, [Doomed(main, (bench.child(),))], within=0, say=bench.said.append)
    assert caught.value.exit_code == ExitCode.GAVE_UP
