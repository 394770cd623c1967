"""The part of a run that this machine does when its code is uploaded: wait for the Ray cluster, send, submit, tell KubeRay.

Each step asks first whether it was done already, so that the whole may be repeated after any failure, by this process or by
`job resume` from another laptop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError, ExitCode, NrlError
from ..labels import RAY_API, RUN
from ..plan.assemble import METADATA_MAX
from ..rayjob_state import outcome, status_of
from .connecting import paste, ray_connector
from .run_panel import RunPanel
from .session import Session
from .waiting import Stuck, asked

if TYPE_CHECKING:
    from ..api import CodeSource, Prepared, RunInfo, Staged
    from ..ray_jobs import RayJobs

#: Seconds during which a step that met an outage is tried again, and between tries.
PATIENCE, PAUSE = 180.0, 2.0


@dataclass
class Reached:
    """Where a code source sends (`api.Connection`)."""

    namespace: str
    jobs: RayJobs
    cluster: Any


class Handover:
    """What is left to do for one run until KubeRay has its job. `line` is what Ray runs, `entrypoint` the person's own text."""

    def __init__(
        self, session: Session, cluster: Any, namespace: str, run: RunInfo, line: str, entrypoint: str, source: CodeSource,
        prepared: Prepared | None, start_limit: float | None = None,
    ) -> None:  # fmt: skip
        self._session, self._cluster, self._namespace, self._run = session, cluster, namespace, run
        self._line, self._entrypoint = line, entrypoint
        self._source, self._prepared = source, prepared
        self._start_limit = start_limit
        self.done = False

    def complete(self, rayjob: Mapping[str, Any], timeout: float | None, event: Callable[..., None]) -> bool:
        """Wait for the Ray cluster, `timeout` seconds at most, and submit; False when the run ended, or time ran out, before.

        Raises `NrlError` with exit code UNKNOWN when an outage outlasted `PATIENCE`: the run is left alone then, and `job resume`
        goes on; `ClusterError` for what trying again does not help; `Stuck` when the Ray cluster cannot start.
        """
        from ..watch import Follow, RunTarget

        meta, output = rayjob["metadata"], self._session.output
        panel = RunPanel(self._session, f"rayjob/{meta['name']}", output.progress)
        follow = Follow(
            self._cluster, RunTarget(self._namespace, meta["name"], meta["uid"], self._run.id), say=panel.say,
            warn=output.warn, event=event, view=panel.view, shown=lambda: panel.shown, providers=asked(self._session),
            start_limit=self._start_limit,
        )  # fmt: skip
        try:
            end = follow.until_waiting(timeout)
            if end is not None and end.how == "stuck":
                raise Stuck(end, follow)
            if end is not None:
                return False
        except KeyboardInterrupt:
            panel.close(keep=True)
            raise
        finally:
            panel.close()
            follow.close()
        return self._patiently(meta)

    def _patiently(self, meta: Mapping[str, Any]) -> bool:
        deadline, told = time.monotonic() + PATIENCE, False
        while True:
            try:
                return self._once(meta)
            except ClusterError as error:
                if not _may_pass(error):
                    raise
                if time.monotonic() >= deadline:
                    raise self._unknown(error) from error
                if not told:
                    told = True
                    self._session.output.progress(f"not submitted yet ({error.message}); trying again")
            time.sleep(PAUSE)

    def _once(self, meta: Mapping[str, Any]) -> bool:
        live = self._cluster.get(RAY_API, "RayJob", meta["name"], self._namespace)
        if live is None or live["metadata"]["uid"] != meta["uid"] or outcome(status_of(live)) is not None:
            return False
        if not (live.get("spec") or {}).get("jobId"):
            with ray_connector(self._cluster, self._namespace)(str(status_of(live).get("rayClusterName"))) as jobs:
                self._give_to_ray(jobs)
            self._tell_kuberay(meta)
        self.done = True
        self.close()
        return True

    def _give_to_ray(self, jobs: RayJobs) -> None:
        output, run = self._session.output, self._run
        known = jobs.get(run.id)
        if known is not None and (known.get("metadata") or {}).get(RUN) == run.id:
            output.progress(f"Ray has job {run.id} already")
            return
        staged = self._stage(jobs)
        runtime_env = {"working_dir": staged} if staged else {}
        metadata = {"user": run.user.name, "entrypoint": self._entrypoint[:METADATA_MAX], RUN: run.id}
        jobs.submit(self._line, run.id, runtime_env=runtime_env, metadata=metadata)

    def _stage(self, jobs: RayJobs) -> str | None:
        reached = Reached(self._namespace, jobs, self._cluster)
        return stage(self._session, self._source, self._run, reached, self._prepared).working_dir

    def _tell_kuberay(self, meta: Mapping[str, Any]) -> None:
        """Give KubeRay the job's id; it sees to the run's end from then on. The uid guards against another run of that name."""
        body = {"metadata": {"uid": meta["uid"]}, "spec": {"jobId": self._run.id}}
        self._cluster.patch(RAY_API, "RayJob", meta["name"], self._namespace, body)
        self._session.output.progress(f"submitted {self._run.id}; the run does not need this machine any more")

    def _unknown(self, error: ClusterError) -> NrlError:
        return NrlError(
            f"the code of run {self._run.id} was not submitted: {error.message}",
            self.resume,
            exit_code=ExitCode.UNKNOWN,
        )

    @property
    def resume(self) -> str:
        """The command that goes on from where this stopped."""
        root = ["--repo-root", self._prepared.survey.root] if self._prepared else []
        return paste(self._session, self._namespace, "job", "resume", self._run.id, *root)

    def close(self) -> None:
        if self._prepared is not None:
            self._prepared.close()


def stage(session: Session, source: CodeSource, run: RunInfo, reached: Reached, prepared: Prepared | None) -> Staged:
    """Send what was prepared, and say how much that was. Raises `ClusterError`."""
    from ..upload import size_words

    size = prepared.size if prepared else 0
    started = time.monotonic()
    with session.output.transfer("uploading", size) as progress:
        staged = source.stage(run, reached, prepared, progress)
    if prepared is not None:
        took = f"{size_words(staged.sent)} in {time.monotonic() - started:.1f} s"
        said = took if staged.sent else "0 bytes: the Ray cluster has this code already"
        session.output.progress(f"uploaded {said}")
    return staged


def _may_pass(error: ClusterError) -> bool:
    """Whether to try again: outages, a head that is being replaced, an API server in trouble; never what Ray itself refuses."""
    from ..ray_jobs import passing

    in_trouble = error.status in (429, 500) and error.reason not in ("RayError", "RayRefused")
    return passing(error) or error.reason == "NoHead" or in_trouble
