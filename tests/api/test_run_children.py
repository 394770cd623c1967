"""Children of a run on a real API server: owned by it, gone with it, and taken back when it cannot be."""

from __future__ import annotations

from typing import Any

import pytest
from cluster.fixtures import Cluster
from plans import plan, planned, rayjob
from waiting import wait_until

from kubectl_nrl.api import Ref
from kubectl_nrl.apply import Created, up
from kubectl_nrl.cluster import Cluster as Api
from kubectl_nrl.errors import ClusterError
from kubectl_nrl.plan.model import Plan, PlannedObject

pytestmark = pytest.mark.api


def config_map(name: str) -> PlannedObject:
    made = planned("ConfigMap", name)
    manifest = {k: v for k, v in made.manifest.items() if k != "spec"}
    return PlannedObject({**manifest, "data": {"a": "b"}}, 0, "training", child=True)


def domain(name: str) -> PlannedObject:
    manifest = {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": {"name": name},
        "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": name}}},
    }
    refs = (Ref("resource.k8s.io/v1", "ResourceClaimTemplate", name),)
    return PlannedObject(manifest, 1, "training", child=True, await_refs=refs)


def plan_in(namespace: str, *objects: PlannedObject) -> Plan:
    from dataclasses import replace

    return replace(plan(*objects), namespace=namespace)


def bring(api: Any, made: Plan, **words: Any) -> Created:
    created = Created()
    up(made, api, created, say=lambda text: None, warn=lambda text: None, **words)
    return created


@pytest.fixture
def api(api_cluster: Cluster) -> Api:
    return Api.connect(kubeconfig=str(api_cluster.kubeconfig), env={})


def names(cluster: Cluster, namespace: str) -> set[str]:
    listed = cluster.kubectl("-n", namespace, "get", "configmaps,computedomains,rayjobs", "-o", "name").split()
    return set(listed) - {"configmap/kube-root-ca.crt"}


def test_children_go_with_their_run(api: Api, api_cluster: Cluster, api_namespace: str) -> None:
    bring(api, plan_in(api_namespace, config_map("script"), rayjob()))
    assert names(api_cluster, api_namespace) == {"configmap/script", "rayjob.ray.io/demo"}
    api_cluster.kubectl("-n", api_namespace, "delete", "rayjob", "demo")
    wait_until(lambda: not names(api_cluster, api_namespace), lambda: names(api_cluster, api_namespace))


def test_a_template_that_nobody_makes_takes_the_children_back(
    api: Api, api_cluster: Cluster, api_namespace: str
) -> None:
    api_cluster.kubectl("-n", api_namespace, "create", "configmap", "not-ours")
    made = plan_in(api_namespace, config_map("script"), domain("cd"), rayjob())
    with pytest.raises(ClusterError, match="was not made of computedomain/cd"):
        bring(api, made, controller_within=1.0)
    left = lambda: names(api_cluster, api_namespace)  # noqa: E731
    wait_until(lambda: left() == {"configmap/not-ours"}, left)


def test_a_refused_workload_takes_the_children_back(api: Api, api_cluster: Cluster, api_namespace: str) -> None:
    wrong = rayjob(noSuchField=1)
    with pytest.raises(ClusterError, match="noSuchField"):
        bring(api, plan_in(api_namespace, config_map("script"), wrong))
    wait_until(lambda: not names(api_cluster, api_namespace), lambda: names(api_cluster, api_namespace))


def test_what_took_a_childs_name_meanwhile_gets_no_owner(api: Api, api_cluster: Cluster, api_namespace: str) -> None:
    """Or it would be deleted with the run by garbage collection."""
    kubectl = lambda *words: api_cluster.kubectl("-n", api_namespace, *words)  # noqa: E731

    def event(said: Any) -> None:
        if said["kind"] == "RayJob":
            kubectl("delete", "configmap", "script")
            kubectl("create", "configmap", "script", "--from-literal=whose=another")

    warned: list[str] = []
    up(
        plan_in(api_namespace, config_map("script"), rayjob()), api, Created(),
        say=lambda text: None, warn=warned.append, event=event,
    )  # fmt: skip
    live = api.get("v1", "ConfigMap", "script", api_namespace)
    assert live is not None and not live["metadata"].get("ownerReferences")
    assert len(warned) == 1 and warned[0].startswith("configmap/script will not be removed with the run")
