"""Runs and Ray clusters in a cluster in memory, for tests of `status`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from fake_cluster import FakeCluster

from kubectl_nrl.testing import USER, Outcome, Project

RUNNING = {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING", "startTime": "2026-01-02T03:00:00Z"}
STARTING = {"jobDeploymentStatus": "Initializing", "startTime": "2026-01-02T03:00:00Z"}
ENDED = {"startTime": "2026-01-02T02:00:00Z", "endTime": "2026-01-02T03:00:00Z", "jobDeploymentStatus": "Complete"}
DONE = {**ENDED, "jobStatus": "SUCCEEDED"}
STOPPED = {**ENDED, "jobStatus": "STOPPED"}
RULES = {
    "deletionStrategy": {
        "deletionRules": [
            {"policy": "DeleteWorkers", "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 0}},
            {"policy": "DeleteCluster", "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 3600}},
        ]
    }
}
CLUSTER_READY = {"state": "ready", "stateTransitionTimes": {"ready": "2026-01-02T02:30:00Z"}}
READY: dict[str, Any] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
NO_IMAGE: dict[str, Any] = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}],
    "containerStatuses": [
        {
            "name": "ray",
            "image": "x:typo",
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off: x:typo: not found"}},
        }
    ],
}


class World:
    """Runs and Ray clusters of `USER` (or of `owner`), each made a second after the one before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster, self.project, self._made = FakeCluster(), Project(), 0
        monkeypatch.setattr("kubectl_nrl.cluster.Cluster.connect", lambda **words: self.cluster)

    def _meta(self, name: str, owner: str, **labels: str) -> dict[str, Any]:
        self._made += 1
        whose = {"kubectl-nrl/owner": owner, "nrl-k8s/owner": owner} if owner else {}
        stamp = f"2026-01-02T02:00:{self._made:02d}Z"
        return {"name": name, "creationTimestamp": stamp, "labels": {**whose, **labels}}

    def rayjob(
        self, name: str, status: Mapping[str, Any], pods: Mapping[str, Any] | None = None, *, owner: str = USER,
        spec: Mapping[str, Any] = RULES, cluster: str = "t",
    ) -> None:  # fmt: skip
        """A RayJob with its Ray cluster `NAME-x`, whose pods are `pods`: `head` and `w0`, `w1`, ... by status."""
        labels = {"kubectl-nrl/managed": "true", "kubectl-nrl/run": f"id-{name}", "kubectl-nrl/cluster": cluster}
        status = {"rayClusterName": f"{name}-x", "jobId": f"id-{name}", **status}
        job = {"kind": "RayJob", "metadata": self._meta(name, owner, **labels), "spec": dict(spec), "status": status}
        uid = self.cluster.put(job)["metadata"]["uid"]
        self.raycluster(f"{name}-x", pods or {}, owner=owner, refs=[{"kind": "RayJob", "name": name, "uid": uid}])

    def raycluster(
        self, name: str, pods: Mapping[str, Any], *, owner: str = USER, refs: list[dict[str, str]] | None = None,
        cluster: str = "t",
    ) -> None:  # fmt: skip
        workers = sum(pod != "head" for pod in pods)
        spec = {"headGroupSpec": {"template": {}}, "workerGroupSpecs": [{"groupName": "gpu", "replicas": workers}]}
        meta = {**self._meta(name, owner, **{"kubectl-nrl/cluster": cluster}), "ownerReferences": refs or []}
        up = CLUSTER_READY if pods and all(status == READY for status in pods.values()) else {}
        self.cluster.put({"kind": "RayCluster", "metadata": meta, "spec": spec, "status": dict(up)})
        for pod, status in pods.items():
            kind = (
                {"ray.io/node-type": "head"} if pod == "head" else {"ray.io/node-type": "worker", "ray.io/group": "gpu"}
            )
            labels = {"ray.io/cluster": name, **kind}
            gpus = {} if pod == "head" else {"nvidia.com/gpu": "4"}
            container = {"name": "ray", "resources": {"limits": gpus}}
            spec = {"nodeName": "n0", "containers": [container]}
            self.cluster.put(
                {
                    "kind": "Pod",
                    "metadata": {
                        "name": f"{name}-{pod}",
                        "labels": labels,
                        "creationTimestamp": "2026-01-02T02:00:00Z",
                    },
                    "spec": spec,
                    "status": status,
                }
            )

    def run(self, line: str) -> Outcome:
        return self.project.run(line)

    def items(self, line: str) -> list[dict[str, Any]]:
        return list(self.run(f"{line} -o json").ok().result("status")["items"])

    def names(self, line: str) -> list[str]:
        return [item["name"] for item in self.items(line)]
