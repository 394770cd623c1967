"""Measure `run` against what a person types without it: `kubectl apply` and `kubectl wait` of the same RayJob, beside each other.

From the command to the driver's first line, and from the final state to what says so. On fake nodes, where a RayJob is real to
KubeRay and takes seconds: what is measured is the way to the API server and back, not Ray. Both take turns in one cluster, the
medians of the rounds count, and the clock is one, this process's.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import bench
from run_files import files

if TYPE_CHECKING:
    from cluster.fixtures import Cluster

#: Most that the first line may take of what it takes with kubectl, and seconds from the final state to the printed result.
FIRST_LINE, END = 1.05, 1.0
#: Seconds that the smallest real Ray cluster takes to be ready, which fake nodes do in none: what `run` asks before it creates anything
#: is judged against a run that has them.
REAL_START = 17.0
LINE = "the first line"


@dataclass(frozen=True)
class Taken:
    """Seconds from the command to the driver's first line, and from the final state to what says so."""

    first_line: float
    end: float


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures; 1 when a goal is missed, 2 when a run does not succeed."""
    args = bench.parser(__doc__, 5).parse_args(argv)
    ours, bare = [], []
    with bench.test_cluster("kwok") as cluster:
        for number in range(args.rounds):
            ours.append(_round(cluster, f"ours-{number}", _ours))
            bare.append(_round(cluster, f"bare-{number}", _bare))
    first, beside = (statistics.median(t.first_line for t in taken) for taken in (ours, bare))
    end, beside_end = (statistics.median(t.end for t in taken) for taken in (ours, bare))
    print("seconds (median)                              run    kubectl apply, wait")
    ratio = (REAL_START + first) / (REAL_START + beside)
    print(
        f"  command to the driver's first line       {first:6.2f}   {beside:6.2f}   "
        f"ratio {first / beside:.2f}, with {REAL_START:.0f} s for Ray {ratio:.2f} (goal {FIRST_LINE})"
    )
    print(f"  final state to what says so              {end:6.2f}   {beside_end:6.2f}   (goal {END:.2f})")
    for what, taken in (("run", ours), ("kubectl", bare)):
        print(f"  rounds of {what}: {', '.join(f'{t.first_line:.2f} and {t.end:.2f}' for t in taken)}")
    return 0 if ratio <= FIRST_LINE and end <= END else 1


#: A way to run it once, made ready; it returns when the driver's first line came, and when the end was said.
Way = Callable[[], tuple[float, float]]


def _round(cluster: Cluster, name: str, ready: Callable[[Cluster, str, str, Path], Way]) -> Taken:
    namespace = cluster.namespace()
    path = "{.metadata.name} {.status.jobDeploymentStatus}{'\\n'}"
    watch = ["get", "rayjobs", "-n", namespace, "--watch", "-o", f"jsonpath={path}"]
    with _kubectl(cluster, *watch) as kubectl, tempfile.TemporaryDirectory() as folder:
        seen: list[float] = []
        for file, data in files(f"echo {LINE}; sleep 4; echo done", codePath="/").items():
            Path(folder, file).write_text(json.dumps(data))
        way = ready(cluster, namespace, name, Path(folder))
        reader = threading.Thread(target=_first, args=(kubectl, f"{name} Complete", seen), daemon=True)
        reader.start()
        try:
            begin = time.monotonic()
            first, end = way()
            reader.join(10)
        finally:
            kubectl.kill()
            cluster.delete_namespace(namespace)
    if not seen:
        bench.fail("kubectl never saw the final state")
    return Taken(first - begin, end - seen[0])


def _ours(cluster: Cluster, namespace: str, name: str, folder: Path) -> Way:
    """One recipe, run to its end by this program."""

    def way() -> tuple[float, float]:
        first, end, output = [], [], []
        with _program(cluster, namespace, name, folder) as run:
            assert run.stdout is not None
            for line in run.stdout:
                output.append(line)
                if line.strip() == LINE:
                    first.append(time.monotonic())
                elif line.startswith(f"rayjob/{name}: SUCCEEDED"):
                    end.append(time.monotonic())
        if run.returncode or not first or not end:
            bench.fail("".join(output))
        return first[0], end[0]

    return way


def _bare(cluster: Cluster, namespace: str, name: str, folder: Path) -> Way:
    """The same RayJob by kubectl alone: applied, waited for, its log asked of the head until there is some.

    The manifest is what a person has written before, so the time begins with it.
    """
    with _program(cluster, namespace, name, folder, "--dry-run", "-o", "json") as made:
        manifests = made.communicate()[0]
    objects = manifests[manifests.index("{") :]

    def waits_for(status: str) -> None:
        cluster.kubectl("wait", f"rayjob/{name}", "-n", namespace, f"--for=jsonpath={status}", "--timeout=120s")

    def way() -> tuple[float, float]:
        cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=objects)
        waits_for("{.status.jobDeploymentStatus}=Running")
        about = "jsonpath={.status.jobId} {.status.rayClusterStatus.head.podName}"
        job, pod = cluster.kubectl("get", "rayjob", name, "-n", namespace, "-o", about).split()
        log = f"/api/v1/namespaces/{namespace}/pods/{pod}:8265/proxy/api/jobs/{job}/logs"
        while LINE not in cluster.kubectl("get", "--raw", log):
            pass
        first = time.monotonic()
        waits_for("{.status.jobDeploymentStatus}=Complete")
        return first, time.monotonic()

    return way


def _program(cluster: Cluster, namespace: str, name: str, folder: Path, *more: str) -> subprocess.Popen[str]:
    words = ["run", "recipe.yaml", "--infra", "infra.yaml", "-n", namespace, "--rayjob-name", name, *more]
    env = bench.on_cluster(cluster) | {"HOME": str(folder)}
    return subprocess.Popen(
        [*bench.PROGRAM, *words],
        cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL if more else subprocess.STDOUT, text=True,
    )  # fmt: skip


def _kubectl(cluster: Cluster, *words: str) -> subprocess.Popen[str]:
    command = ["kubectl", f"--kubeconfig={cluster.kubeconfig}", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _first(process: subprocess.Popen[str], line: str, seen: list[float]) -> None:
    """Keep the time at which a line first came."""
    assert process.stdout is not None
    for got in process.stdout:
        if got.strip() == line:
            seen.append(time.monotonic())
            return


if __name__ == "__main__":
    raise SystemExit(main())
