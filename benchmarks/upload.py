"""Measure an upload of 50 MB against `ray job submit` through a bare `kubectl port-forward`, and its repeat.

Both send the same files to the same head and run the same command, in turns; only the time until the job is accepted counts. It
needs the test cluster's node depth (tests/cluster/up) and Ray on this machine, and says so and ends with 0 where they are not.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import bench
from cluster import images, packages
from cluster.lifecycle import is_up
from cluster.state import state_for

SIZE = 50_000_000
#: The most that an upload may cost against Ray's own.
GOAL = 1.1

#: Our side as a process of its own, as Ray's is: imports count.
OURS = """
import sys, time
from pathlib import Path
from kubectl_nrl import ray_jobs
from kubectl_nrl.cluster import Cluster
from kubectl_nrl.upload import pack, select
kubeconfig, namespace, name, root, submission = sys.argv[1:]
cluster = Cluster.connect(kubeconfig=kubeconfig, context=None)
live = cluster.get("ray.io/v1", "RayCluster", name, namespace)
with pack(select(Path(root)), "a: 1") as package, ray_jobs.connect(cluster, live) as jobs:
    sent = jobs.upload_package(package.name, package)
    jobs.submit("true", submission, runtime_env={"working_dir": package.uri}, metadata={})
print(sent)
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; 1 when a goal is missed."""
    args = bench.parser(__doc__, 3).parse_args(argv)
    kubeconfig, has_ray = node_kubeconfig(), importlib.util.find_spec("ray") is not None
    if kubeconfig is None or not has_ray:
        what = "the node depth is not up (tests/cluster/up)" if kubeconfig is None else "ray is not installed"
        print(f"upload: not measured, {what}")
        return 0
    with head(kubeconfig) as (namespace, cluster, pod):
        return report(*measure(kubeconfig, namespace, cluster, pod, args.rounds))


def node_kubeconfig() -> str | None:
    """Of the cluster that NRL_E2E_KUBECONFIG names, else of the test cluster's node when it is up."""
    state = state_for("node")
    return os.environ.get("NRL_E2E_KUBECONFIG") or (str(state.kubeconfig) if is_up(state) else None)


def kubectl(kubeconfig: str, *words: str, text: str = "") -> str:
    command = [str(packages.kubectl()), "--kubeconfig", kubeconfig, *words]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


@contextlib.contextmanager
def head(kubeconfig: str) -> Iterator[tuple[str, str, str]]:
    """A Ray cluster of a head alone: its namespace, its name, its pod."""
    namespace, name = f"bench-upload-{os.getpid()}", "b"
    image = os.environ.get("NRL_E2E_RAY_IMAGE") or images.RAY_IMAGE
    container = {
        "name": "ray", "image": image, "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": {"cpu": "200m", "memory": "1Gi"}},
    }  # fmt: skip
    group = {"rayStartParams": {"num-cpus": "1"}, "template": {"spec": {"containers": [container]}}}
    manifest = {
        "apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": name},
        "spec": {"rayVersion": "2.52.0", "headGroupSpec": group},
    }  # fmt: skip
    kubectl(kubeconfig, "create", "namespace", namespace)
    try:
        kubectl(kubeconfig, "-n", namespace, "create", "-f", "-", text=json.dumps(manifest))
        wait = ("-n", namespace, "wait", f"raycluster/{name}", "--for=condition=HeadPodReady", "--timeout=300s")
        kubectl(kubeconfig, *wait)
        pods = kubectl(kubeconfig, "-n", namespace, "get", "pods", "-l", f"ray.io/cluster={name}", "-o", "name")
        yield namespace, name, pods.split()[0]
    finally:
        kubectl(kubeconfig, "delete", "namespace", namespace, "--wait=false")


def measure(kubeconfig: str, namespace: str, cluster: str, pod: str, rounds: int) -> tuple[dict[str, float], list[int]]:
    """Median seconds of each side, and the bytes that our repeats sent. The first round fills caches and is not counted."""
    times: dict[str, list[float]] = {"ray job submit": [], "kubectl nrl": [], "kubectl nrl, again": []}
    again: list[int] = []
    for turn in range(rounds + 1):
        with (
            tempfile.TemporaryDirectory() as folder,
            bench.forwarded(str(packages.kubectl()), kubeconfig, namespace, pod) as address,
        ):
            theirs = files(Path(folder) / "theirs")
            ours = files(Path(folder) / "ours")
            took = {
                "ray job submit": bench.timed(
                    [
                        *bench.RAY,
                        "job",
                        "submit",
                        "--no-wait",
                        "--address",
                        address,
                        "--working-dir",
                        theirs,
                        "--",
                        "true",
                    ]
                )[0]
            }
            for title in ("kubectl nrl", "kubectl nrl, again"):
                words = [kubeconfig, namespace, cluster, ours, f"bench-{turn}-{len(title)}"]
                took[title], out = bench.timed([sys.executable, "-c", OURS, *words])
                sent = int(out.split()[-1])
                assert title.endswith("again") or sent > SIZE * 0.9, f"sent {sent} bytes of {SIZE}"
            again.append(sent)
        if turn:
            for title, seconds in took.items():
                times[title].append(seconds)
    return {title: statistics.median(taken) for title, taken in times.items()}, again


def files(directory: Path) -> str:
    """50 MB in 50 files that do not shrink, new each time, so that no side has them already."""
    directory.mkdir()
    for number in range(50):
        (directory / f"part-{number}.bin").write_bytes(os.urandom(SIZE // 50))
    return str(directory)


def report(medians: dict[str, float], again: Sequence[int]) -> int:
    """The table, and whether both goals are met: the ratio, and no byte for unchanged code."""
    bare = medians["ray job submit"]
    missed = medians["kubectl nrl"] > GOAL * bare or any(again)
    print(f"upload of {SIZE // 1_000_000} MB    median   ratio   goal")
    for title, seconds in medians.items():
        goal = f"{GOAL:>6.1f}" if title == "kubectl nrl" else ""
        print(f"{title:<20} {seconds:>6.2f} s  {seconds / bare:>6.2f} {goal}".rstrip())
    print(f"bytes sent again: {max(again)}, goal 0{'   MISSED' if missed else ''}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
