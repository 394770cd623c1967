"""One Ray on this machine: how it is started, when it is ready, what it says when it fails.

It is started by `ray start --block` of the Python that runs this program, which ends by itself when one of Ray's own
processes dies: so one child tells how all of them are.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from . import ports
from .processes import MARK

#: Variables of the caller's that would lead Ray, or a driver, to another Ray.
_MISLEADING = (
    "RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "RAY_JOB_SUBMISSION_ID", "RAY_JOB_CONFIG_JSON_ENV_VAR", "RAY_TMPDIR",
    "RAY_AUTH_TOKEN", "NRL_K8S_RUN_ID", "NRL_RECIPE", MARK,
)  # fmt: skip

TOKEN = "token"


def environment(base: Mapping[str, str], mark: str, session: Path) -> dict[str, str]:
    """What Ray's processes, and a driver's, run with: the caller's environment, the mark, and the session's own token."""
    env = {name: value for name, value in base.items() if name not in _MISLEADING}
    env |= {
        MARK: mark,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(session / TOKEN),
        "RAY_USAGE_STATS_ENABLED": base.get("RAY_USAGE_STATS_ENABLED", "0"),
    }
    return env


def command(folder: Path, chosen: Mapping[str, int], gpus: int | None) -> list[str]:
    """The command line that starts a head in `folder` on the chosen ports."""
    words = [
        sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--disable-usage-stats",
        "--log-color=false", "--dashboard-host=127.0.0.1", f"--temp-dir={folder}",
        "--min-worker-port=0", "--max-worker-port=0",
    ]  # fmt: skip
    words += [f"--{name}={chosen[name]}" for name in ports.NAMES]
    if gpus is not None:
        words.append(f"--num-gpus={gpus}")
    return words


class RayProcess:
    """A Ray that was started; `log` gets what `ray start` says."""

    def __init__(
        self, folder: Path, chosen: Mapping[str, int], gpus: int | None, env: Mapping[str, str], log: Path
    ) -> None:
        folder.mkdir(mode=0o700)
        self.folder, self.ports, self._log = folder, dict(chosen), log
        with open(log, "ab") as out:
            self._child = _start(command(folder, chosen, gpus), env, out)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def address(self) -> str:
        """`host:port` once Ray is up (it writes the file when its last process has started), else an empty string."""
        try:
            return (self.folder / "ray_current_cluster").read_text(encoding="utf-8").strip()
        except OSError:
            return ""

    @property
    def dashboard(self) -> str:
        return f"http://127.0.0.1:{self.ports['dashboard-port']}"

    @property
    def ended(self) -> bool:
        return self._child.poll() is not None

    def said(self) -> str:
        """The last line of `ray start` that says something, for an error."""
        try:
            text = self._log.read_bytes()[-8192:].decode("utf-8", "replace")
        except OSError:
            return ""
        lines = [line.strip() for line in text.splitlines() if any(c.isalnum() for c in line)]
        return lines[-1][:300] if lines else ""

    def lost_a_port(self) -> list[int]:
        """Ports that somebody took between their choice and Ray's start."""
        return [port for port in self.ports.values() if ports.is_used(port)]


def _start(words: list[str], env: Mapping[str, str], out: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        words, env=dict(env), stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, cwd="/"
    )
