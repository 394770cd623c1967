"""The submitter of long-lived clusters: Ray's own Jobs API, through a port-forward to the head.

Ray keeps the job, its state and its log, and forgets all of them when its head restarts: a job that it does not know is said to be
unknown, never to have ended well.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_nrl import hookimpl
from kubectl_nrl.api import Connection, RunInfo, State, Submission, Submitter

from .log_bytes import log_bytes

#: Seconds between looks at a log that has nothing new.
PAUSE = 0.5


class PortForwardSubmitter(Submitter):
    name = "portForward"
    summary = "Ray's Jobs API, through a forwarded port"

    def submit(self, run: RunInfo, connection: Connection, submission: Submission) -> RunInfo:
        """Submit under the run's id, exactly once. Raises `ClusterError`, with reason `AlreadyExists` for an id that is taken."""
        working_dir = submission.staged.working_dir
        connection.jobs.submit(
            submission.line,
            run.id,
            runtime_env={"working_dir": working_dir} if working_dir else {},
            metadata=submission.metadata,
        )
        return run

    def state(self, run: RunInfo, connection: Connection) -> State:
        job = connection.jobs.get(run.id)
        if job is None:
            return State("UNKNOWN", "Ray does not know this job")
        return State(str(job.get("status")), str(job.get("message") or ""))

    def logs(self, run: RunInfo, connection: Connection, *, follow: bool, offset: int) -> Iterator[bytes]:
        """The driver's log from that byte on; what is written last is read after the state is final."""

        def read(at: int) -> bytes:
            chunk: bytes = connection.jobs.log_chunk(run.id, at)
            return chunk

        def over() -> bool:
            state = self.state(run, connection) if follow else None
            return state is None or state.final or state.status == "UNKNOWN"  # what Ray has forgotten has ended

        return log_bytes(read, over, offset, pause=PAUSE)

    def stop(self, run: RunInfo, connection: Connection, *, force: bool = False) -> None:
        """Ask Ray to stop it: SIGTERM, and SIGKILL to what is left after Ray's own grace of some seconds."""
        connection.jobs.stop(run.id)


@hookimpl
def nrl_submitters() -> Iterator[Submitter]:
    yield PortForwardSubmitter()
