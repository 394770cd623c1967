"""`logs` on a cluster: the driver's log of what the words name, or the logs of its Ray cluster's pods."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError, ExitCode, UsageError
from ..labels import RAY_API
from .connecting import namespace_of, open_cluster, paste
from .job_logs import of_job
from .job_record import by_record
from .job_target import NothingFound, meant, not_found, on_clusters, ray_jobs_of
from .log_reading import from_copy
from .session import Session
from .targets import Words, cluster_of, of_recipe

if TYPE_CHECKING:
    from ..runs import ClusterJob, RunRecord

    Job = RunRecord | ClusterJob


@dataclass(frozen=True)
class _Found:
    """What the words name: a job (None where a cluster has none), and the Ray cluster whose pods it is about."""

    cluster: Any
    namespace: str
    job: Job | None
    ray_cluster: str


def show(args: argparse.Namespace, session: Session, words: Words) -> ExitCode | int:
    """Show what was asked for. Raises `UsageError` for a name that nothing has, `ClusterError`."""
    try:
        found = _find(args, session, words)
    except (ClusterError, NothingFound) as error:
        if isinstance(error, ClusterError) and error.reason == "NoConfig":
            said = f'no run of "{words.what}" on this machine, and no cluster to ask: {error.message}'
            raise UsageError(said, error.hint) from error
        if args.source != "auto":
            raise
        return from_copy(session, words.what, error, args.tail, follow=args.follow)
    if args.source == "daemon":
        return _daemon(args, session, found)
    if args.source == "auto" and found.job is not None:
        return of_job(session, found.cluster, found.job, follow=args.follow, lines=args.tail)
    return _pods(args, session, found, "worker" if args.source == "worker" else "head")


def _find(args: argparse.Namespace, session: Session, words: Words) -> _Found:
    from ..runs import ClusterRecord, RunRecord, find, find_cluster_run

    cluster = open_cluster(session)
    namespace = namespace_of(session, cluster)
    if words.name is None:
        return _of_recipe(args, session, words, cluster)
    found = find(cluster, namespace, words.name)
    if isinstance(found, RunRecord):
        return _Found(cluster, namespace, found, found.ray_cluster)
    if isinstance(found, ClusterRecord):
        newest = _newest_on(session, cluster, [found]) if args.source == "auto" else None
        return _Found(cluster, namespace, newest, found.name)
    if args.source != "auto":
        record = find_cluster_run(cluster, namespace, words.name)
        if record is not None:  # its cluster's pods and daemon are there, whatever Ray remembers of the run
            return _Found(cluster, namespace, None, record.ray_cluster)
    job = by_record(session, cluster, namespace, words.name)
    job = job or on_clusters(session, cluster, namespace, words.name, None)
    if job is None:
        raise not_found(words, namespace)
    return _Found(cluster, namespace, job, job.cluster.name)


def _of_recipe(args: argparse.Namespace, session: Session, words: Words, cluster: Any) -> _Found:
    """The newest run of a recipe, or the role's long-lived cluster when that is newer or all there is."""
    from ..runs import ClusterRecord, runs_of_clusters

    recipe = of_recipe(args, session, words, cluster.namespace)
    if recipe.local:
        raise UsageError(f'no run of "{words.recipe}" on this machine', "kubectl nrl runs --local")
    name = cluster_of(recipe, args.role)
    runs = runs_of_clusters(cluster, recipe.namespace, [name], session.user) if args.role == "training" else []
    live = cluster.get(RAY_API, "RayCluster", name, recipe.namespace)
    record = ClusterRecord(live) if live is not None else None
    if record is not None and not (runs and runs[0].created and record.created and runs[0].created > record.created):
        newest = _newest_on(session, cluster, [record]) if args.source == "auto" else None
        return _Found(cluster, recipe.namespace, newest, record.name)
    if not runs:
        raise not_found(words, recipe.namespace)
    return _Found(cluster, recipe.namespace, runs[0], runs[0].ray_cluster)


def _newest_on(session: Session, cluster: Any, records: Sequence[Any]) -> ClusterJob | None:
    return meant(ray_jobs_of(session, cluster, records).jobs, session.user.name, stop=False)


