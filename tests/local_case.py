"""A project for local runs, on the Ray of `fake_ray.py` or on a real one, and a look at what they leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from fake_ray import install
from waiting import wait_until

from kubectl_nrl.local import LocalRecord, clusters, processes, runs, sessions
from kubectl_nrl.testing import RUN_ID, Outcome, Project

INFRA = "profile: local\nlaunch:\n  entrypoint: |\n"
CLI = "import sys; from kubectl_nrl.app import main; sys.exit(main(sys.argv[1:]))"


class Local:
    """`run(entrypoint)` runs a recipe with that entrypoint; `left()` is every process and directory of this project's runs."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch | None = None) -> None:
        """With `monkeypatch` Ray is the fake one."""
        self.project = Project({"recipe.yaml": {"cluster": {"num_nodes": 1}}}, path=tmp_path / "root")
        self.env = self.project.env
        if monkeypatch is not None:
            fake = install(tmp_path / "fake")
            monkeypatch.syspath_prepend(str(fake))
            monkeypatch.setattr("kubectl_nrl.local.memory.PER_RAY", 0)
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
        return subprocess.Popen(
            [sys.executable, "-c", CLI, *words], cwd=self.project.path, env={**self.env, "PYTHONPATH": path}, **how
        )

    def begin(self, entrypoint: str, flags: str = "") -> LocalRecord:
        """A run that is not waited for, up to its driver's start."""
        self.run(entrypoint, f"--no-wait {flags}").ok()
        return self.until(lambda run: run.state != "PENDING")

    @property
    def record(self) -> LocalRecord:
        return runs(self.env)[0]

    def until(self, true: Callable[[LocalRecord], bool], within: float = 60.0) -> LocalRecord:
        wait_until(lambda: true(self.record), lambda: self.record, within)
        return self.record

    def over(self, within: float = 60.0) -> LocalRecord:
        """The run when it has cleared up and its supervisor is gone."""
        return self.until(lambda run: run.torn_down and not run.alive, within)

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
            if _lives(pid):
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


def _lives(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def environment_of(log: str) -> Mapping[str, str]:
    return dict(line.partition("=")[::2] for line in log.splitlines() if "=" in line)


__all__ = ["RUN_ID", "Local", "environment_of"]
