"""Measure `cluster list` of a thousand RayClusters against `kubectl get rayclusters -o json` in the same run.

Suspended RayClusters on an API server where nothing acts: they cost nothing, and what is measured is fetching and
reading them. Rounds take turns, so that a busy machine slows both; their medians are compared.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import bench

if TYPE_CHECKING:
    from cluster.fixtures import Cluster

#: The most that the list may cost against kubectl's.
GOAL = 1.2


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures; 1 when the goal is missed, 2 when a command does not list them all."""
    parser = bench.parser(__doc__, 5)
    parser.add_argument("--clusters", type=int, default=1000)
    args = parser.parse_args(argv)
    with bench.test_cluster("api") as cluster:
        ours, kubectl = _measure(cluster, args.clusters, args.rounds)
    ratio = ours / kubectl
    print(f"{args.clusters} RayClusters, medians of {args.rounds}")
    print(f"  kubectl get -o json  {kubectl * 1000:>6.0f} ms")
    print(f"  cluster list         {ours * 1000:>6.0f} ms  ratio {ratio:.2f} (goal {GOAL})")
    return 0 if ratio <= GOAL else 1


def _measure(cluster: Cluster, count: int, rounds: int) -> tuple[float, float]:
    namespace = cluster.namespace()
    env = bench.on_cluster(cluster) | {"XDG_STATE_HOME": bench.NO_DIRECTORY}  # runs of this machine are not listed
    ours = [*bench.PROGRAM, "cluster", "list", "-n", namespace]
    theirs = ["kubectl", "get", "rayclusters", "-n", namespace, "-o", "json"]
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    try:
        _fill(cluster, namespace, count)
        for turn in range(rounds + 1):
            for name, command in (("theirs", theirs), ("ours", ours)):
                taken, output = bench.timed(command, env=env)
                listed = output.count("\n") - 1 if name == "ours" else len(json.loads(output)["items"])
                if listed != count:
                    bench.fail(f"{name} listed {listed} of {count}")
                if turn:  # the first round fills caches
                    times[name].append(taken)
    finally:
        cluster.delete_namespace(namespace)
    return statistics.median(times["ours"]), statistics.median(times["theirs"])


def _fill(cluster: Cluster, namespace: str, count: int) -> None:
    items = [_suspended(f"bench-{number:04}") for number in range(count)]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"apiVersion": "v1", "kind": "List", "items": items}, file)
        file.flush()
        cluster.kubectl("-n", namespace, "create", "-f", file.name)


def _suspended(name: str) -> dict[str, Any]:
    """A RayCluster as large as a real one: a head and four groups with a full pod template each."""
    env = [{"name": f"SETTING_{number}", "value": f"value of setting {number}"} for number in range(12)]
    limits = {"cpu": "140", "memory": "900Gi", "nvidia.com/gpu": "4"}
    container = {"name": "ray", "image": "registry.example/nemo-rl:v0.7.0", "env": env, "resources": {"limits": limits}}
    template = {"spec": {"containers": [container], "tolerations": [{"operator": "Exists"}]}}
    group = {"replicas": 16, "minReplicas": 16, "maxReplicas": 16, "rayStartParams": {}, "template": template}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name, "labels": {"kubectl-nrl/owner": "bench"}},
        "spec": {
            "suspend": True,
            "headGroupSpec": {"rayStartParams": {}, "template": template},
            "workerGroupSpecs": [{**group, "groupName": f"segment-{number}"} for number in range(4)],
        },
    }


if __name__ == "__main__":
    raise SystemExit(main())
