"""Start, find and stop the cluster's processes by pid.

A pid alone may by now belong to somebody else, so a pid file also holds the process's start time and the boot's id:
only a process that agrees in all three is ours. Nothing is ever found by its name.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from waiting import PATIENCE

from .cache import say
from .errors import ClusterError
from .state import State

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Process:
    """A process that was started: enough to know it again."""

    pid: int
    started: int  # in clock ticks since boot, field 22 of /proc/PID/stat
    boot: str
    argv: list[str]

    def alive(self) -> bool:
        """Tell whether this very process still runs (a zombie does not)."""
        return self.boot == boot_id() and _start_time(self.pid) == self.started

    def stop(self, grace: float = 10.0) -> None:
        """End it: SIGTERM, and SIGKILL after `grace` seconds. Returns when it is gone."""
        for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, 10.0)):
            if not self.alive():
                return
            os.kill(self.pid, number)
            deadline = time.monotonic() + patience
            while self.alive() and time.monotonic() < deadline:
                _reap(self.pid)
                time.sleep(0.05)
        if self.alive():
            raise ClusterError(f"process {self.pid} ({self.argv[0]}) does not end, not even by SIGKILL")


def running(state: State, name: str) -> Process | None:
    """Return the live process of that name, None when it was never started or has ended."""
    path = state.pids / f"{name}.json"
    try:
        process = Process(**json.loads(path.read_text()))
    except (FileNotFoundError, json.JSONDecodeError, TypeError):
        return None
    return process if process.alive() else None


def names(state: State) -> list[str]:
    """Return the names of all processes that were started and not stopped, live or not, oldest first."""
    if not state.pids.is_dir():
        return []
    files = sorted(state.pids.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    return [path.stem for path in files]


def start(state: State, name: str, argv: Iterable[object], env: Mapping[str, str] | None = None) -> Process:
    """Start a process unless the same command line runs already; another command line replaces the old process.

    Its output goes to `logs/NAME.log`. It gets a session of its own and a bare environment: what a test or a shell has
    set must not reach the cluster.
    """
    words = [str(word) for word in argv]
    old = running(state, name)
    if old and old.argv == words:
        return old
    if old:
        say(f"restarting {name}: its command line changed")
        old.stop()
    with open(state.dir("logs") / f"{name}.log", "ab") as log:
        child = subprocess.Popen(
            [*_at_usual_priority(), *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=state.root,
            env={
                "PATH": PATH,
                "HOME": str(state.root),
                **(env or {}),
            },
            start_new_session=True,
        )
    child.returncode = 0  # its pid file owns it from here; Popen would warn that it outlives this object
    started = _start_time(child.pid)
    process = Process(child.pid, started or 0, boot_id(), words)
    state.write(f"pids/{name}.json", json.dumps(asdict(process)))
    return process


def _at_usual_priority() -> list[str]:
    """Return words that undo the niceness of a test run: the cluster serves others as well."""
    niceness = os.nice(0)
    return ["nice", "-n", str(-niceness)] if niceness > 0 and os.geteuid() == 0 else []


def stop(state: State, name: str, grace: float = 10.0) -> None:
    """Stop the process of that name if it runs, and forget it."""
    process = running(state, name)
    if process:
        process.stop(grace)
    (state.pids / f"{name}.json").unlink(missing_ok=True)


def wait_until(
    state: State, name: str, ready: Callable[[], bool], timeout: float = PATIENCE, pause: float = 0.1
) -> None:
    """Wait until `ready()` is true; raises ClusterError with the log's end when the process dies or time is up."""
    deadline = time.monotonic() + timeout
    while not ready():
        if not running(state, name):
            raise ClusterError(f"{name} ended while it was awaited; the end of its log:\n{log_tail(state, name)}")
        if time.monotonic() > deadline:
            raise ClusterError(
                f"{name} is not ready after {timeout:.0f} s; the end of its log:\n{log_tail(state, name)}"
            )
        time.sleep(pause)


def log_tail(state: State, name: str, lines: int = 15) -> str:
    """Return the last lines of a process's log, each cut at 400 characters."""
    path = state.logs / f"{name}.log"
    if not path.exists():
        return f"(no {path})"
    with path.open("rb") as log:
        log.seek(max(0, path.stat().st_size - 60_000))
        text = log.read().decode(errors="replace")
    return "\n".join(line[:400] for line in text.splitlines()[-lines:]) + f"\n(all of it: {path})"


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _start_time(pid: int) -> int | None:
    """Return field 22 of /proc/PID/stat, None for no process or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat[stat.rindex(")") + 2 :].split()  # the name before it may hold anything, spaces and ")" too
    return None if fields[0] in "ZX" else int(fields[19])


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):  # not our child: whoever inherited it reaps it
        os.waitpid(pid, os.WNOHANG)
