"""Long-lived Ray clusters in a cluster in memory, each with the jobs that its Jobs API tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fake_cluster import FakeCluster, FakeJobs

from kubectl_nrl.errors import ClusterError

UP = {"conditions": [{"type": "HeadPodReady", "status": "True"}], "desiredWorkerReplicas": 0}


class ClusterJobs(FakeJobs):
    """Several jobs on one head, by id; each has `log` as its log. `refuses` is what every question gets instead."""

    def __init__(self, *jobs: Mapping[str, Any], log: bytes = b"one\ntwo\n") -> None:
        super().__init__(log)
        self.chunk = 100
        self.jobs = {str(job.get("submission_id") or job.get("job_id")): dict(job) for job in jobs}
        self.refuses: ClusterError | None = None
        self.obeys = True

    def list(self) -> list[dict[str, Any]]:
        if self.refuses:
            raise self.refuses
        return [dict(job) for job in self.jobs.values()]

    def get(self, submission_id: str) -> dict[str, Any] | None:
        if self.refuses:
            raise self.refuses
        return dict(self.jobs[submission_id]) if submission_id in self.jobs else None

    def stop(self, submission_id: str) -> bool:
        self.stopped.append(submission_id)
        if self.obeys:
            self.jobs[submission_id]["status"] = "STOPPED"
        return True

    def __enter__(self) -> ClusterJobs:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def job(
    submission_id: str | None, status: str = "RUNNING", user: str = "", start: int = 1, **more: Any
) -> dict[str, Any]:
    metadata = {"user": user} if user else {}
    kind = "SUBMISSION" if submission_id else "DRIVER"
    return {
        "type": kind,
        "submission_id": submission_id,
        "status": status,
        "metadata": metadata,
        "start_time": start,
        **more,
    }


class RayClusters:
    """The clusters of namespace `default`. `connect` stands for `kubectl_nrl.ray_jobs.connect`."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.heads: dict[str, ClusterJobs] = {}

    def put(self, name: str, *jobs: Mapping[str, Any], status: Any = UP, **labels: str) -> ClusterJobs:
        metadata = {"name": name, "labels": labels}
        self.cluster.put({"kind": "RayCluster", "metadata": metadata, "spec": {}, "status": status})
        self.heads[name] = ClusterJobs(*jobs)
        return self.heads[name]

    def connect(self, cluster: Any, raycluster: Mapping[str, Any]) -> ClusterJobs:
        return self.heads[raycluster["metadata"]["name"]]
