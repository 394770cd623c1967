"""The process that owns a run on this machine: starts Ray and the driver, writes down what happens, ends all of it.

It has no terminal and no parent that matters, so a run ends in the same way whether anybody watches or not.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import NrlError
from ..exit_words import status_words
from . import ports, processes, record, sessions
from .daemons import RunningDaemon
from .driver import Driver
from .driver import environment as driver_environment
from .ray_process import RayProcess
from .ray_process import environment as ray_environment
from .record import LocalRecord, Role
from .requests import SPEC, Request

#: Seconds between looks at the driver, Ray and the request to stop.
PAUSE = 0.1
#: Seconds that a Ray may take to start; 8 to 11 are usual, a minute on a machine that is busy.
START = 300.0


class Stopped(Exception):
    """Somebody asked for the end."""


class Failed(Exception):
    """The run cannot go on: `reason` is one word, the text is for a person."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def main(words: Sequence[str]) -> None:
    """Supervise the run of a directory; the words are the directory and the number of the open lock file."""
    folder, lock = Path(words[0]), int(words[1])
    os.set_inheritable(lock, False)
    Supervisor(Request.of(folder), folder).run()


class Supervisor:
    """One run, cluster or job, from its start to the last process that it leaves."""

    def __init__(self, request: Request, folder: Path) -> None:
        self._request, self._folder = request, folder
        self.record: LocalRecord = request.record
        self._session = Path(self.record.session)
        self._rays: dict[str, RayProcess] = {}
        self._daemons: list[RunningDaemon] = []
        self._driver: Driver | None = None
        self._asked = False

    def run(self) -> None:
        """Everything; what happens ends up in the record."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        processes.adopt_orphans()
        self._note(supervisor=os.getpid())
        try:
            end = self._live()
        except Stopped:
            end = {"state": "STOPPED"}
        except Failed as error:
            end = {"state": "FAILED", "reason": error.reason, "message": str(error)}
        except Exception as error:
            self._end(state="FAILED", reason="SupervisorFailed", message=f"{type(error).__name__}: {error}")
            raise
        self._end(**end)

    def _live(self) -> dict[str, Any]:
        """Until the driver ends; how it did. Raises `Stopped`, `Failed`."""
        form = self.record.form
        roles = self._attach() if form == "job" else self._start_rays()
        self._note(roles=roles)
        self._start_daemons(roles)
        if form == "cluster":
            self._note(state="READY", phase="", started=record.now())
            while True:
                self._pause()
        self._start_driver(roles)
        return self._watch_driver()

    def _start_rays(self) -> dict[str, Role]:
        many = len(self._request.gpus) > 1
        self._note(phase=f"starting {len(self._request.gpus)} Rays" if many else "starting Ray")
        for attempt in (1, 2, 3):
            if self._try_rays():
                break
            if attempt == 3:
                raise Failed("NoPorts", "other programs took this run's ports three times while Ray was starting")
        return {name: Role(ray.address, ray.dashboard, ray.ports) for name, ray in self._rays.items()}

    def _try_rays(self) -> bool:
        """Start a Ray for each role and wait for all; False when one of them lost a port to somebody else."""
        try:
            chosen = ports.claim(self._session, self._request.gpus)
        except NrlError as error:
            raise Failed("NoPorts", error.message) from error
        env = ray_environment(os.environ, str(self._folder), self._session)
        for number, (role, gpus) in enumerate(self._request.gpus.items()):
            folder = self._session / str(number)
            self._rays[role] = RayProcess(folder, chosen[role], gpus, env, self._folder / f"ray-{role}.log")
        deadline = time.monotonic() + START
        while not all(ray.address for ray in self._rays.values()):
            for role, ray in self._rays.items():
                if not ray.ended:
                    continue
                if ray.lost_a_port():
                    self._clear_rays()
                    return False
                raise Failed(
                    "RayNotStarted", f"Ray of {role} did not start: {ray.said()} ({self._folder}/ray-{role}.log)"
                )
            if time.monotonic() > deadline:
                raise Failed("RayNotStarted", f"Ray has not started within {START:.0f} s ({self._folder}/ray-*.log)")
            self._pause(watch_rays=False)
        return True

    def _clear_rays(self) -> None:
        import shutil

        processes.end(self._found)
        for ray in self._rays.values():
            ray.ended  # noqa: B018  takes leave of the child
            shutil.rmtree(ray.folder, ignore_errors=True)
        self._rays.clear()

    def _attach(self) -> dict[str, Role]:
        """The Rays of the long-lived cluster that a job runs on."""
        cluster = record.read(Path(self._request.cluster))
        if cluster is None or cluster.state != "READY" or not cluster.alive:
            raise Failed("NoCluster", f"the cluster {self.record.cluster} is not up")
        return dict(cluster.roles)

    def _start_daemons(self, roles: dict[str, Role]) -> None:
        for daemon in self._request.daemons:
            env = self._environment(roles, daemon.role, daemon.submission_id)
            log = self._folder / f"daemon-{daemon.role}.log"
            driver = Driver(daemon.script, self.record.directory, env, log, self._session)
            self._daemons.append(RunningDaemon(daemon, driver, log))
        for running in self._daemons:
            self._note(phase=f"waiting for the daemon of {running.daemon.role}")
            while not running.healthy():
                self._pause()

    def _start_driver(self, roles: dict[str, Role]) -> None:
        env = self._environment(roles, "training", self.record.id)
        log = self._folder / record.LOG
        self._driver = Driver(self._request.script, self.record.directory, env, log, self._session)
        self._note(state="RUNNING", phase="", started=record.now())

    def _environment(self, roles: dict[str, Role], role: str, submission_id: str) -> dict[str, str]:
        cluster = record.read(Path(self._request.cluster)) if self._request.cluster else None
        session = Path(cluster.session) if cluster else self._session
        base = ray_environment(os.environ, str(self._folder), session)
        return driver_environment(base, roles[role], roles, submission_id, self._session)

    def _watch_driver(self) -> dict[str, Any]:
        assert self._driver is not None
        while (status := self._driver.status) is None:
            self._pause()
        if status == 0:
            return {"state": "SUCCEEDED", "exit_status": 0}
        return {"state": "FAILED", "exit_status": status, "reason": "AppFailed", "message": status_words(status)}

    def _pause(self, *, watch_rays: bool = True) -> None:
        """Wait a moment. Raises `Stopped` when that was asked for, `Failed` when a Ray or a daemon has died."""
        if self._asked or (self._folder / record.STOP).exists():
            raise Stopped
        for role, ray in self._rays.items() if watch_rays else ():
            if ray.ended:
                raise Failed("RayDied", f"Ray of {role} has died: {ray.said()} ({self._folder}/ray-{role}.log)")
        for running in self._daemons:
            fault = running.fault()
            if fault:
                raise Failed("DaemonFailed", fault)
        time.sleep(PAUSE)

    def _end(self, **values: Any) -> None:
        """Stop what runs, say the end, and clear up to the last process and directory."""
        if self._driver is not None:
            self._driver.stop()
        self._note(**{"reason": "", "message": "", **values}, phase="clearing up", ended=record.now())
        left = processes.end(self._found)
        sessions.remove(self._session)
        for name in (SPEC, record.STOP):
            (self._folder / name).unlink(missing_ok=True)
        gone = not left and not self._session.exists()
        self._note(torn_down=gone, phase="", left=tuple(sorted(left)))

    def _found(self) -> set[int]:
        """What is left of this run: by its mark, its session, and by descent; what has ended is taken leave of."""
        known = {ray.pid for ray in self._rays.values()} | {d.driver.pid for d in self._daemons}
        processes.reap(known)
        return processes.of_run(str(self._folder), str(self._session)) | processes.descendants(os.getpid())

    def _note(self, **values: Any) -> None:
        self.record = replace(self.record, **values)
        with contextlib.suppress(OSError):  # a full disk must not end a training; the next change may be written
            record.write(self.record)

    def _on_signal(self, *_: object) -> None:
        self._asked = True


if __name__ == "__main__":
    main(sys.argv[1:])
