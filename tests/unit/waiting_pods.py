"""Objects of a run that waits, in the shapes that API servers, kubelets and KubeRay give them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

#: When everything here was made.
START = datetime(2026, 11, 30, 12, tzinfo=timezone.utc)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def stamp(seconds: float = 0.0) -> str:
    return at(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(
    name: str, *, node_type: str = "worker", group: str = "w", ready: bool = False, spec: Any = None, **status: Any
) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}, *status.pop("conditions", ())]
    labels = {"ray.io/cluster": "r-abc", "ray.io/node-type": node_type, "ray.io/group": group}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels, "creationTimestamp": stamp()},
        "spec": {"containers": [], **(spec or {})},
        "status": {"phase": "Running" if ready else "Pending", "conditions": conditions, **status},
    }


def head(**words: Any) -> dict[str, Any]:
    return pod("head", node_type="head", group="headgroup", **words)


def waiting(reason: str, message: str = "", image: str = "reg.example/rl:typo") -> list[dict[str, Any]]:
    return [{"name": "ray", "image": image, "state": {"waiting": {"reason": reason, "message": message}}}]


def event(about: dict[str, Any], reason: str, message: str, seconds: float = 1.0) -> dict[str, Any]:
    subject = {"kind": about["kind"], "name": about["metadata"]["name"], "uid": about["metadata"]["uid"]}
    return {
        "kind": "Event",
        "type": "Warning",
        "metadata": {"name": f"{subject['name']}.{reason}.{seconds}"},
        "involvedObject": subject,
        "reason": reason,
        "message": message,
        "lastTimestamp": stamp(seconds),
    }


def rayjob(deployment: str = "Initializing", job: str = "", **more: Any) -> dict[str, Any]:
    status = {"jobDeploymentStatus": deployment, "jobStatus": job, "rayClusterName": "r-abc", **more}
    meta = {"name": "r", "uid": "uid-r", "namespace": "default", "creationTimestamp": stamp()}
    return {"kind": "RayJob", "metadata": meta, "spec": {}, "status": status if deployment else {}}


def ray_cluster(workers: int = 2, *conditions: dict[str, Any], **status: Any) -> dict[str, Any]:
    group = {"groupName": "w", "replicas": workers, "numOfHosts": 1}
    meta = {"name": "r-abc", "uid": "uid-r-abc", "namespace": "default", "creationTimestamp": stamp()}
    return {
        "kind": "RayCluster",
        "metadata": meta,
        "spec": {"headGroupSpec": {"template": {}}, "workerGroupSpecs": [group]},
        "status": {"conditions": list(conditions), **status},
    }
