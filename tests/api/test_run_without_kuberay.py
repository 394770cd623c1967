"""A cluster without KubeRay: said as such, before anything is created."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from cluster.fixtures import Cluster, started, stopped
from run_files import files
from waiting import wait_until

from kubectl_nrl.testing import Project

pytestmark = pytest.mark.api


@pytest.fixture(scope="module")
def bare_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An API server of our own, with KubeRay's kinds taken away."""
    cluster = started("api", tmp_path_factory.mktemp("bare") / "state")
    cluster.kubectl("delete", "crd", "rayjobs.ray.io", "rayclusters.ray.io", "rayservices.ray.io", "--ignore-not-found")
    served = cluster.kubectl("get", "crd", "-o", "name").split()
    ours = [name.partition("/")[2] for name in served if name.endswith(".ray.io")]
    if ours:
        cluster.kubectl("delete", "crd", *ours)
    try:
        _until_unserved(cluster, "ray.io")
        yield cluster
    finally:
        stopped(cluster)


def _until_unserved(cluster: Cluster, group: str) -> None:
    """The API server lists a group for a moment after the last CRD of it is gone."""

    def served() -> list[str]:
        return [entry["name"] for entry in json.loads(cluster.kubectl("get", "--raw=/apis"))["groups"]]

    wait_until(lambda: group not in served(), served)


@pytest.mark.parametrize(
    "line", ["run recipe.yaml --infra infra.yaml", "run recipe.yaml --infra infra.yaml --dry-run=server"]
)
def test_run_names_what_is_missing_and_who_installs_it(bare_cluster: Cluster, line: str) -> None:
    project = Project(files(), env={"KUBECONFIG": str(bare_cluster.kubeconfig)})
    done = project.run(line)
    assert done.exit == 3, done
    assert "this cluster has no KubeRay (ray.io/v1 is not served by " in done.err
    assert "helm install kuberay-operator" in done.err


def test_runs_and_job_do_not_take_a_missing_kind_for_an_empty_list(bare_cluster: Cluster) -> None:
    project = Project(env={"KUBECONFIG": str(bare_cluster.kubeconfig)})
    for line in ("runs", "job logs some-run", "job stop some-run"):
        done = project.run(line)
        assert done.exit == 3, done
        assert "rayjobs.ray.io" in done.err and "this cluster does not serve it" in done.err
        assert "helm install kuberay-operator" in done.err
