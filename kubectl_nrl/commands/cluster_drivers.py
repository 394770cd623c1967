"""What runs on a long-lived cluster, whoever keeps it: Ray's jobs, and the drivers that Ray has no job of.

A driver that its submitter started by itself is known by its run's record; here it looks like a job of Ray's, so that every command
lists, shows, follows and stops it as one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

from ..api import State
from ..errors import ClusterError
from ..labels import RAY_API, RUN
from .handover import Reached
from .session import Session

if TYPE_CHECKING:
    from ..api import RunInfo, Submitter
    from ..ray_jobs import RayJobs
    from ..runs import ClusterRun


#: Drivers that are asked about at the same time.
AT_ONCE = 8


class ClusterDrivers:
    """The jobs of one RayCluster in the shape of `ray`, its `ray_jobs.RayJobs`. All methods raise `ClusterError`."""

    def __init__(self, session: Session, cluster: Any, raycluster: Mapping[str, Any], ray: RayJobs) -> None:
        self.ray = ray
        self._session, self._cluster, self._raycluster = session, cluster, raycluster
        self._records: dict[str, ClusterRun | None] = {}

    @property
    def pod(self) -> str:
        return self.ray.pod

    @property
    def life(self) -> str:
        return self.ray.life

    def version(self) -> dict[str, Any]:
        return self.ray.version()

    def list(self) -> list[dict[str, Any]]:
        """All jobs, as Ray would tell them, each once. One whose end is on record is not asked for.

        One that cannot be asked for, as by people who may not exec, has the status UNKNOWN, and hides no other.
        """
        records = {record.id: record for record in self._runs()}
        found = [job for job in self.ray.list() if job.get("submission_id") or _run_of(job) not in records]
        self._records |= {record.submission_id: record for record in records.values()}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found += [job for job in pool.map(self._listed, records.values()) if job is not None]
        return found

    def get(self, submission_id: str) -> dict[str, Any] | None:
        record = self._record(submission_id)
        return self.ray.get(submission_id) if record is None else self._now(record)

    def log_chunk(self, submission_id: str, offset: int) -> bytes:
        record = self._record(submission_id)
        if record is None:
            return self.ray.log_chunk(submission_id, offset)
        submitter, run = recorded(self._session, record)
        return next(iter(submitter.logs(run, self._reached(), follow=False, offset=offset)), b"")

    def stop(self, submission_id: str) -> bool:
        """Ask for the end; False for a job that was over."""
        record = self._record(submission_id)
        if record is None:
            return self.ray.stop(submission_id)
        submitter, run = recorded(self._session, record)
        submitter.stop(run, self._reached())
        return True

    def close(self) -> None:
        self.ray.close()

    def __enter__(self) -> ClusterDrivers:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _runs(self) -> Sequence[ClusterRun]:
        """The records of this very cluster's runs that Ray has no job of; none for who may not list records."""
        from ..runs import runs_on

        try:
            return [run for run in runs_on(self._cluster, self._raycluster) if not self._in_ray(run)]
        except ClusterError as error:
            if error.status != 403:
                raise
            return []

    def _record(self, submission_id: str) -> ClusterRun | None:
        """The record of a run that Ray has no job of, read once."""
        from ..runs import find_cluster_run

        if submission_id not in self._records:
            meta = self._raycluster["metadata"]
            try:
                run = find_cluster_run(self._cluster, meta["namespace"], submission_id)
            except ClusterError as error:
                if error.status != 403:
                    raise
                run = None
            here = run is not None and run.ray_cluster_uid == meta["uid"] and not self._in_ray(run)
            self._records[submission_id] = run if here else None
        return self._records[submission_id]

    def _in_ray(self, run: ClusterRun) -> bool:
        """Whether Ray has a job of it; the jobs of a submitter that is not installed here are looked for there, too."""
        submitter = self._session.manager.providers("submitters").get(run.submitter)
        return submitter is None or cast("Submitter", submitter).in_ray

    def _listed(self, record: ClusterRun) -> dict[str, Any] | None:
        if record.state:
            return _as_job(record, State(record.state, record.message))
        try:
            return self._now(record)
        except ClusterError as error:
            return _as_job(record, State("UNKNOWN", error.message))

    def _now(self, record: ClusterRun) -> dict[str, Any] | None:
        submitter, run = recorded(self._session, record)
        state = submitter.state(run, self._reached())
        if state.status == "UNKNOWN":
            return None
        return _as_job(record, state)

    def _reached(self) -> Reached:
        return Reached(str(self._raycluster["metadata"]["namespace"]), self.ray, self._cluster)


def recorded(session: Session, record: ClusterRun) -> tuple[Submitter, RunInfo]:
    """The submitter of a run that is found by its record, and what it is to be asked for. Raises `ConfigError` for an unknown one."""
    from ..api import RunInfo, User

    submitter = cast("Submitter", session.manager.choose("submitters", record.submitter))
    user = User(record.owner, record.raw_user)
    return submitter, RunInfo(record.id, record.started or session.clock(), user, record.place)


def drivers_of(session: Session, cluster: Any, raycluster: Mapping[str, Any]) -> ClusterDrivers:
    """The drivers of a RayCluster object; nothing is sent to Ray yet. Raises `ClusterError`, as `ray_jobs.connect` does."""
    from .. import ray_jobs

    return ClusterDrivers(session, cluster, raycluster, ray_jobs.connect(cluster, raycluster))


def drivers_connector(session: Session, cluster: Any, namespace: str) -> Callable[[str], ClusterDrivers]:
    """Connects by a RayCluster's name. Raises `ClusterError`, with reason `Gone` when the RayCluster is deleted."""

    def connect(name: str) -> ClusterDrivers:
        live = cluster.get(RAY_API, "RayCluster", name, namespace)
        if live is None:
            raise ClusterError(f"the Ray cluster {name} is gone, and with it the head that held the log", reason="Gone")
        return drivers_of(session, cluster, live)

    return connect


def _run_of(job: Mapping[str, Any]) -> str:
    """The run that the metadata of a driver names, which Ray has as one that was started by hand."""
    return str((job.get("metadata") or {}).get(RUN) or "")


def _as_job(record: ClusterRun, state: State) -> dict[str, Any]:
    """As Ray's Jobs API would tell it (times in milliseconds since 1970), and `left` of `State`."""
    over = record.ended or state.ended
    return {
        "type": "SUBMISSION",
        "submission_id": record.submission_id,
        "job_id": None,
        "status": state.status,
        "message": state.message,
        "left": state.left,
        "start_time": int(record.started.timestamp() * 1000) if record.started else None,
        "end_time": int(over.timestamp() * 1000) if over else None,
        "metadata": {"user": record.owner, RUN: record.id},
    }
