"""RayJobs that cannot start, each for a reason of its own, and what is made of them: no Ray ever runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

from cluster.fixtures import Cluster
from waiting import wait_for

from kubectl_nrl.api import Provider
from kubectl_nrl.cluster import Cluster as Connection
from kubectl_nrl.reasons import Trouble, gather, troubles


def rayjob(name: str, head: Any = None, worker: Any = None, *, workers: int = 2, **spec: Any) -> dict[str, Any]:
    """A RayJob with a head and workers of group `w`; `head` and `worker` change the pod spec, `container` in it container 0."""

    def template(words: Any) -> dict[str, Any]:
        words = dict(words or {})
        small = {"requests": {"cpu": "10m", "memory": "16Mi"}}
        container = {"name": "ray", "image": "none/ray:1", "resources": small, **words.pop("container", {})}
        return {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container], **words}}

    group = {
        "groupName": "w",
        "replicas": workers,
        "minReplicas": workers,
        "maxReplicas": workers,
        "rayStartParams": {},
    }
    cluster = {
        "headGroupSpec": {"rayStartParams": {}, "template": template(head)},
        "workerGroupSpecs": [{**group, "template": template(worker)}],
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": name},
        "spec": {
            "submissionMode": "HTTPMode", "entrypoint": "true", "shutdownAfterJobFinishes": True, "rayClusterSpec": cluster,
            **spec,
        },
    }  # fmt: skip


class Looking:
    """Asks why RayJobs of one namespace wait."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster, self._namespace = cluster, namespace
        self._connection = Connection.connect(kubeconfig=str(cluster.kubeconfig))

    def create(self, *objects: dict[str, Any]) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self._cluster.kubectl("-n", self._namespace, "create", "-f", "-", stdin=json.dumps(listed))

    def troubles(self, name: str, *, later: float = 0.0, providers: tuple[Provider, ...] = ()) -> list[Trouble]:
        """What is wrong, as it will be judged `later` seconds from now when nothing changes."""
        live = self._connection.get("ray.io/v1", "RayJob", name, self._namespace)
        situation = gather(self._connection, self._namespace, rayjob=live, providers=providers)
        return troubles(situation, datetime.now(timezone.utc) + timedelta(seconds=later))

    def until(self, name: str, there: Callable[[Trouble], bool], **words: Any) -> Trouble:
        """Wait for a trouble of that kind."""
        found: list[Trouble] = []

        def look() -> list[Trouble]:
            found[:] = self.troubles(name, **words)
            return [trouble for trouble in found if there(trouble)]

        return wait_for(look, lambda: f"another trouble than {[trouble.line for trouble in found]}")[0]

    def lines(self, wanted: dict[str, str], **words: Any) -> None:
        """Each RayJob comes to the line that begins so."""
        for name, line in wanted.items():
            self.until(name, lambda trouble, line=line: trouble.line.startswith(line), **words)
