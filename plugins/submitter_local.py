"""The submitter of runs on this machine: a supervisor runs the launch script as the driver, beside its own Ray.

The connection's jobs answer from the run's directory, in the words of Ray's Jobs API, whether the supervisor lives or not.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_nrl import hookimpl
from kubectl_nrl.api import Connection, RunInfo, State, Submission, Submitter

from .log_bytes import log_bytes

#: Seconds between looks at a log that has nothing new.
PAUSE = 0.2


class LocalSubmitter(Submitter):
    name = "local"
    summary = "a Ray on this machine, owned by a supervisor process"

    def submit(self, run: RunInfo, connection: Connection, submission: Submission) -> RunInfo:
        """Start the supervisor of a run that was prepared."""
        connection.jobs.submit(run.id)
        return run

    def state(self, run: RunInfo, connection: Connection) -> State:
        job = connection.jobs.get(run.id)
        if job is None:
            return State("UNKNOWN", "this machine has no such run")
        return State(str(job["status"]), str(job["message"]))

    def logs(self, run: RunInfo, connection: Connection, *, follow: bool, offset: int) -> Iterator[bytes]:
        """The driver's log from that byte on; what is written last is read after the state is final."""
        return log_bytes(
            lambda at: connection.jobs.log_chunk(run.id, at),
            lambda: not follow or self.state(run, connection).final,
            offset,
            pause=PAUSE,
        )

    def stop(self, run: RunInfo, connection: Connection, *, force: bool = False) -> None:
        """Ask for the end; the supervisor kills a driver that does not obey."""
        connection.jobs.stop(run.id)


@hookimpl
def nrl_submitters() -> Iterator[Submitter]:
    yield LocalSubmitter()
