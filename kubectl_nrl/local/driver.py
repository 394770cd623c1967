"""A driver (or a daemon) on this machine: the launch script, run beside its Ray, its output straight into the log's file.

It is not handed to Ray's Jobs API: as a child of the supervisor its exit status is known exactly, no byte of its log passes
through anything, and it starts without waiting for the dashboard.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from .record import Role

#: Seconds between the request to stop and the kill (Ray's own for submitted jobs is 3).
GRACE = 5.0


def environment(
    base: Mapping[str, str], role: Role, others: Mapping[str, Role], submission_id: str, session: Path
) -> dict[str, str]:
    """The driver's environment: its Ray's address, the other roles', this program's Python first, and TMPDIR in the session."""
    env = dict(base)
    env["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), base.get("PATH", os.defpath)))
    env |= {
        "RAY_ADDRESS": role.address,
        "RAY_API_SERVER_ADDRESS": role.dashboard,
        "RAY_JOB_SUBMISSION_ID": submission_id,
        "TMPDIR": str(session / "tmp"),
        "PYTHONUNBUFFERED": "1",  # as Ray's own job supervisor sets it
    }
    for name, other in others.items():
        env[f"NRL_RAY_ADDRESS_{name.upper()}"] = other.address
    return env


class Driver:
    """A launch script that runs."""

    def __init__(self, script: str, directory: str, env: Mapping[str, str], log: Path, session: Path) -> None:
        file = session / "tmp" / f"launch-{log.stem}.sh"
        file.write_text(script, encoding="utf-8")
        with open(log, "ab") as out:
            self._child = subprocess.Popen(
                ["sh", str(file)], cwd=directory, env=dict(env), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                start_new_session=True,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def status(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._child.poll()

    def stop(self, grace: float = GRACE) -> None:
        """Ask the driver's process group to end, kill it after `grace` seconds."""
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + grace
        while self.status is None and time.monotonic() < deadline:
            time.sleep(0.05)
        self._signal(signal.SIGKILL)
        self._child.wait()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, number)
