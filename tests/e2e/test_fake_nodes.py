"""Fake nodes: KubeRay takes a RayJob to its real end there, with pods that run nothing."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from cluster.fixtures import Cluster
from waiting import wait_until

pytestmark = pytest.mark.node


def rayjob(entrypoint: str) -> dict[str, Any]:
    def pods(name: str) -> dict[str, Any]:
        return {
            "spec": {"containers": [{"name": name, "image": "none/ray:1", "resources": {"requests": {"cpu": "1"}}}]}
        }

    worker = {"groupName": "w", "replicas": 3, "minReplicas": 3, "maxReplicas": 3, "rayStartParams": {}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "fake"},
        "spec": {
            "submissionMode": "HTTPMode",
            "entrypoint": entrypoint,
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": {
                "headGroupSpec": {"rayStartParams": {}, "template": pods("head")},
                "workerGroupSpecs": [{**worker, "template": pods("worker")}],
            },
        },
    }


def waited(cluster: Cluster, namespace: str, *final: str) -> dict[str, Any]:
    status: dict[str, Any] = {}

    def ended() -> bool:
        status.update(
            json.loads(cluster.kubectl("-n", namespace, "get", "rayjob", "fake", "-o", "json")).get("status", {})
        )
        return status.get("jobDeploymentStatus") in final

    wait_until(ended, lambda: f"{final}: {status}")
    return status


@pytest.mark.parametrize(
    ("entrypoint", "deployment", "job"),
    [("echo fine", "Complete", "SUCCEEDED"), ("echo bad; exit 3", "Failed", "FAILED")],
)
def test_a_rayjob_runs_to_its_end(
    kwok_cluster: Cluster, kwok_namespace: str, entrypoint: str, deployment: str, job: str
) -> None:
    kwok_cluster.kubectl("-n", kwok_namespace, "create", "-f", "-", stdin=json.dumps(rayjob(entrypoint)))
    status = waited(kwok_cluster, kwok_namespace, "Complete", "Failed")
    assert (status["jobDeploymentStatus"], status["jobStatus"]) == (deployment, job)
    wait_until(lambda: not kwok_cluster.kubectl("-n", kwok_namespace, "get", "pods", "-o", "name"), "no pods")


def test_nothing_happens_while_the_operator_is_gone(kwok_cluster: Cluster, kwok_namespace: str) -> None:
    with kwok_cluster.without_kuberay():
        kwok_cluster.kubectl("-n", kwok_namespace, "create", "-f", "-", stdin=json.dumps(rayjob("true")))
        time.sleep(2)
        job = json.loads(kwok_cluster.kubectl("-n", kwok_namespace, "get", "rayjob", "fake", "-o", "json"))
        assert "status" not in job
    waited(kwok_cluster, kwok_namespace, "Complete")
