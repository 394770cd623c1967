"""The end of a run on a long-lived cluster: its record, its RayCluster, Ray and the driver's own directory are asked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError, NrlError
from ..labels import CLUSTER, RUN, labels_of
from ..rayjob_state import LIVE, STOPPED, message_of
from .cluster_drivers import drivers_connector, drivers_of, recorded
from .handover import Reached
from .job_target import ray_jobs_of
from .run_processes import ending, processes_of
from .status_daemons import daemons_among
from .verify_log import LogPlace, read

#: What Ray says of any job that runs (ray/dashboard/modules/job/common.py): no more than the state.
RUNNING = "Job is currently running."

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..api import State
    from ..ray_jobs import RayJobs
    from ..runs import ClusterJob, ClusterRun
    from ..runs.checklist import Commands, Item, JobSeen
    from ..runs.cluster_checklist import DaemonSeen, Told
    from ..runs.cluster_evidence import Standing
    from ..runs.evidence import Launched, LogFound
    from .session import Session
    from .status_daemons import DaemonView

    Jobs = Sequence[Mapping[str, Any]]


def look(session: Session, cluster: Any, run: ClusterRun, commands: Commands) -> tuple[JobSeen, list[Item]]:
    """How the job stands, and the checklist. Raises `ClusterError` when the API server is out of reach."""
    from ..runs import checklist, cluster_checklist, cluster_evidence

    seen = cluster_evidence.standing(cluster, run)
    told, jobs = _ask(session, cluster, run, seen)
    job = cluster_checklist.job(run, told)
    items = checklist.checklist(
        cluster_checklist.objects(run, seen, _daemons(session, cluster, seen, jobs), commands),
        job,
        _launched(session, run, jobs),
        _log(session, cluster, run, seen, told, job),
        commands,
        cluster_checklist.teardown(run, seen, job, told, commands),
    )
    return job, items


def unrecorded(session: Session, job: ClusterJob) -> ClusterRun:
    """A Ray job that no record tells of, another tool's for one, as its run."""
    from ..api import User
    from ..runs import ClusterRun, new_record

    label = labels_of(job.cluster.raycluster).get(CLUSTER, job.cluster.name)
    return ClusterRun(
        new_record(
            job.id, job.cluster.raycluster, User(job.owner, job.owner), cluster_label=label, submitter="portForward",
            submission_id=job.id, recipe="", started=job.started or session.now(),
        )
    )  # fmt: skip


def _ask(session: Session, cluster: Any, run: ClusterRun, seen: Standing) -> tuple[Told, Jobs]:
    """What its submitter and Ray say of it, and all of Ray's jobs on its cluster."""
    from ..ray_jobs import head_history
    from ..runs.checklist import UNKNOWN
    from ..runs.cluster_checklist import Told

    name = f"raycluster/{run.ray_cluster}"
    if seen.own is None:
        if "own" in seen.unseen:
            return Told("", seen.unseen["own"]), ()
        return Told(
            UNKNOWN, f"{name} {'was made anew' if seen.namesake else 'is gone'}, and Ray's memory of the run with it"
        ), ()
    if not seen.own.may_answer:
        return Told("", f"{name} has no head that could be asked ({seen.own.state})"), ()
    try:
        with drivers_of(session, cluster, seen.own.raycluster) as drivers:
            submitter, info = recorded(session, run)
            state = submitter.state(info, Reached(run.namespace, drivers.ray, cluster))
            jobs = drivers.ray.list()
            told = _what_is_left(session, cluster, run, seen.own.raycluster, state, drivers.ray)
    except NrlError as error:
        return Told("", error.message), ()
    live = [job for job in jobs if _of(run, job) and job.get("status") in LIVE] if state.final else []
    why = "" if state.message == RUNNING else message_of({"message": state.message})
    if state.status == UNKNOWN:
        why = f"{why}: {head_history(cluster, run.namespace, run.ray_cluster)}"
    names = tuple(str(job.get("submission_id") or job.get("job_id")) for job in live)
    return replace(told, state=state.status, why=why, live=names), jobs


def _what_is_left(
    session: Session, cluster: Any, run: ClusterRun, raycluster: Mapping[str, Any], state: State, ray: RayJobs
) -> Told:
    """What a driver that is over left running on the head, as far as anybody may look."""
    from ..runs.cluster_checklist import Told

    if state.left:
        return Told(left=(f"{state.left} of the processes that its driver started",), looked=True)
    if state.status in LIVE or not run.manifest["metadata"].get("uid"):
        return Told()  # what another tool submitted has no mark of ours
    try:
        pids = processes_of(ray, run.id)
        end = ending(session, cluster, raycluster, pids) if pids else ""
    except ClusterError:
        return Told()
    return Told(left=tuple(f"process {pid}" for pid in pids), end=end, looked=True)


def _of(run: ClusterRun, job: Mapping[str, Any]) -> bool:
    """Whether Ray's job is the run's, or a driver that says so."""
    return run.id in (job.get("submission_id"), (job.get("metadata") or {}).get(RUN))


def _daemons(session: Session, cluster: Any, seen: Standing, jobs: Jobs) -> list[DaemonSeen]:
    """The daemons of the clusters that are there, each with its health."""
    from ..runs import ClusterJob
    from ..runs.cluster_checklist import DaemonSeen

    own = [ClusterJob(seen.own, job) for job in jobs] if seen.own is not None else []
    beside = ray_jobs_of(session, cluster, seen.beside).jobs
    views = [view for _, view in daemons_among(cluster, [*own, *beside])]
    return [DaemonSeen(view.words, _is_well(view)) for view in sorted(views, key=lambda view: view.role)]


def _is_well(daemon: DaemonView) -> bool | None:
    if daemon.state not in LIVE:
        return None if daemon.state == STOPPED else False  # somebody stopped it
    return daemon.healthy if daemon.healthy is not None or daemon.why else True


def _launched(session: Session, run: ClusterRun, jobs: Jobs) -> Launched:
    """As the record has it, else as Ray's job has it."""
    from ..runs.evidence import Launched, of_script
    from ..script import decode

    noted = Launched.of(run.expects)
    job = next((job for job in jobs if _of(run, job)), {}) if noted == Launched() else {}
    script = decode(str(job.get("entrypoint") or ""))
    return noted if script is None else of_script(script, session.env)


def _log(session: Session, cluster: Any, run: ClusterRun, seen: Standing, told: Told, job: JobSeen) -> LogFound:
    from ..runs.checklist import UNKNOWN
    from ..watch import Source

    reachable = seen.own is not None and told.state not in ("", UNKNOWN)
    why = told.why
    if told.state == UNKNOWN:
        gone = "is gone" if seen.own is None else "has forgotten the run"
        why = f"the head of raycluster/{run.ray_cluster}, which kept it, {gone}"
    source = Source(run.ray_cluster, run.ray_cluster_uid, run.submission_id) if reachable else None
    connect = drivers_connector(session, cluster, run.namespace)
    return read(session, LogPlace(run.id, run.ray_cluster_uid, run.wandb, job.over is True, source, connect, why))
