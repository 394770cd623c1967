"""Measure long-lived clusters: three roles brought up together and one after the other, a warm run beside `ray job submit`.

On fake nodes, where RayClusters are real to KubeRay and their drivers really run: what is measured is this program's way, not Ray's.
All take turns in one cluster, and the medians of the rounds count. `ray job submit` goes through a `kubectl port-forward` that is up
already; its log is read by a plain request, since the fake head streams none.
"""

from __future__ import annotations

import copy
import json
import statistics
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import bench
from run_files import RECIPE, infra

if TYPE_CHECKING:
    from cluster.fixtures import Cluster

#: Most that all roles together may take of one after the other, and a warm run's first line of `ray job submit`'s; seconds from the
#: driver's end to the exit. The first would be 0.5 where a cluster takes time to start: fake ones take none, so that this program's own
#: start counts, once on one side and three times on the other, and what an idle second core does for it.
TOGETHER, WARM, END = 0.65, 1.1, 1.0
ROLES = ("training", "generation", "gym")
LINE = "the first line"
#: Says when it ends, by the clock of this machine, on which the drivers of fake heads run.
DRIVER = f"echo {LINE}; sleep 1; python3 -c 'import time; print(time.time())'"


class Site:
    """One namespace of a cluster, and a directory with a recipe and an infra file of three roles."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder, self.namespace = cluster, folder, cluster.namespace()
        data = infra(DRIVER, name="training", codePath="/")
        for role in ROLES[1:]:
            data["kuberay"][role] = {**copy.deepcopy(data["kuberay"]["training"]), "name": role}
        (folder / "infra.yaml").write_text(json.dumps(data))
        (folder / "recipe.yaml").write_text(json.dumps(RECIPE))

    def program(self, *words: str) -> subprocess.Popen[str]:
        env = bench.on_cluster(self.cluster) | {"HOME": str(self.folder), "PYTHONUNBUFFERED": "1"}
        line = [*words, "recipe.yaml", "--infra", "infra.yaml", "-n", self.namespace]
        return subprocess.Popen(
            [*bench.PROGRAM, *line], cwd=self.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    def seconds(self, *words: str) -> float:
        """How long a command takes. Ends the benchmark when it fails."""
        begin = time.monotonic()
        with self.program(*words) as process:
            _, err = process.communicate()
        taken = time.monotonic() - begin
        if process.returncode:
            bench.fail(err)
        return taken

    def together(self) -> float:
        taken = self.seconds("cluster", "up")
        self.seconds("cluster", "down")
        return taken

    def apart(self) -> float:
        taken = sum(self.seconds("cluster", "up", "--target", f"kuberay.{role}") for role in ROLES)
        self.seconds("cluster", "down")
        return taken

    def warm(self) -> tuple[float, float]:
        """Seconds to the first line of a run on clusters that are up, and from the driver's end to the exit."""
        begin, first, last = time.monotonic(), 0.0, ""
        with self.program("run", "--raycluster") as process:
            assert process.stdout is not None
            for line in process.stdout:
                first = first or (time.monotonic() - begin if line.strip() == LINE else 0.0)
                last = line.strip() or last
            process.wait()
            exited = time.time()
        if process.returncode or not first:
            bench.fail(f"exit {process.returncode}: {last}")
        return first, exited - float(last)

    def ray_submit(self, address: str) -> float:
        """Seconds to the first line with Ray's own command."""
        begin, name = time.monotonic(), f"bare-{time.time_ns()}"
        flags = [f"--address={address}", "--no-wait", f"--submission-id={name}"]
        bench.timed([*bench.RAY, "job", "submit", *flags, "--", "sh", "-c", DRIVER])
        while True:
            with urllib.request.urlopen(f"{address}/api/jobs/{name}/logs", timeout=10) as answer:
                if LINE in json.load(answer)["logs"]:
                    return time.monotonic() - begin


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures; 1 when a goal is missed, 2 when something fails."""
    args = bench.parser(__doc__, 5).parse_args(argv)
    with bench.test_cluster("kwok") as cluster, tempfile.TemporaryDirectory() as folder:
        return _measure(Site(cluster, Path(folder)), args.rounds)


def _measure(site: Site, rounds: int) -> int:
    together, apart = _turns(rounds, site.together, site.apart)
    site.seconds("cluster", "up")
    head = "service/training-head-svc"
    with bench.forwarded("kubectl", site.cluster.kubeconfig, site.namespace, head) as address:
        warm, bare = _turns(rounds, site.warm, lambda: site.ray_submit(address))
    site.seconds("cluster", "down", "--yes")
    up, one_by_one = statistics.median(together), statistics.median(apart)
    first, submit = statistics.median(t[0] for t in warm), statistics.median(bare)
    end = statistics.median(t[1] for t in warm)
    print("seconds (median)")
    beside = f"one after the other {one_by_one:6.2f}   ratio {up / one_by_one:.2f} (goal {TOGETHER})"
    print(f"  cluster up of three roles       {up:6.2f}   {beside}")
    beside = f"ray job submit      {submit:6.2f}   ratio {first / submit:.2f} (goal {WARM})"
    print(f"  warm run to the first line      {first:6.2f}   {beside}")
    print(f"  the driver's end to the exit    {end:6.2f}   (goal {END:.2f})")
    return 0 if up / one_by_one <= TOGETHER and first / submit <= WARM and end <= END else 1


def _turns(rounds: int, first: Callable[[], object], second: Callable[[], object]) -> tuple[list, list]:  # type: ignore[type-arg]
    pairs = [(first(), second()) for _ in range(rounds)]
    return [one for one, _ in pairs], [two for _, two in pairs]


if __name__ == "__main__":
    raise SystemExit(main())
