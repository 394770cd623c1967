"""When a RayCluster or a Deployment counts as up, by objects of the shapes that KubeRay and Kubernetes write."""

from __future__ import annotations

from typing import Any

import pytest

from kubectl_nrl.watch import readiness_of
from kubectl_nrl.watch.health import parts_of


def ray(spec: dict[str, Any] | None = None, generation: int = 1, **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "c", "generation": generation},
        "spec": spec or {},
        "status": {"observedGeneration": 1, **status} if status else {},
    }


def conditions(**states: str) -> list[dict[str, str]]:
    return [{"type": name, "status": status} for name, status in states.items()]


UP = conditions(HeadPodReady="True", RayClusterProvisioned="True")


@pytest.mark.parametrize(
    ("live", "words"),
    [
        (ray(), "KubeRay has not looked at it yet"),
        (ray(generation=2, conditions=UP), "KubeRay has not looked at it yet"),
        (ray(conditions=conditions(HeadPodReady="False", RayClusterProvisioned="True"), state="ready"), "its head is not ready"),
        (ray(conditions=UP, state="ready", readyWorkerReplicas=1, desiredWorkerReplicas=4), "1/4 workers ready"),
        (ray(conditions=conditions(HeadPodReady="True", RayClusterProvisioned="False")), "its pods are starting"),
        (ray(state="failed", reason="no such\nthing"), "KubeRay could not make its pods: no such thing"),
        (ray({"suspend": True}, conditions=UP, state="ready"), "suspended"),
        (ray(conditions=[{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"}]),
         "KubeRay could not make its pods: exceeded quota"),
    ],
)  # fmt: skip
def test_a_cluster_that_lacks_something_is_not_up_whatever_its_state_says(live: dict[str, Any], words: str) -> None:
    found = readiness_of(live)
    assert not found.ready
    assert words in found.text


def test_a_cluster_is_up_when_head_workers_and_conditions_say_so() -> None:
    assert readiness_of(ray(conditions=UP, readyWorkerReplicas=4, desiredWorkerReplicas=4)).ready
    assert readiness_of(ray(conditions=UP)).words == "ready, 0 workers"


def test_an_operator_that_writes_no_conditions_is_taken_at_its_word() -> None:
    assert readiness_of(ray(state="ready", readyWorkerReplicas=1, desiredWorkerReplicas=1)).ready
    assert not readiness_of(ray(state="ready", readyWorkerReplicas=0, desiredWorkerReplicas=1)).ready


def test_only_a_scheduler_resumes_what_is_suspended() -> None:
    assert readiness_of(ray({"suspend": True})).stuck
    waiting = readiness_of(ray({"suspend": True}), suspended_by="kueue")
    assert (waiting.stuck, waiting.words) == (False, "suspended: kueue has not admitted it yet")


def deployment(**status: Any) -> dict[str, Any]:
    meta = {"name": "d", "generation": 2}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": {"replicas": 2}, "status": status}


@pytest.mark.parametrize(
    ("status", "ready"),
    [
        ({"observedGeneration": 1, "availableReplicas": 2, "updatedReplicas": 2}, False),
        ({"observedGeneration": 2, "availableReplicas": 2, "updatedReplicas": 1}, False),
        ({"observedGeneration": 2, "availableReplicas": 2, "updatedReplicas": 2}, True),
    ],
)
def test_replicas_of_an_older_template_do_not_count(status: dict[str, Any], ready: bool) -> None:
    assert readiness_of(deployment(**status)).ready is ready


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://judge:8000/health", ("judge", "ns", 8000, "/health")),
        ("http://judge.other/health?a=1", ("judge", "other", 80, "/health?a=1")),
        ("http://judge.ns.svc.cluster.local:9", ("judge", "ns", 9, "/")),
        ("judge:8000", ("judge", "ns", 8000, "/")),
        ("https://judge:8000/health", None),
        ("http://example.com.invalid/health", None),
        ("http://10.0.0.1:80/", None),
        ("http://localhost:80/", None),
    ],
)
def test_a_health_url_is_asked_of_the_service_that_it_names(url: str, found: tuple[Any, ...] | None) -> None:
    asked = parts_of(url, "ns")
    assert (None if asked is None else (asked.service, asked.namespace, asked.port, asked.path)) == found
