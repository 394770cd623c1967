"""The jobs of a fake Ray head: each entrypoint is really run, as a process of this machine.

So exit codes, pipes, output while it runs and signals are what they are with Ray; only the cluster around them is missing.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import signal
import time
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_GRACE = 3.0  # seconds between SIGTERM and SIGKILL; Ray's RAY_JOB_STOP_WAIT_TIME_S, 3 by default


@dataclass
class Job:
    """One submitted job. Times are milliseconds since 1970, as in Ray's API."""

    submission_id: str
    entrypoint: str
    directory: Path
    metadata: dict[str, str] = field(default_factory=dict)
    runtime_env: dict[str, Any] = field(default_factory=dict)
    head: str = ""  # address of the pod that it was submitted to
    package: bytes | None = None  # zip of its working directory
    status: str = "PENDING"
    message: str = "Job has not started yet."
    exit_code: int | None = None
    start_time: int = field(default_factory=lambda: int(time.time() * 1000))
    end_time: int | None = None
    _process: asyncio.subprocess.Process | None = None
    _stopping: bool = False
    _killed: bool = False

    @property
    def log(self) -> Path:
        """The driver's log, under the name that Ray gives it."""
        return self.directory / f"job-driver-{self.submission_id}.log"

    @property
    def work(self) -> Path:
        """Where the driver runs."""
        return self.directory / self.submission_id

    def details(self) -> dict[str, Any]:
        """Return the job as Ray's Jobs API tells it."""
        return {
            "type": "SUBMISSION",
            "job_id": None if self.status == "PENDING" else "02000000",
            "submission_id": self.submission_id,
            "driver_info": None,
            "status": self.status,
            "entrypoint": self.entrypoint,
            "message": self.message,
            "error_type": None,
            "start_time": self.start_time,
            "end_time": self.end_time,
            "metadata": self.metadata,
            "runtime_env": self.runtime_env,
            "driver_exit_code": self.exit_code,
        }

    async def run(self) -> None:
        """Run the entrypoint to its end, as Ray's supervisor does: by the shell, its output into the log."""
        if self._killed:
            return
        work = self.work
        work.mkdir(parents=True)
        if self.package is not None and not self._unpack(work):
            return
        with self.log.open("wb") as log:
            self._process = await asyncio.create_subprocess_shell(
                self.entrypoint,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
                cwd=work,
                env={
                    **os.environ,
                    **self.runtime_env.get("env_vars", {}),
                    "RAY_JOB_SUBMISSION_ID": self.submission_id,
                },
                start_new_session=True,
            )
        if self._killed:  # while it was being started
            self._signal(signal.SIGKILL)
        if self._stopping:
            self._signal(signal.SIGTERM)
        self.status, self.message = "RUNNING", "Job is currently running."
        code = await self._process.wait()
        self.end_time = int(time.time() * 1000)
        self.exit_code = code
        if self._stopping:
            self.status, self.message = "STOPPED", "Job was intentionally stopped."
        elif code == 0:
            self.status, self.message = "SUCCEEDED", "Job finished successfully."
        else:
            # The log of a job that ended with its pod is gone.
            tail = self.log.read_bytes()[-20_000:].decode(errors="replace") if self.log.exists() else ""
            self.status = "FAILED"
            self.message = (
                f"Job entrypoint command failed with exit code {code}, "
                f"last available logs (truncated to 20,000 chars):\n{tail}"
            )

    def _unpack(self, work: Path) -> bool:
        """Unpack the working directory as Ray does; without one, or with half of one, the job fails."""
        try:
            with zipfile.ZipFile(io.BytesIO(self.package or b"")) as zipped:
                zipped.extractall(work)
        except zipfile.BadZipFile as error:
            self.status, self.message = "FAILED", f"Failed to set up runtime environment: {error}"
            self.end_time = int(time.time() * 1000)
            return False
        return True

    async def stop(self) -> bool:
        """Stop it, first politely; False when it had ended already."""
        if self.end_time is not None or (self._process and self._process.returncode is not None):
            return False
        self._stopping = True
        if not self._process:  # it is being started, and will find that it is to stop
            return True
        self._signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(asyncio.shield(self._process.wait()), _GRACE)
        except asyncio.TimeoutError:
            self._signal(signal.SIGKILL)
        return True

    def kill(self) -> None:
        """End it at once, as when its pod goes; one that has not begun never does."""
        self._killed = True
        if self._process and self._process.returncode is None:
            self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        assert self._process
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
