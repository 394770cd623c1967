"""Measure how long `status NAME` takes to answer, against `kubectl get rayjob NAME` in the same run.

On fake nodes, where a RayJob is real to KubeRay: the run waits for GPUs that no node has, so that events are read and every
scheduler is asked, which is the longest way to an answer. The medians of rounds that take turns count.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import bench
from cluster import packages

if TYPE_CHECKING:
    from cluster.fixtures import Cluster

#: The most that an answer may cost, in answers of kubectl.
GOAL = 10.0
NAME, WORKERS = "bench", 8


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; 1 when the goal is missed, 2 when a command does not work at all."""
    args = bench.parser(__doc__, 9).parse_args(argv)
    with bench.test_cluster("kwok") as cluster:
        return _report(_measure(cluster, args.rounds))


def _measure(cluster: Cluster, rounds: int) -> dict[str, float]:
    """Median seconds of each command. The first round fills caches and is not counted."""
    namespace = cluster.namespace()
    cluster.kubectl("-n", namespace, "create", "-f", "-", stdin=json.dumps(_rayjob()))
    kubectl = [packages.kubectl(), f"--kubeconfig={cluster.kubeconfig}", "-n", namespace, "get", "rayjob", NAME]
    flags = ["-n", namespace, "--kubeconfig", str(cluster.kubeconfig)]
    program = [*bench.PROGRAM, "status"]
    commands = {
        "kubectl get rayjob NAME": kubectl,
        "status NAME": [*program, NAME, *flags],
        "status": [*program, "--all-users", *flags],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    try:
        with tempfile.TemporaryDirectory() as home:
            # As installed: with what Python has compiled.
            env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
            env |= {"HOME": home, "KUBECTL_NRL_USER": "bench", "PYTHONPATH": str(bench.ROOT)}
            _wait_for_workers(commands["status NAME"], env)
            for turn in range(rounds + 1):
                for name, command in commands.items():
                    seconds, _ = bench.timed(command, env=env, cwd=home)
                    if turn:
                        times[name].append(seconds)
    finally:
        cluster.delete_namespace(namespace)
    return {name: statistics.median(taken) for name, taken in times.items()}


def _wait_for_workers(command: Sequence[str], env: Mapping[str, str]) -> None:
    """Until KubeRay has made the pods, and the scheduler has said that they fit nowhere."""
    deadline = time.monotonic() + 120
    while True:
        item: dict[str, Any] = json.loads(bench.timed([*command, "-o", "json"], env=env)[1])["items"][0]
        if item["podsTotal"] == WORKERS + 1 and item["troubles"]:
            return
        if time.monotonic() > deadline:
            bench.fail(f"the run never waited for GPUs: {item}")
        time.sleep(0.5)


def _rayjob() -> dict[str, Any]:
    """A run whose workers ask for a device that does not exist."""

    def pods(**limits: str) -> dict[str, Any]:
        return {"spec": {"containers": [{"name": "ray", "image": "none/ray:1", "resources": {"limits": limits}}]}}

    group = {"groupName": "gpu", "replicas": WORKERS, "minReplicas": WORKERS, "maxReplicas": WORKERS}
    worker = {**group, "rayStartParams": {}, "template": pods(**{"bench.example/gpu": "4"})}
    spec = {"headGroupSpec": {"rayStartParams": {}, "template": pods()}, "workerGroupSpecs": [worker]}
    job = {"submissionMode": "HTTPMode", "entrypoint": "true", "rayClusterSpec": spec}
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": NAME}, "spec": job}


def _report(medians: Mapping[str, float]) -> int:
    bare, *ours = medians
    print(f"{'':<24}  {'median':>8}  {'ratio':>6}  {'goal':>5}")
    print(f"{bare:<24}  {medians[bare] * 1000:>5.0f} ms")
    missed = 0
    for name in ours:
        ratio = medians[name] / medians[bare]
        missed += ratio > GOAL
        print(
            f"{name:<24}  {medians[name] * 1000:>5.0f} ms  {ratio:>6.1f}  {GOAL:>5.0f}{'  MISSED' if ratio > GOAL else ''}"
        )
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
