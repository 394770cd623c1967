"""A run on this machine as submitters see it: the shape of Ray's Jobs API, answered from the run's directory."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ..errors import ClusterError
from . import record
from .finding import find, runs
from .record import LocalRecord
from .requests import spawn

#: Most bytes of a log that are read at once.
CHUNK = 1024 * 1024


class LocalJobs:
    """The runs of this machine, by id. All methods raise `ClusterError`, with status 404 for a run that is not there."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env

    def submit(self, submission_id: str) -> None:
        """Start the supervisor of a prepared run."""
        spawn(self._of(submission_id).folder, self._env)

    def list(self) -> list[dict[str, Any]]:
        return [_job(run) for run in runs(self._env)]

    def get(self, submission_id: str) -> dict[str, Any] | None:
        """`status`, `message` and more in the words of Ray's Jobs API; None for a run that is not there."""
        run = find(submission_id, self._env)
        return None if run is None else _job(run)

    def log_chunk(self, submission_id: str, offset: int, *, limit: int = CHUNK) -> bytes:
        """Bytes of the driver's log from `offset` on; b"" when there are none yet."""
        path = self._of(submission_id).log
        try:
            with open(path, "rb") as file:
                file.seek(offset)
                return file.read(limit)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise ClusterError(f"{path} cannot be read: {error.strerror}") from error

    def stop(self, submission_id: str) -> bool:
        """Ask for the end of a run; False when it is over, or its supervisor is gone."""
        run = self._of(submission_id)
        if run.final or not run.alive:
            return False
        (run.folder / record.STOP).touch()
        return True

    def close(self) -> None:
        """Nothing is held open."""

    def _of(self, submission_id: str) -> LocalRecord:
        run = find(submission_id, self._env)
        if run is None:
            raise ClusterError(f'no run "{submission_id}" on this machine', status=404, reason="NotFound")
        return run


class LocalConnection:
    """`api.Connection` for this machine."""

    namespace = ""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env

    @property
    def jobs(self) -> LocalJobs:
        return LocalJobs(self._env)

    @property
    def cluster(self) -> Any:
        raise ClusterError("a run on this machine has no Kubernetes cluster", reason="Local")


def stop_and_wait(found: LocalRecord, within: float) -> LocalRecord:
    """Ask a supervisor for the end and wait for it; the record as it is then, torn down or not."""
    if found.alive:
        (found.folder / record.STOP).touch()
    deadline = time.monotonic() + within
    while time.monotonic() < deadline and found.alive:
        time.sleep(0.05)
    return record.read(found.folder) or found


def _job(run: LocalRecord) -> dict[str, Any]:
    orphaned = run.orphaned and not run.final
    return {
        "submission_id": run.id,
        "status": run.state,
        "message": "its supervisor was killed" if orphaned else run.message,
        "entrypoint": run.entrypoint,
        "driver_exit_code": run.exit_status,
    }
