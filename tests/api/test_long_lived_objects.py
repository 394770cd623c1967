"""Long-lived objects against a real API server on which no controller acts: what it adds is no difference."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from cluster.fixtures import Cluster
from run_files import RECIPE, infra

from kubectl_nrl.testing import Outcome, Project

pytestmark = pytest.mark.api


class Bench:
    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        data = infra("true")
        spec = data["kuberay"]["training"]["spec"]
        data["kuberay"]["gym"] = {"name": "gym", "spec": copy.deepcopy(spec)}
        container = {
            "name": "j",
            "image": "j:1",
            "ports": [{"containerPort": 8000}],
            "env": [{"name": "A", "value": "1"}],
        }
        container["resources"] = {"requests": {"cpu": "1000m", "memory": "1024Mi"}}
        pods = {"template": {"spec": {"containers": [container]}}}
        data["deployments"] = {"judge": {"name": "judge", "spec": pods}}
        self.project = Project({"recipe.yaml": RECIPE, "infra.yaml": data}, env={"KUBECONFIG": str(cluster.kubeconfig)})

    def up(self, more: str = "") -> Outcome:
        return self.project.run(f"cluster up recipe.yaml --infra infra.yaml -n {self.namespace} --no-wait {more}")

    def actions(self, more: str = "") -> set[str]:
        return {o["action"] for o in self.up(f"-o json {more}").ok().result("cluster_up")["objects"]}

    def kubectl(self, *words: str) -> str:
        return self.cluster.kubectl("-n", self.namespace, *words)


@pytest.fixture
def bench(api_cluster: Cluster, api_namespace: str) -> Bench:
    return Bench(api_cluster, api_namespace)


def test_what_was_made_is_unchanged_whatever_the_server_added(bench: Bench) -> None:
    assert bench.actions() == {"created"}
    assert bench.actions() == {"unchanged"}


def test_objects_that_do_not_say_what_was_applied_are_compared_field_by_field(bench: Bench) -> None:
    bench.up().ok()
    for name in ("raycluster/t", "raycluster/gym", "deployment/judge"):
        bench.kubectl("annotate", name, "kubectl-nrl/last-applied-")
    assert bench.actions() == {"unchanged"}
    bench.kubectl("set", "image", "deployment/judge", "j=other:2")
    done = bench.up("--target deployments.judge").ok()
    assert "containers[j].image: other:2 -> j:1" in done.err


def test_a_strange_object_of_that_name_stops_everything_before_anything_is_made(bench: Bench) -> None:
    bench.kubectl("create", "deployment", "judge", "--image=other:1")
    done = bench.up()
    assert (done.exit, "deployment/judge" in done.err, "belongs to nobody" in done.err) == (3, True, True), done.err
    assert bench.kubectl("get", "rayclusters", "-o", "name") == ""


def test_a_field_that_only_the_server_refuses_leaves_nothing(bench: Bench) -> None:
    data: Any = bench.project.read("infra.yaml")
    bench.project.write(
        "infra.yaml", data.replace("name: judge", "name: judge\n    labels: {a: 'not a label value!'}", 1)
    )
    done = bench.up()
    assert done.exit in (2, 3), done.err
    assert bench.kubectl("get", "rayclusters,deployments", "-o", "name") == ""
