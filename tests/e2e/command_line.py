"""The program as a user runs it, in processes of its own, against a cluster that runs RayJobs."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from cluster.fixtures import Cluster
from run_files import files
from waiting import PATIENCE, wait_until

_PROGRAM = [sys.executable, "-c", "from kubectl_nrl.app import entry; entry()"]


#: Programs that were started since the last `end_all`.
_started: list[subprocess.Popen[bytes]] = []


def end_all() -> None:
    """End the programs that still run."""
    while _started:
        process = _started.pop()
        process.kill()
        process.wait(PATIENCE)


@dataclass
class Running:
    """A started command line whose streams go to files."""

    process: subprocess.Popen[bytes]
    out_file: Path
    err_file: Path

    @property
    def out(self) -> str:
        return self.out_file.read_text(errors="replace")

    @property
    def err(self) -> str:
        return self.err_file.read_text(errors="replace")

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until the condition is true, were it for a moment; fails when the process ends before."""
        met = False

        def over() -> bool:
            nonlocal met
            ended = self.process.poll() is not None  # first, since its last words may be what is waited for
            met = condition()
            return met or ended

        wait_until(over, lambda: f"{what}\n{self}")
        assert met, f"it ended before {what}\n{self}"

    def interrupt(self) -> int:
        """Ctrl-C, as a terminal sends it; the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE)

    def end(self) -> int:
        return self.process.wait(PATIENCE)

    def __str__(self) -> str:
        return f"exit {self.process.poll()}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class CommandLine:
    """Runs `kubectl nrl` in a directory with a recipe and an infra file, in one namespace, as one user."""

    def __init__(self, cluster: Cluster, namespace: str, directory: Path) -> None:
        self.cluster, self.namespace, self.directory = cluster, namespace, directory
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "KUBECONFIG": str(cluster.kubeconfig),
            "KUBECTL_NRL_USER": "e2e",
            # The program that these tests were started with, wherever it is imported from.
            **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
        }
        self._started = 0

    def write(self, entrypoint: str, name: str = "e", **words: Any) -> None:
        """The recipe and the infra file of the next run; `words` add keys to `launch`."""
        for file, data in files(entrypoint, image=self.cluster.ray_image or "fake/ray:1", name=name, **words).items():
            (self.directory / file).write_text(yaml.safe_dump(data))

    def start(self, line: str, **env: str) -> Running:
        self._started += 1
        out, err = (self.directory / f"{self._started}.{stream}" for stream in ("out", "err"))
        words = shlex.split(line)
        words = words[2:] if words[:2] == ["kubectl", "nrl"] else [*words, "-n", self.namespace]
        with out.open("wb") as out_file, err.open("wb") as err_file:
            process = subprocess.Popen(
                [*_PROGRAM, *words], cwd=self.directory, env={**self.env, **env}, stdout=out_file, stderr=err_file
            )
        _started.append(process)
        return Running(process, out, err)

    def run(self, line: str, expect: int = 0, **env: str) -> Running:
        """Run to the end and assert the exit code."""
        running = self.start(line, **env)
        assert running.end() == expect, f"{line}\n{running}"
        return running

    def json(self, line: str, expect: int = 0, **env: str) -> Any:
        return json.loads(self.run(f"{line} -o json", expect, **env).out)

    def elsewhere(self, name: str = "other-laptop") -> dict[str, str]:
        """Environment of another laptop: nothing of this one's state is there."""
        other = self.directory / name
        other.mkdir(exist_ok=True)
        return {"HOME": str(other)}

    def pods(self) -> list[str]:
        """Kinds of the Ray pods there are now: `head`, `worker`."""
        path = "{range .items[*]}{.metadata.labels.ray\\.io/node-type}{'\\n'}{end}".replace("'", '"')
        selector = "ray.io/is-ray-node=yes"
        words = ["-n", self.namespace, "get", "pods", "-l", selector, "-o", f"jsonpath={path}"]
        return sorted(self.cluster.kubectl(*words).split())

    def pods_become(self, *kinds: str) -> None:
        """Wait until these Ray pods are all there are; teardown by KubeRay takes some seconds."""
        wait_until(lambda: self.pods() == sorted(kinds), lambda: f"pods to become {kinds}, they are {self.pods()}")

    def patch_rayjob(self, name: str, **spec: Any) -> None:
        """Change the spec of a RayJob as KubeRay lets anybody do: a deadline that is due only when a test has seen what it wants."""
        words = ["-n", self.namespace, "patch", "rayjob", name, "--type=merge", f"--patch={json.dumps({'spec': spec})}"]
        self.cluster.kubectl(*words)

    def rayjobs(self) -> list[str]:
        return self.cluster.kubectl("-n", self.namespace, "get", "rayjobs", "-o", "name").split()


def pasted(text: str, mark: str) -> str:
    """The command line after `mark: ` in what was printed."""
    return next(line.split(f"{mark}: ", 1)[1] for line in text.splitlines() if f"{mark}: " in line)
