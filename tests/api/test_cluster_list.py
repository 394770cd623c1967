"""`cluster list` against a real API server: more clusters than a page holds, and a server that forgets between pages."""

from __future__ import annotations

import json

import pytest
from cluster.fault_proxy import FaultProxy
from cluster.fixtures import Cluster

from kubectl_nrl.cluster.objects import PAGE
from kubectl_nrl.testing import Project

pytestmark = pytest.mark.api

COUNT = PAGE + 20


def test_no_cluster_is_lost_or_doubled_when_the_server_forgets_between_pages(
    api_cluster: Cluster, api_namespace: str
) -> None:
    template = {"spec": {"containers": [{"name": "ray", "image": "x:1"}]}}
    spec = {"suspend": True, "headGroupSpec": {"rayStartParams": {}, "template": template}}
    kind = {"apiVersion": "ray.io/v1", "kind": "RayCluster"}
    items = [{**kind, "metadata": {"name": f"c-{number:03}"}, "spec": spec} for number in range(COUNT)]
    whole = {"apiVersion": "v1", "kind": "List", "items": items}
    api_cluster.kubectl("-n", api_namespace, "create", "-f", "-", stdin=json.dumps(whole))
    with FaultProxy(api_cluster.kubeconfig) as proxy:
        project = Project(env={"KUBECONFIG": str(proxy.kubeconfig)})
        paged = project.run(f"cluster list -n {api_namespace} -o json").ok().result("cluster_list")
        proxy.answer(410, path="continue=", times=1)
        again = project.run(f"cluster list -n {api_namespace} -o json").ok().result("cluster_list")
        assert any(seen.status == 410 for seen in proxy.seen)
    for listed in (paged, again):
        assert sorted(c["name"] for c in listed) == [f"c-{number:03}" for number in range(COUNT)]
        assert {c["state"] for c in listed} == {"Suspended"}


def test_who_may_not_list_them_is_told_verb_resource_and_namespace(api_cluster: Cluster, api_namespace: str) -> None:
    limited = api_cluster.user(api_namespace, [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}])
    done = Project(env={"KUBECONFIG": str(limited)}).run(f"cluster list -n {api_namespace}")
    assert done.exit == 3
    assert f'cannot list rayclusters.ray.io in namespace "{api_namespace}"' in done.err
    assert len(done.err.splitlines()) == 2
