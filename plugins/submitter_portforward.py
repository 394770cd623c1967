"""The submitter of long-lived clusters: Ray's own Jobs API, through a port-forward to the head.

Ray keeps the job, its state and its log, and forgets all of them when its head restarts: a job that it does not know is said to be
unknown, never to have ended well.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_nrl import hookimpl
from kubectl_nrl.api import Connection, RunInfo, State, Submission, Submitter
from kubectl_nrl.errors import ClusterError

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
        from kubectl_nrl.ray_jobs import follow_log

        def over() -> bool:
            return not follow or self._over(run, connection)

        return follow_log(lambda at: connection.jobs.log_chunk(run.id, at), over, offset, pause=PAUSE)

    def stop(self, run: RunInfo, connection: Connection, *, force: bool = False) -> None:
        """Ask Ray to stop it: SIGTERM, and SIGKILL to what is left after Ray's own grace of some seconds."""
        connection.jobs.stop(run.id)

    def _over(self, run: RunInfo, connection: Connection) -> bool:
        """A lost connection is no end; a job that Ray has forgotten is."""
        try:
            state = self.state(run, connection)
        except ClusterError as error:
            if error.status in (401, 403):
                raise
            return False
        return state.final or state.status == "UNKNOWN"


@hookimpl
def nrl_submitters() -> Iterator[Submitter]:
    yield PortForwardSubmitter()
