"""What the benchmarks share: the program and Ray as commands, a test cluster for a while, a timed command, a forwarded port.

It is to be imported before `cluster` and other modules of the tests, which are found by what it does to the path.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

if TYPE_CHECKING:
    from cluster.fixtures import Cluster

PROGRAM = [sys.executable, "-c", "from kubectl_nrl.app import entry; entry()"]
RAY = [sys.executable, "-m", "ray.scripts.scripts"]  # whose program need not be on PATH
NO_DIRECTORY = str(ROOT / "benchmarks" / "no-such-directory")


def parser(description: str | None, rounds: int) -> argparse.ArgumentParser:
    """Of a benchmark's command line, with `--rounds`."""
    made = argparse.ArgumentParser(description=description, allow_abbrev=False)
    made.add_argument("--rounds", type=int, default=rounds)
    return made


def environment() -> dict[str, str]:
    """This process's, without what the person at the keyboard has set for the program or for Ray."""
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("KUBECTL_NRL_", "NRL_", "RAY_"))}
    return {**ours, "NRL_K8S_USER": "bench", "XDG_CONFIG_HOME": NO_DIRECTORY}


def on_cluster(cluster: Cluster) -> dict[str, str]:
    """The environment of a program that works on a test cluster."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "KUBECTL_NRL_USER": "bench", "PYTHONPATH": path}


@contextlib.contextmanager
def test_cluster(depth: str) -> Iterator[Cluster]:
    """The test cluster of a depth; it is stopped again if it was not up before."""
    from cluster.fixtures import started, stopped
    from cluster.lifecycle import is_up
    from cluster.state import state_for

    was_up = is_up(state_for(depth))
    cluster = started(depth)
    try:
        yield cluster
    finally:
        cluster.close()
        if not was_up:
            stopped(cluster)


def timed(command: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | Path = ROOT) -> tuple[float, str]:
    """Seconds that a command takes, and what it prints. Ends the benchmark when it fails."""
    began = time.perf_counter()
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode:
        fail(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return seconds, done.stdout


@contextlib.contextmanager
def forwarded(kubectl: str, kubeconfig: str | Path, namespace: str, target: str) -> Iterator[str]:
    """The address of a head's dashboard behind a `kubectl port-forward` to a pod or service."""
    command = [kubectl, f"--kubeconfig={kubeconfig}", "-n", namespace, "port-forward", target, ":8265"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            said = process.stdout.readline()
            found = re.search(r"127\.0\.0\.1:(\d+)", said)
            if found is None:
                fail(said)
            # It says a line for each connection, and would stop at a full pipe.
            threading.Thread(target=process.stdout.read, daemon=True).start()
            yield f"http://127.0.0.1:{found[1]}"
        finally:
            process.kill()


def fail(text: str) -> NoReturn:
    """End the benchmark: something does not work at all, and a figure would mean nothing."""
    print(text, file=sys.stderr)
    raise SystemExit(2)
