"""Kueue's queues on a live cluster: what can never be admitted, what may not be looked at, and what is free now."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from context import FakeCluster, context, thing
from nrl_plugins.kueue_requests import claimed_classes, requested
from nrl_plugins.scheduler_kueue import KueueScheduler

from kubectl_nrl.api import Capacity, Check
from kubectl_nrl.errors import ClusterError
from kubectl_nrl.facts import ClusterFacts

GPU = "nvidia.com/gpu"
QUEUED = {"kind": "kueue", "queue": "rl"}
LOCAL = thing("LocalQueue", "rl", spec={"clusterQueue": "cq"})


def rayjob(gpus: int = 8, replicas: int = 2, **requests: str) -> dict[str, Any]:
    limits = {"resources": {"limits": {GPU: gpus}, "requests": requests}}
    worker = {"groupName": "w", "replicas": replicas, "template": {"spec": {"containers": [limits]}}}
    head = {"template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}}}
    return {"kind": "RayJob", "spec": {"rayClusterSpec": {"headGroupSpec": head, "workerGroupSpecs": [worker]}}}


def cluster_queue(name: str = "cq", used: Any = 0, cohort: str = "", **quotas: Any) -> dict[str, Any]:
    """Quotas by resource: a nominal quota, or an entry of a flavor. `used` GPUs are reserved."""
    entries = [
        {"name": resource.replace("gpu", GPU), **(quota if isinstance(quota, dict) else {"nominalQuota": quota})}
        for resource, quota in quotas.items()
    ]
    spec: dict[str, Any] = {"resourceGroups": [{"flavors": [{"name": "f", "resources": entries}]}]}
    if cohort:
        spec["cohortName"] = cohort
    reserved = [{"name": "f", "resources": [{"name": GPU, "total": str(used)}]}]
    return thing("ClusterQueue", name, spec=spec, status={"flavorsReservation": reserved})


def active(status: str, message: str = "") -> dict[str, Any]:
    return {"conditions": [{"type": "Active", "status": status, "message": message}]}


def checks(
    *objects: dict[str, Any],
    run: dict[str, Any] | None = None,
    version: Any = (0, 17),
    priority: str = "",
    **cluster: Any,
) -> list[Check]:
    scheduler = {**QUEUED, **({"priority": priority} if priority else {})}
    ctx = replace(
        context({"scheduler": scheduler}, facts=ClusterFacts(kueue_version=version)), rendered=(run or rayjob(),)
    )
    return list(KueueScheduler().checks(ctx, FakeCluster(list(objects), **cluster)))


def oks(found: list[Check]) -> list[bool | None]:
    return [check.ok for check in found]


def test_a_queue_that_can_admit_the_run_is_right() -> None:
    assert oks(checks(LOCAL, cluster_queue(cpu=4, gpu=16))) == [True, True]


def test_a_local_queue_must_be_in_the_namespace_and_active() -> None:
    (absent,) = checks()
    assert (absent.ok, absent.detail) == (False, 'not found in namespace "rl"')
    assert "kubectl get localqueues -n rl" in absent.fix
    (stopped,) = checks({**LOCAL, "status": active("False", "Can't submit new workloads to clusterQueue")})
    assert stopped.ok is False
    assert "Can't submit new workloads" in stopped.detail
    assert checks({**LOCAL, "status": active("True")}, cluster_queue(cpu=4, gpu=16))[0].ok is True


def test_its_cluster_queue_must_exist_and_be_active() -> None:
    assert oks(checks(LOCAL)) == [True, False]
    stopped = {**cluster_queue(cpu=4, gpu=16), "status": active("False", "FlavorNotFound: gb300")}
    assert "FlavorNotFound" in checks(LOCAL, stopped)[1].detail


def configured(text: str) -> dict[str, Any]:
    return thing("ConfigMap", "kueue-manager-config", data={"controller_manager_config.yaml": text})


def test_every_resource_that_is_requested_must_have_quota() -> None:
    asked = (LOCAL, cluster_queue(gpu=16))
    (_, found) = checks(*asked, configured("kind: Configuration"), run=rayjob(memory="1Gi"))
    assert (found.ok, found.detail) == (False, "does not cover cpu, memory, so the run would never be admitted")


def test_what_kueue_is_told_not_to_count_needs_no_quota() -> None:
    """Many queues hold GPUs alone: what cannot be known must not refuse a run."""
    asked, run = (LOCAL, cluster_queue(gpu=16)), rayjob(memory="1Gi")
    excluded = configured("resources: {excludeResourcePrefixes: [cpu], transformations: [{input: memory}]}")
    assert oks(checks(*asked, excluded, run=run)) == [True, True]
    for unknown in (checks(*asked, run=run), checks(*asked, configured("{"), run=run),
                    checks(*asked, excluded, run=run, forbidden=frozenset({"ConfigMap"}))):  # fmt: skip
        assert oks(unknown) == [True, None]
        assert "unless Kueue's configuration leaves that out" in unknown[1].detail


def test_a_run_above_the_whole_quota_is_refused_and_one_above_what_is_free_is_not() -> None:
    (_, found) = checks(LOCAL, cluster_queue(cpu=4, gpu=8))
    assert (found.ok, found.detail) == (False, f"its quota is too small for the run: 16 {GPU} of at most 8")
    assert oks(checks(LOCAL, cluster_queue(used=16, cpu=4, gpu=16))) == [True, True]


def test_what_may_be_borrowed_counts() -> None:
    limited = {"nominalQuota": 8, "borrowingLimit": 8}
    assert oks(checks(LOCAL, cluster_queue(cohort="c", cpu=4, gpu=limited))) == [True, True]
    assert oks(checks(LOCAL, cluster_queue(cpu=4, gpu=limited))) == [True, False]
    assert oks(checks(LOCAL, cluster_queue(cohort="c", cpu=4, gpu=8))) == [True, True]
    assert oks(checks(LOCAL, cluster_queue(cohort="c", cpu=4, gpu={"nominalQuota": 8, "borrowingLimit": 7}))) == [
        True,
        False,
    ]


@pytest.mark.parametrize(("kind", "expected"), [("LocalQueue", [None]), ("ClusterQueue", [True, None])])
def test_what_may_not_be_read_is_a_note(kind: str, expected: list[bool | None]) -> None:
    assert oks(checks(LOCAL, cluster_queue(cpu=4, gpu=16), forbidden=frozenset({kind}))) == expected


def test_a_cluster_without_kueue_is_said_to_have_none() -> None:
    (found,) = checks(absent=frozenset({"LocalQueue"}))
    assert (found.ok, found.detail) == (False, "this cluster has no Kueue (kueue.x-k8s.io/v1beta2 is not served)")


def test_a_server_that_fails_is_no_answer() -> None:
    with pytest.raises(ClusterError):
        checks(broken=frozenset({"LocalQueue"}))


def test_a_priority_class_must_exist() -> None:
    right = (LOCAL, cluster_queue(cpu=4, gpu=16))
    assert checks(*right, thing("WorkloadPriorityClass", "high"), priority="high")[-1].ok is True
    found = checks(*right, priority="high")[-1]
    assert (found.title, found.ok) == ('Kueue WorkloadPriorityClass "high"', False)
    assert checks(*right, priority="high", forbidden=frozenset({"WorkloadPriorityClass"}))[-1].ok is None


@pytest.mark.parametrize(
    ("version", "api"), [((0, 14), "v1beta1"), ((0, 15), "v1beta2"), ((0, 19), "v1beta2"), (None, "v1beta1")]
)
def test_the_queue_is_read_in_a_served_version(version: Any, api: str) -> None:
    reader = FakeCluster()
    ctx = context({"scheduler": QUEUED}, facts=ClusterFacts(kueue_version=version))
    list(KueueScheduler().checks(ctx, reader))
    assert reader.asked == [(f"kueue.x-k8s.io/{api}", "LocalQueue", "rl")]


def test_claims_draw_a_note_with_their_device_classes() -> None:
    def template(request: dict[str, Any]) -> dict[str, Any]:
        return {"kind": "ResourceClaimTemplate", "spec": {"spec": {"devices": {"requests": [request]}}}}

    found = claimed_classes(
        [template({"exactly": {"deviceClassName": "a"}}), template({"deviceClassName": "b"}), rayjob()]
    )
    assert found == {"a", "b"}
    ctx = context({"scheduler": QUEUED}, facts=ClusterFacts(kueue_version=(0, 17)))
    seen = replace(ctx, rendered=(template({"exactly": {"deviceClassName": "roce.networking.k8s.aws"}}),))
    note = list(KueueScheduler().checks(seen, FakeCluster([LOCAL, cluster_queue(cpu=4)])))[-1]
    assert (note.ok, note.title) == (None, "Kueue and DeviceClass roce.networking.k8s.aws")


def test_requests_are_counted_as_kueue_counts_them() -> None:
    sidecar = {"restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}}
    large = {"resources": {"requests": {"cpu": "4"}}}
    pod = {"initContainers": [sidecar, large], "containers": [{"resources": {"limits": {"cpu": 2, GPU: 1}}}]}
    group = {"replicas": 3, "numOfHosts": 2, "template": {"spec": pod}}
    spec = {"headGroupSpec": {"template": {"spec": {}}}, "workerGroupSpecs": (group, {"template": {"spec": {}}})}
    # What an init container has beside it are the sidecars before it.
    assert requested([{"kind": "RayCluster", "spec": spec}, {"kind": "ConfigMap"}]) == {"cpu": 27, GPU: 6}


def capacity(*objects: dict[str, Any], **cluster: Any) -> Capacity | None:
    ctx = context({"scheduler": QUEUED}, facts=ClusterFacts(kueue_version=(0, 17)))
    return KueueScheduler().capacity(ctx, FakeCluster(list(objects), **cluster))


def test_what_is_free_is_the_quota_less_what_is_reserved() -> None:
    found = capacity(LOCAL, cluster_queue(used=12, gpu=16))
    assert found == Capacity(4, 16, f'ClusterQueue "cq": 12 of 16 {GPU} in use')


def test_a_cohort_lends_what_its_other_queues_leave() -> None:
    mine = cluster_queue(used=12, cohort="c", gpu=16)
    others = [
        cluster_queue("a", used=2, cohort="c", gpu=8), cluster_queue("b", cohort="other", gpu=99),
        cluster_queue("d", cohort="c", gpu={"nominalQuota": 8, "lendingLimit": 3}),
    ]  # fmt: skip
    assert (found := capacity(LOCAL, mine, *others)) is not None
    assert (found.free_gpus, found.total_gpus) == (4 + 6 + 3, 16 + 6 + 3)
    assert "its cohort lends up to 9" in found.detail
    limited = cluster_queue(used=12, cohort="c", gpu={"nominalQuota": 16, "borrowingLimit": 2})
    assert (found := capacity(LOCAL, limited, *others)) is not None
    assert (found.free_gpus, found.total_gpus) == (6, 18)


def test_what_is_borrowed_already_is_counted_once() -> None:
    mine, other = cluster_queue(used=20, cohort="c", gpu=16), cluster_queue("a", used=2, cohort="c", gpu=8)
    assert (found := capacity(LOCAL, mine, other)) is not None
    assert (found.free_gpus, found.total_gpus) == (2, 22)
    another = cluster_queue("b", used=2, cohort="c", gpu=0)
    assert (found := capacity(LOCAL, mine, other, another)) is not None
    assert (found.free_gpus, found.total_gpus) == (0, 20)


def test_without_a_look_at_the_queues_nothing_is_claimed() -> None:
    queue = cluster_queue(gpu=16)
    assert capacity(queue) is None
    assert capacity(LOCAL) is None
    with pytest.raises(ClusterError):
        capacity(LOCAL, queue, forbidden=frozenset({"ClusterQueue"}))
    assert KueueScheduler().capacity(context({"scheduler": {"kind": "kueue"}}), FakeCluster([queue])) is None
