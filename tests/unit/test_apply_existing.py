"""A name that is taken: finished, live, somebody else's, on its way out; with and without --replace."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from fake_cluster import FakeCluster
from plans import RUN_INFO, USER, plan, planned, rayjob

from kubectl_nrl.api import User
from kubectl_nrl.apply import make_way, name_holder
from kubectl_nrl.errors import ClusterError, NrlError

DONE = {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "endTime": "2020-01-01T00:00:00Z"}
LIVE = {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}


def holding(status: dict[str, Any], owner: str = USER.name, **meta: Any) -> FakeCluster:
    cluster = FakeCluster()
    labels = {"kubectl-nrl/owner": owner, "kubectl-nrl/run": "old-run"} if owner else {}
    metadata = {"name": "demo", "labels": labels, **meta}
    cluster.put({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata, "status": status})
    return cluster


def hold(cluster: FakeCluster, *, replace: bool = False, allow: Any = None, user: User = USER) -> Any:
    def refuse(question: str) -> None:
        raise NrlError(question)

    return name_holder(plan(), cluster, user, replace=replace, allow=allow or refuse)


def test_a_free_name_is_free() -> None:
    assert hold(FakeCluster()) is None


def test_a_finished_holder_is_named_with_its_result_and_age() -> None:
    cluster = holding(DONE)
    cluster.now = datetime(2020, 1, 3, 4, tzinfo=timezone.utc)
    with pytest.raises(ClusterError) as error:
        hold(cluster)
    assert 'RayJob "demo" already exists and finished (SUCCEEDED, 2d4h ago' in error.value.message
    assert "--replace" in error.value.hint
    assert error.value.exit_code == 3


def test_a_live_holder_is_named_with_its_owner() -> None:
    with pytest.raises(ClusterError) as error:
        hold(holding(LIVE, owner="anna"))
    assert 'is live (Running, driver RUNNING; owner: "anna")' in error.value.message
    assert "--replace" not in error.value.hint


def test_replace_takes_my_finished_run_without_a_question_and_my_live_one_with_one() -> None:
    assert hold(holding(DONE), replace=True) is not None
    with pytest.raises(NrlError, match="live run of yours"):
        hold(holding(LIVE), replace=True)
    assert hold(holding(LIVE), replace=True, allow=lambda question: None) is not None


@pytest.mark.parametrize("owner", ["anna", ""])
def test_replace_never_takes_a_run_that_is_not_mine(owner: str) -> None:
    cluster = holding(DONE, owner=owner)
    with pytest.raises(NrlError, match="not replaced"):
        hold(cluster, replace=True, allow=lambda question: None)
    assert not [c for c in cluster.calls if c[0] == "delete"]


def test_a_run_id_is_used_once() -> None:
    cluster = FakeCluster()
    meta = {"name": "other", "labels": {"kubectl-nrl/run": RUN_INFO.id}}
    cluster.put({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": meta, "status": DONE})
    with pytest.raises(ClusterError, match="is taken by rayjob/other"):
        hold(cluster)


def test_a_name_that_maps_alike_is_another_person() -> None:
    cluster = holding(DONE, owner="j-doe", annotations={"kubectl-nrl/user": "j_doe"})
    with pytest.raises(NrlError, match='belongs to "j_doe"'):
        hold(cluster, replace=True, user=User("j-doe", "j.doe"))


def test_the_old_uid_is_gone_before_the_way_is_free() -> None:
    cluster = holding(DONE)
    holder = hold(cluster, replace=True)
    said: list[str] = []
    make_way(holder, plan(), cluster, said.append)
    assert ("RayJob", "default", "demo") not in cluster.objects
    assert said == ["replacing rayjob/demo (SUCCEEDED)"]


def test_the_old_runs_children_go_with_it_and_nobody_elses() -> None:
    cluster = holding(DONE)
    holder = hold(cluster, replace=True)
    owned = {"name": "by-owner", "ownerReferences": [{"uid": holder["metadata"]["uid"]}]}
    cluster.put({"kind": "ConfigMap", "metadata": owned})
    labels = {"kubectl-nrl/run": "old-run", "kubectl-nrl/owner": "jo"}
    cluster.put({"kind": "ConfigMap", "metadata": {"name": "by-label", "labels": labels}})
    objects = (planned("ConfigMap", "by-owner"), planned("ConfigMap", "by-label"), rayjob())
    make_way(holder, plan(*objects), cluster, lambda text: None)
    assert cluster.objects == {}


@pytest.mark.parametrize(
    "meta",
    [
        {"labels": {"kubectl-nrl/run": "old-run", "kubectl-nrl/owner": "jo"}, "ownerReferences": [{"uid": "another"}]},
        {"labels": {"kubectl-nrl/run": "old-run", "kubectl-nrl/owner": "jill"}},
        {"labels": {"kubectl-nrl/run": "old-run"}},
    ],
    ids=["something else owns it", "another user made it", "nobody made it"],
)
def test_what_only_bears_the_runs_label_is_not_deleted_with_it(meta: dict[str, Any]) -> None:
    cluster = holding(DONE)
    holder = hold(cluster, replace=True)
    cluster.put({"kind": "ConfigMap", "metadata": {"name": "script", **meta}})
    with pytest.raises(ClusterError, match="is not of this run"):
        make_way(holder, plan(planned("ConfigMap", "script"), rayjob()), cluster, lambda text: None)
    assert ("ConfigMap", "default", "script") in cluster.objects


def test_a_child_of_somebody_else_is_never_shared() -> None:
    cluster = FakeCluster()
    cluster.put({"kind": "ConfigMap", "metadata": {"name": "script"}})
    with pytest.raises(ClusterError, match="two runs never share one") as error:
        make_way(None, plan(planned("ConfigMap", "script"), rayjob()), cluster, lambda text: None)
    assert "kubectl delete configmap script -n default" in error.value.hint
    assert ("ConfigMap", "default", "script") in cluster.objects


def test_a_child_on_its_way_out_is_waited_for() -> None:
    cluster = FakeCluster()
    meta = {
        "name": "cd",
        "deletionTimestamp": "2026-11-30T12:00:00Z",
        "finalizers": ["resource.nvidia.com/computeDomain"],
    }
    cluster.put({"kind": "ComputeDomain", "metadata": meta})
    said: list[str] = []

    def goes(text: str) -> None:
        said.append(text)
        cluster.remove("ComputeDomain", "cd")

    make_way(None, plan(planned("ComputeDomain", "cd"), rayjob()), cluster, goes)
    assert "finalizers: resource.nvidia.com/computeDomain" in said[0]
