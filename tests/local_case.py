"""A project for local runs, on the Ray of `fake_ray.py` or on a real one, and a look at what they leave."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from fake_ray import install
from waiting import PATIENCE, wait_until

from kubectl_nrl.local import LocalRecord, clusters, memory, ports, processes, runs, sessions
from kubectl_nrl.testing import RUN_ID, Outcome, Project

INFRA = "profile: local\nlaunch:\n  entrypoint: |\n"
#: The program with sessions in the first word's directory, and however little memory is free.
CLI = """
import sys
from pathlib import Path
from kubectl_nrl.app import main
from kubectl_nrl.local import memory, sessions
sessions.BASE, memory.PER_RAY = Path(sys.argv[1]), int(sys.argv[2])
sys.exit(main(sys.argv[3:]))
"""
#: Ports that each of the processes which run these tests side by side has to itself.
PORTS = 1000


class Local:
    """`run(entrypoint)` runs a recipe with that entrypoint; `left()` is every process and directory of this project's runs."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch | None = None) -> None:
        """With `monkeypatch` Ray is the fake one, and sessions and ports are this test's own: others run beside it.

        A real Ray's sockets have room for the path of the common place only.
        """
        self.project = Project({"recipe.yaml": {"cluster": {"num_nodes": 1}}}, path=tmp_path / "root")
        self.env = self.project.env
        if monkeypatch is not None:
            fake = install(tmp_path / "fake")
            monkeypatch.syspath_prepend(str(fake))
            monkeypatch.setattr("kubectl_nrl.local.memory.PER_RAY", 0)
            monkeypatch.setattr(sessions, "BASE", tmp_path / "sessions")
            keep_ports(tmp_path / "sessions")
            self.env["PYTHONPATH"] = str(fake)

    def infra(self, entrypoint: str, more: str = "") -> None:
        lines = "".join(f"    {line}\n" for line in entrypoint.splitlines())
        self.project.write("infra.yaml", INFRA + lines + more)

    def run(self, entrypoint: str = "true", flags: str = "", *, more: str = "", **env: str) -> Outcome:
        self.infra(entrypoint, more)
        return self.project.run(f"run recipe.yaml --infra infra.yaml {flags}", env={**self.env, **env})

    def command(self, *words: str, **how: Any) -> subprocess.Popen[bytes]:
        """The program as a process of its own, which can be killed."""
        path = os.pathsep.join(filter(None, sys.path))
        here = [str(sessions.BASE), str(memory.PER_RAY)]
        return subprocess.Popen(
            [sys.executable, "-c", CLI, *here, *words],
            cwd=self.project.path,
            env={**self.env, "PYTHONPATH": path},
            **how,
        )

    def begin(self, entrypoint: str, flags: str = "") -> LocalRecord:
        """A run that is not waited for, up to its driver's start."""
        self.run(entrypoint, f"--no-wait {flags}").ok()
        return self.until(lambda run: run.state != "PENDING")

    @property
    def record(self) -> LocalRecord:
        return runs(self.env)[0]

    def until(self, true: Callable[[LocalRecord], bool]) -> LocalRecord:
        wait_until(lambda: true(self.record), lambda: self.record)
        return self.record

    def over(self) -> LocalRecord:
        """The run when it has cleared up and its supervisor is gone."""
        return self.until(lambda run: run.torn_down and not run.alive)

    def left(self) -> dict[str, Any]:
        """What is there and should not be, by run; empty when nothing is."""
        found = {}
        for run in [*runs(self.env), *clusters(self.env)]:
            session = sessions.owned(run.session, run.folder)
            pids = processes.of_run(str(run.folder), session)
            if pids or run.alive or session:
                found[run.id] = (pids, run.alive, session)
        workers = self.project.home / "workers"  # of the fake Ray: known without looking as the program does
        for pid in workers.read_text().split() if workers.exists() else ():
            if lives(pid):
                found[f"worker {pid}"] = "alive"
        return found

    def end(self) -> None:
        """Whatever a failed test left."""
        for run in [*runs(self.env), *clusters(self.env)]:
            if run.alive and run.supervisor:
                os.kill(run.supervisor, signal.SIGKILL)
            session = sessions.owned(run.session, run.folder)
            processes.end(lambda mark=str(run.folder), session=session: processes.of_run(mark, session), grace=0)  # type: ignore[misc]
            if session:
                sessions.remove(Path(session))


def keep_ports(base: Path) -> None:
    """Claim, among the sessions under `base`, all ports but those of this worker of pytest-xdist.

    The claim is no session: it says nothing of an owner, and nobody clears it up.
    """
    number = int(re.sub(r"\D", "", os.environ.get("PYTEST_XDIST_WORKER", "")) or 0)
    first = ports.FIRST + number * PORTS % (ports.LAST - ports.FIRST - PORTS)
    taken = {str(port): port for port in range(ports.FIRST, ports.LAST + 1) if not first <= port < first + PORTS}
    claim = sessions.root(base) / "of-others"
    claim.mkdir(parents=True, mode=0o700)
    (claim / "ports.json").write_text(json.dumps({"x": taken}))


def lives(pid: str | int) -> bool:
    """Whether the process lives: one that has ended and is not waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def environment_of(log: str) -> Mapping[str, str]:
    return dict(line.partition("=")[::2] for line in log.splitlines() if "=" in line)


__all__ = ["PATIENCE", "RUN_ID", "Local", "environment_of", "lives"]
