"""Measure long-lived clusters: three roles brought up together and one after the other, a warm run beside `ray job submit`.

On fake nodes, where RayClusters are real to KubeRay and their drivers really run: what is measured is this program's way, not Ray's.
All take turns in one cluster, and the medians of the rounds count. `ray job submit` goes through a `kubectl port-forward` that is up
already; its log is read by a plain request, since the fake head streams none.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from cluster.fixtures import Cluster, started, stopped  # noqa: E402 (found by the line above)
from cluster.lifecycle import is_up  # noqa: E402
from cluster.state import state_for  # noqa: E402
from run_files import RECIPE, infra  # noqa: E402

#: Most that all roles together may take of one after the other, and a warm run's first line of `ray job submit`'s; seconds from the
#: driver's end to the exit. The first would be 0.5 where a cluster takes time to start: fake ones take none, so that this program's own
#: start counts, once on one side and three times on the other, and what an idle second core does for it.
TOGETHER, WARM, END = 0.65, 1.1, 1.0
ROLES = ("training", "generation", "gym")
RAY = [sys.executable, "-m", "ray.scripts.scripts"]  # whose program need not be on PATH
ENTRY = "from kubectl_nrl.app import entry; entry()"
LINE = "the first line"
#: Says when it ends, by the clock of this machine, on which the drivers of fake heads run.
DRIVER = f"echo {LINE}; sleep 1; python3 -c 'import time; print(time.time())'"


class Bench:
    """One namespace of a cluster, and a directory with a recipe and an infra file of three roles."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder, self.namespace = cluster, folder, cluster.namespace()
        data = infra(DRIVER, name="training", codePath="/")
        for role in ROLES[1:]:
            data["kuberay"][role] = {**copy.deepcopy(data["kuberay"]["training"]), "name": role}
        (folder / "infra.yaml").write_text(json.dumps(data))
        (folder / "recipe.yaml").write_text(json.dumps(RECIPE))

    def program(self, *words: str) -> subprocess.Popen[str]:
        env = {**os.environ, "HOME": str(self.folder), "KUBECONFIG": str(self.cluster.kubeconfig)}
        env |= {"KUBECTL_NRL_USER": "bench", "PYTHONUNBUFFERED": "1"}
        env["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        line = [*words, "recipe.yaml", "--infra", "infra.yaml", "-n", self.namespace]
        return subprocess.Popen(
            [sys.executable, "-c", ENTRY, *line], cwd=self.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    def seconds(self, *words: str) -> float:
        """How long a command takes. Ends the benchmark when it fails."""
        begin = time.monotonic()
        with self.program(*words) as process:
            _, err = process.communicate()
        taken = time.monotonic() - begin
        _require(process.returncode == 0, err)
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
        _require(process.returncode == 0 and first > 0, f"exit {process.returncode}: {last}")
        return first, exited - float(last)

    def ray_submit(self, port: int) -> float:
        """Seconds to the first line with Ray's own command."""
        address = f"http://127.0.0.1:{port}"
        begin, name = time.monotonic(), f"bare-{time.time_ns()}"
        line = [
            *RAY,
            "job",
            "submit",
            "--address",
            address,
            "--no-wait",
            "--submission-id",
            name,
            "--",
            "sh",
            "-c",
            DRIVER,
        ]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        _require(done.returncode == 0, done.stdout + done.stderr)
        while True:
            with urllib.request.urlopen(f"{address}/api/jobs/{name}/logs", timeout=10) as answer:
                if LINE in json.load(answer)["logs"]:
                    return time.monotonic() - begin


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures; 1 when a goal is missed, 2 when something fails."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args(argv)
    was_up = is_up(state_for("kwok"))
    cluster = started("kwok")
    try:
        with tempfile.TemporaryDirectory() as folder:
            return _measure(Bench(cluster, Path(folder)), args.rounds)
    finally:
        cluster.close()
        if not was_up:
            stopped(cluster)


def _measure(bench: Bench, rounds: int) -> int:
    together, apart = _turns(rounds, bench.together, bench.apart)
    bench.seconds("cluster", "up")
    with _forward(bench) as port:
        warm, bare = _turns(rounds, bench.warm, lambda: bench.ray_submit(port))
    bench.seconds("cluster", "down", "--yes")
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


@contextmanager
def _forward(bench: Bench) -> Iterator[int]:
    """A `kubectl port-forward` to the training head's dashboard; its local port."""
    service = "service/training-head-svc"
    command = [
        "kubectl",
        f"--kubeconfig={bench.cluster.kubeconfig}",
        "-n",
        bench.namespace,
        "port-forward",
        service,
        ":8265",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as kubectl:
        assert kubectl.stdout is not None
        said = kubectl.stdout.readline()
        found = re.search(r"127\.0\.0\.1:(\d+)", said)
        try:
            _require(found is not None, said)
            assert found is not None
            yield int(found[1])
        finally:
            kubectl.kill()


def _require(right: bool, text: str) -> None:
    if not right:
        print(text, file=sys.stderr)
        raise SystemExit(2)


if __name__ == "__main__":
    raise SystemExit(main())
