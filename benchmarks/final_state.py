"""Measure how soon `run` prints its result after a RayJob's final state, against a bare `kubectl get --watch` beside it.

On fake nodes, where a RayJob is real to KubeRay and takes seconds: what is measured is the way from the status to the screen,
not Ray. The clock is one, this process's; the median of the rounds counts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from cluster.fixtures import Cluster, started, stopped  # noqa: E402 (found by the line above)
from cluster.lifecycle import is_up  # noqa: E402
from cluster.state import state_for  # noqa: E402
from run_files import files  # noqa: E402

#: Seconds from the final state, as kubectl sees it, to the printed result.
GOAL = 1.0
ENTRY = "from kubectl_nrl.app import entry; entry()"


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures; 1 when the goal is missed, 2 when a run does not succeed."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args(argv)
    was_up = is_up(state_for("kwok"))
    cluster = started("kwok")
    try:
        taken = [_round(cluster, number) for number in range(args.rounds)]
    finally:
        cluster.close()
        if not was_up:
            stopped(cluster)
    median = statistics.median(taken)
    print("seconds from the final state, as `kubectl get --watch` prints it, to the printed result")
    print(f"  rounds  {', '.join(f'{t:.2f}' for t in taken)}")
    print(f"  median  {median:.2f}  (goal {GOAL:.2f})")
    return 0 if median <= GOAL else 1


def _round(cluster: Cluster, number: int) -> float:
    namespace, name = cluster.namespace(), f"bench-{number}"
    path = "{.metadata.name} {.status.jobDeploymentStatus}{'\\n'}"
    watch = ["get", "rayjobs", "-n", namespace, "--watch", "-o", f"jsonpath={path}"]
    kubectl = subprocess.Popen(
        ["kubectl", f"--kubeconfig={cluster.kubeconfig}", *watch], stdout=subprocess.PIPE, text=True
    )
    seen: list[float] = []
    reader = threading.Thread(target=_first, args=(kubectl, f"{name} Complete", seen), daemon=True)
    reader.start()
    try:
        printed = _run(cluster, namespace, name)
        reader.join(10)
    finally:
        kubectl.kill()
        kubectl.wait()
        cluster.delete_namespace(namespace)
    if not seen:
        print("kubectl never saw the final state", file=sys.stderr)
        raise SystemExit(2)
    return printed - seen[0]


def _first(process: subprocess.Popen[str], line: str, seen: list[float]) -> None:
    """Keep the time at which a line first came."""
    assert process.stdout is not None
    for got in process.stdout:
        if got.strip() == line:
            seen.append(time.monotonic())
            return


def _run(cluster: Cluster, namespace: str, name: str) -> float:
    """Run one recipe to its end; the time at which its result was printed."""
    with tempfile.TemporaryDirectory() as folder:
        for file, data in files("sleep 1; echo done", codePath="/").items():
            Path(folder, file).write_text(json.dumps(data))
        words = ["run", "recipe.yaml", "--infra", "infra.yaml", "-n", namespace, "--rayjob-name", name]
        env = {**os.environ, "HOME": folder, "KUBECONFIG": str(cluster.kubeconfig), "KUBECTL_NRL_USER": "bench"}
        env["PYTHONPATH"] = str(ROOT)
        run = subprocess.Popen(
            [sys.executable, "-c", ENTRY, *words],
            cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        seen: list[float] = []
        assert run.stdout is not None
        output = []
        for line in run.stdout:
            output.append(line)
            if line.startswith(f"rayjob/{name}: SUCCEEDED"):
                seen.append(time.monotonic())
        if run.wait() or not seen:
            print("".join(output), file=sys.stderr)
            raise SystemExit(2)
    return seen[0]


if __name__ == "__main__":
    raise SystemExit(main())
