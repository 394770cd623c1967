"""Long-lived clusters for tests of commands: a cluster in memory with an operator that makes things ready, and one Ray behind them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from fake_cluster import FakeCluster
from run_files import RECIPE, infra

from kubectl_nrl.errors import ClusterError
from kubectl_nrl.facts import OFFLINE
from kubectl_nrl.labels import DAEMON
from kubectl_nrl.testing import Outcome, Project

CONDITIONS = [{"type": name, "status": "True"} for name in ("HeadPodReady", "RayClusterProvisioned")]


@dataclass
class Ray:
    """Ray's Jobs API of every head: jobs by id, their log, packages; `ends` is the state that a submitted job is in at once.

    `daemon_ends` is that of a daemon. `submitted` are the ids, in order.
    """

    ends: str = "SUCCEEDED"
    daemon_ends: str = "RUNNING"
    submitted: list[str] = field(default_factory=list)
    log: bytes = b"step 1\nstep 2\n"
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    packages: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    down: ClusterError | None = None
    refuses: ClusterError | None = None
    life: str = "1"
    pod: str = "t-head"

    def run(self, command: Sequence[str], stdin: bytes = b"", timeout: float = 30.0) -> tuple[int, bytes, bytes]:
        raise ClusterError("no command can be run on this head", reason="NoExec")

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self.down is not None:
            raise self.down

    def version(self) -> dict[str, Any]:
        self._ask("version")
        return {"ray_version": "2.52.0"}

    def list(self) -> list[dict[str, Any]]:
        self._ask("list")
        return copy.deepcopy(list(self.jobs.values()))

    def get(self, submission_id: str) -> dict[str, Any] | None:
        self._ask("get")
        return copy.deepcopy(self.jobs.get(submission_id))

    def submit(
        self, entrypoint: str, submission_id: str, *, runtime_env: Mapping[str, Any], metadata: Mapping[str, str]
    ) -> bool:
        self._ask("submit")
        if self.refuses is not None:
            raise self.refuses
        self.submitted.append(submission_id)
        ends = self.daemon_ends if DAEMON in metadata else self.ends
        self.put(submission_id, ends, entrypoint=entrypoint, runtime_env=runtime_env, metadata=metadata)
        return True

    def put(self, submission_id: str, status: str, **more: Any) -> None:
        self.jobs[submission_id] = {"submission_id": submission_id, "status": status, "message": "", **more}

    def stop(self, submission_id: str) -> bool:
        self._ask(f"stop {submission_id}")
        self.jobs[submission_id]["status"] = "STOPPED"
        return True

    def delete(self, submission_id: str) -> bool:
        self._ask(f"delete {submission_id}")
        return self.jobs.pop(submission_id, None) is not None

    def log_chunk(self, submission_id: str, offset: int) -> bytes:
        return self.log[offset : offset + 256] if self.down is None else b""

    def upload_package(self, name: str, body: Any, progress: Any) -> int:
        sent = 0 if name in self.packages else len(body)
        self.packages.add(name)
        return sent

    def close(self) -> None:
        pass

    def __enter__(self) -> Ray:
        return self

    def __exit__(self, *raised: object) -> None:
        pass


class LongLivedWorld:
    """A Project on a fake cluster; `keeps_down` are kinds that the operator leaves as they were created."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster, self.ray = FakeCluster(), Ray()
        self.facts = replace(OFFLINE, source="cluster")
        self.keeps_down: set[str] = set()
        self.project = Project({"recipe.yaml": RECIPE, "infra.yaml": infra("true")})
        self.cluster.after["create", "RayCluster"] = self.operate
        self.cluster.after["create", "Deployment"] = self.operate
        self.cluster.after["delete", "RayCluster"] = self.sweep
        monkeypatch.setattr("kubectl_nrl.cluster.Cluster.connect", lambda **words: self.cluster)
        monkeypatch.setattr("kubectl_nrl.facts.discover", lambda cluster: self.facts)
        monkeypatch.setattr("kubectl_nrl.ray_jobs.connect", lambda cluster, raycluster: self.ray)

    def infra(self, *roles: str, deployment: bool = False, **more: Any) -> None:
        """Write an infra file with these roles beside training."""
        data = infra("true")
        spec = data["kuberay"]["training"]["spec"]
        for role in roles:
            data["kuberay"][role] = {"name": role, "spec": copy.deepcopy(spec)}
        if deployment:
            container = {"name": "j", "image": "j:1", "ports": [{"containerPort": 8000}]}
            pod = {"spec": {"template": {"spec": {"containers": [container]}}}}
            data["deployments"] = {"judge": {"name": "judge", **pod}}
        self.project.write("infra.yaml", {**data, **more})

    def operate(self) -> None:
        """Make what was created ready, once."""
        with self.cluster._lock:  # several are created, and taken back, at a time
            for (kind, _, name), obj in list(self.cluster.objects.items()):
                if kind in self.keeps_down or obj.get("status"):
                    continue
                if kind == "RayCluster":
                    self.cluster.set_status(kind, name, conditions=CONDITIONS)
                    labels = {"ray.io/cluster": name, "ray.io/node-type": "head"}
                    self.cluster.put({"kind": "Pod", "metadata": {"name": f"{name}-head", "labels": labels}})
                elif kind == "Deployment":
                    self.cluster.set_status(kind, name, availableReplicas=1, updatedReplicas=1)

    def never_start(self) -> None:
        """No cluster comes up: an image that is not there keeps the head of t from starting."""
        self.keeps_down.add("RayCluster")
        waiting = {"reason": "ImagePullBackOff", "message": "not found"}
        container = {"name": "ray", "image": "x:typo", "state": {"waiting": waiting}}
        labels = {"ray.io/cluster": "t", "ray.io/node-type": "head"}
        status = {"phase": "Pending", "containerStatuses": [container]}
        pod = {"kind": "Pod", "metadata": {"name": "t-head", "labels": labels}, "status": status, "spec": {}}
        self.cluster.after["create", "RayCluster"] = lambda: self.cluster.put(pod)

    def sweep(self) -> None:
        """Garbage collection: pods and records go with their cluster."""
        objects = list(self.cluster.objects.items())
        uids = {obj["metadata"]["uid"] for _, obj in objects}
        for (kind, _, name), obj in objects:
            meta = obj["metadata"]
            cluster = (meta.get("labels") or {}).get("ray.io/cluster")
            orphan = kind == "Pod" and cluster and ("RayCluster", "default", cluster) not in self.cluster.objects
            owners = {ref["uid"] for ref in meta.get("ownerReferences") or ()}
            if orphan or (owners and not owners & uids):
                self.cluster.remove(kind, name)

    def run(self, line: str, **words: Any) -> Outcome:
        return self.project.run(f"{line} -n default", **words)

    def up(self, more: str = "", **words: Any) -> Outcome:
        return self.run(f"cluster up recipe.yaml --infra infra.yaml {more}", **words)

    def down(self, more: str = "recipe.yaml --infra infra.yaml", **words: Any) -> Outcome:
        return self.run(f"cluster down {more}", **words)

    def names(self, kind: str) -> list[str]:
        return sorted(name for k, _, name in list(self.cluster.objects) if k == kind)

    def wrote(self) -> list[tuple[str, str]]:
        """(verb, kind) of what changed something on the cluster since `forget`."""
        return [(verb, kind) for verb, kind, _ in self.cluster.calls if verb in ("create", "patch", "delete", "apply")]

    def forget(self) -> None:
        self.cluster.calls.clear()
        self.ray.asked.clear()

    def give_to(self, kind: str, name: str, owner: str) -> None:
        """Another person's, by the labels."""
        obj = copy.deepcopy(self.cluster.objects[kind, "default", name])
        obj["metadata"]["labels"] |= {"kubectl-nrl/owner": owner, "nrl-k8s/owner": owner}
        obj["metadata"]["annotations"]["kubectl-nrl/user"] = owner
        self.cluster.put(obj)
