"""The submitter of ephemeral runs: KubeRay submits the entrypoint itself, as part of the RayJob.

So there is nothing to submit here; state is the RayJob's, because only KubeRay knows of retries and deadlines, while
log and stop go to Ray's own API, which knows the job by the run's id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kubectl_nrl import hookimpl
from kubectl_nrl.api import Connection, Context, Problem, RunInfo, State, Submission, Submitter
from kubectl_nrl.errors import ClusterError
from kubectl_nrl.labels import RUN
from kubectl_nrl.rayjob_state import outcome, status_of
from kubectl_nrl.written import origin

from .log_bytes import log_bytes

API, KIND = "ray.io/v1", "RayJob"
#: Seconds between looks at a log that has nothing new.
PAUSE = 0.5


def _rayjob(run: RunInfo, connection: Connection) -> Mapping[str, Any] | None:
    """The run's RayJob, newest first should a retry of the same id have left several; None when it is gone."""
    found = connection.cluster.list(API, KIND, connection.namespace, label_selector=f"{RUN}={run.id}")
    newest: list[Mapping[str, Any]] = sorted(found, key=lambda o: str(o["metadata"].get("creationTimestamp", "")))
    return newest[-1] if newest else None


def _submission_id(run: RunInfo, rayjob: Mapping[str, Any]) -> str:
    return str(status_of(rayjob).get("jobId") or run.id)


class RayJobSubmitter(Submitter):
    name = "rayjob"
    summary = "KubeRay submits, as part of an ephemeral RayJob"

    def problems(self, ctx: Context) -> Iterable[Problem]:
        """In SidecarMode the driver starts with the head: seen on KubeRay 1.6, one that ends before every worker was ready once
        leaves the RayJob Initializing, with its pods."""
        if ctx.get("submit.submissionMode") == "SidecarMode" and ctx.kind == "RayJob":
            yield Problem(
                "SidecarMode: a driver that fails before all workers are ready keeps the RayJob Initializing, and its GPUs",
                origin(ctx, "submit", "submissionMode"),
                hint="use HTTPMode (the default); job stop ID releases such a run",
                severity="warning",
            )

    def submit(self, run: RunInfo, connection: Connection, submission: Submission) -> RunInfo:
        """The RayJob exists already, and KubeRay submits its entrypoint once every pod is ready."""
        return run

    def state(self, run: RunInfo, connection: Connection) -> State:
        rayjob = _rayjob(run, connection)
        if rayjob is None:
            return State("UNKNOWN", "the RayJob is gone")
        status = status_of(rayjob)
        end = outcome(status)
        if end is None:
            # SUCCEEDED or FAILED in Ray while KubeRay has not closed the job yet: a retry may follow.
            started = status.get("jobStatus") in ("RUNNING", "SUCCEEDED", "FAILED", "STOPPED")
            return State("RUNNING" if started else "PENDING", str(status.get("message") or ""))
        word = end.state if end.state in ("SUCCEEDED", "FAILED", "STOPPED") else "FAILED"
        return State(word, ": ".join(part for part in (end.reason, end.message) if part))

    def logs(self, run: RunInfo, connection: Connection, *, follow: bool, offset: int) -> Iterator[bytes]:
        """The driver's log from that byte on. While it is followed, a lost connection is no end: only a final state is,
        and then what was written last is still read."""

        def read(at: int) -> bytes:
            chunk: bytes = connection.jobs.log_chunk(_submission_id(run, _rayjob(run, connection) or {}), at)
            return chunk

        return log_bytes(read, lambda: not follow or self.state(run, connection).final, offset, pause=PAUSE)

    def stop(self, run: RunInfo, connection: Connection, *, force: bool = False) -> None:
        """Stop the job in Ray; delete the RayJob where Ray has no job yet, or when told to with `force`.

        Raises `ClusterError` when the run's RayJob is gone.
        """
        rayjob = _rayjob(run, connection)
        if rayjob is None:
            raise ClusterError(f'no RayJob of run "{run.id}" in namespace "{connection.namespace}"', reason="NotFound")
        if outcome(status_of(rayjob)) is not None:
            return
        if force or not status_of(rayjob).get("jobStatus"):
            meta = rayjob["metadata"]
            connection.cluster.delete(
                API, KIND, meta["name"], connection.namespace, propagation="Foreground", uid=meta.get("uid")
            )
            return
        connection.jobs.stop(_submission_id(run, rayjob))


@hookimpl
def nrl_submitters() -> Iterator[Submitter]:
    yield RayJobSubmitter()