def _daemon(args: argparse.Namespace, session: Session, found: _Found) -> ExitCode | int:
    """The cluster's daemon, the one that runs before those that have ended; another tool's is known by its id (plan/daemons.py)."""
    from ..runs import ClusterRecord, RunRecord

    if isinstance(found.job, RunRecord):
        raise UsageError("a RayJob runs its entrypoint only, and has no daemon")
    live = _ray_cluster(session, found)
    jobs = ray_jobs_of(session, found.cluster, [ClusterRecord(live)]).jobs
    mine = [job for job in jobs if job.daemon or job.submission_id.startswith(f"{found.ray_cluster}-daemon")]
    daemon = min(mine, key=lambda job: job.final, default=None)
    if daemon is None:
        raise UsageError(f"no daemon runs on raycluster/{found.ray_cluster}", "kubectl nrl job list")
    return of_job(session, found.cluster, daemon, follow=args.follow, lines=args.tail)


def _ray_cluster(session: Session, found: _Found) -> Mapping[str, Any]:
    """The RayCluster. Raises `UsageError` when it is not there (yet, or any more)."""
    if not found.ray_cluster:
        raise UsageError("it has no Ray cluster yet, so there are no pods", "kubectl nrl runs")
    live: Mapping[str, Any] | None = found.cluster.get(RAY_API, "RayCluster", found.ray_cluster, found.namespace)
    if live is None:
        hint = paste(session, found.namespace, "job", "logs", found.job.id) if found.job is not None else ""
        raise UsageError(f"the Ray cluster {found.ray_cluster} is gone, and with it the logs of its pods", hint)
    return live


def _pods(args: argparse.Namespace, session: Session, found: _Found, node_type: str) -> ExitCode:
    from ..watch import PodLog, PodLogs, pods_of

    _ray_cluster(session, found)

    def find() -> list[Mapping[str, Any]]:
        return _chosen(pods_of(found.cluster, found.namespace, found.ray_cluster, node_type), args.all_workers)

    def over() -> bool:
        live = found.cluster.get(RAY_API, "RayCluster", found.ray_cluster, found.namespace)
        return live is None or bool(live["metadata"].get("deletionTimestamp"))

    pods = find()
    if not pods and not args.follow:
        raise UsageError(
            f"the Ray cluster {found.ray_cluster} has no {node_type} pod now",
            paste(session, found.namespace, "cluster", "list"),
        )
    _say_others(session, found, node_type, pods, args)
    printer = _Printer(session, named=args.all_workers)

    def make(pod: Mapping[str, Any], stop: threading.Event) -> PodLog:
        sink = printer.sink(str(pod["metadata"]["name"]))
        say = session.output.progress
        return PodLog(found.cluster, pod, sink, say, tail=args.tail, since=args.since, stop=stop)

    if args.follow:
        PodLogs(find, make, over, session.output.progress).follow(pods)
    else:
        for pod in pods:
            make(pod, threading.Event()).read(follow=False)
    return ExitCode.OK


def _chosen(pods: Sequence[Mapping[str, Any]], every: bool) -> list[Mapping[str, Any]]:
    """All, or one: the newest head, or the first worker by name, so that asking again shows the same one."""
    if every or not pods:
        return list(pods)
    heads = [pod for pod in pods if pod["metadata"]["labels"].get("ray.io/node-type") == "head"]
    if heads:
        return [max(heads, key=lambda pod: str(pod["metadata"].get("creationTimestamp") or ""))]
    return [pods[0]]


def _say_others(
    session: Session, found: _Found, node_type: str, pods: Sequence[Mapping[str, Any]], args: argparse.Namespace
) -> None:
    if node_type != "worker" or args.all_workers or not pods:
        return
    from ..watch import pods_of

    count = len(pods_of(found.cluster, found.namespace, found.ray_cluster, "worker"))
    if count > 1:
        session.output.note(f"pod {pods[0]['metadata']['name']}, one of {count} workers (--all-workers for all)")


class _Printer:
    """Prints lines of several pods without tearing any; `named` puts the pod's name before each."""

    def __init__(self, session: Session, *, named: bool) -> None:
        self._output, self._named = session.output, named
        self._lock = threading.Lock()
        self._count = 0

    def sink(self, name: str) -> Callable[[bytes], None]:
        """The sink of one pod's lines."""
        prefix = b""
        if self._named:
            prefix = self._output.tag(f"[{name}] ", self._count).encode()
            self._count += 1

        def write(line: bytes) -> None:
            with self._lock:
                self._output.bytes(prefix + line)

        return write
