"""Ray's Jobs API of one Ray cluster, over a transport that is handed in; imports no ray, which takes a second."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .head import Body, Head, job_path
from .logs import CHUNK, DriverLogs
from .packages import Packages
from .submission import submit


class RayJobs:
    """The Jobs API of one Ray cluster.

    All methods raise `ClusterError`; 401 and 403 of Ray have reason `RayUnauthorized`.
    """

    def __init__(self, head: Head) -> None:
        self._head = head
        self._logs = DriverLogs(head)
        self._packages = Packages(head)

    @property
    def pod(self) -> str:
        """Name of the head pod, empty on this machine."""
        return self._head.pod

    @property
    def life(self) -> str:
        """See `Head.life`; empty on this machine."""
        return self._head.life

    def run(self, command: Sequence[str], stdin: bytes = b"", timeout: float = 30.0) -> tuple[int, bytes, bytes]:
        """Run a command in Ray's container of the head: exit code, stdout, stderr. A pod that is gone has reason `NoHead`."""
        return self._head.execute(command, stdin, timeout)

    def version(self) -> dict[str, Any]:
        """`ray_version` and more.

        An answer is also the proof that the Jobs API is ready: `/` answers without a token.
        """
        return self._head.json("GET", "/api/version", "read Ray's version")  # type: ignore[no-any-return]

    def list(self) -> list[dict[str, Any]]:
        """All jobs that Ray knows, as it tells them (`submission_id`, `status`, `message`, `start_time`, ...)."""
        found = self._head.json("GET", "/api/jobs/", "list the Ray jobs", list)
        return [job for job in found if isinstance(job, dict)]

    def get(self, submission_id: str) -> dict[str, Any] | None:
        """The job, or None when Ray does not know it (a head that restarted has forgotten its jobs)."""
        doing = f"read Ray job {submission_id}"
        status, body = self._head.send("GET", job_path(submission_id), doing)
        if status == 404:
            return None
        return self._head.decode(status, body, doing)  # type: ignore[no-any-return]

    def upload_package(self, name: str, body: Body, progress: Callable[[int], None] = lambda sent: None) -> int:
        """See `Packages.upload`: make sure that Ray has the package, whole; the bytes that were sent, 0 when it had it."""
        return self._packages.upload(name, body, progress)

    def submit(
        self, entrypoint: str, submission_id: str, *, runtime_env: Mapping[str, Any], metadata: Mapping[str, str]
    ) -> bool:
        """See `submission.submit`: the job exists once, however often this was tried; False when it did before."""
        return submit(self._head, entrypoint, submission_id, runtime_env=runtime_env, metadata=metadata)

    def stop(self, submission_id: str) -> bool:
        """Ask Ray to stop the job; False when it was not running any more."""
        answer = self._head.json("POST", job_path(submission_id, "/stop"), f"stop Ray job {submission_id}")
        return bool(answer.get("stopped"))

    def delete(self, submission_id: str) -> bool:
        """Forget a job that has ended."""
        answer = self._head.json("DELETE", job_path(submission_id), f"delete Ray job {submission_id}")
        return bool(answer.get("deleted"))

    def log_chunk(self, submission_id: str, offset: int, *, limit: int = CHUNK) -> bytes:
        """Bytes of the driver's log from `offset` on (see `DriverLogs.chunk`); b"" when there are none yet."""
        return self._logs.chunk(submission_id, offset, limit=limit)

    def close(self) -> None:
        self._logs.close()
        self._head.close()

    def __enter__(self) -> RayJobs:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
