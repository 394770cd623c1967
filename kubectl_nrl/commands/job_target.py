"""Which job `job logs` and `job stop` mean: a run of this machine, a RayJob, or a Ray job on a long-lived cluster.

A RayJob comes first, since one request tells it; the heads of long-lived clusters are asked only for an id that no
RayJob has.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError, UsageError
from ..labels import RAY_API
from .connecting import namespace_of, open_cluster
from .job_record import by_record
from .session import Session
from .targets import OfRecipe, Words, cluster_of, of_recipe

if TYPE_CHECKING:
    from ..runs import Asked, ClusterJob, ClusterRecord, RunRecord


@dataclass(frozen=True)
class Place:
    """Where was looked, and what was found there."""

    cluster: Any
    namespace: str
    job: RunRecord | ClusterJob | None


def look_up(args: argparse.Namespace, session: Session, words: Words) -> Place:
    """The job that the words name. Raises `UsageError` for words that name none in principle, `ClusterError`."""
    cluster = open_cluster(session)
    namespace = namespace_of(session, cluster)
    recipe = None
    if words.recipe is not None:
        recipe = of_recipe(args, session, words, cluster.namespace)
        namespace = recipe.namespace or namespace
    if words.name is not None:
        return Place(cluster, namespace, _named(args, session, cluster, namespace, words.name, recipe))
    if recipe is None:
        raise UsageError("a run's ID, or RECIPE, is missing", "kubectl nrl runs")
    return Place(cluster, namespace, _newest(args, session, cluster, namespace, recipe))


class NothingFound(UsageError):
    """Words that name no run there is; this machine may still have its log."""


def not_found(words: Words, namespace: str) -> NothingFound:
    of = "of " if words.name is None else ""
    return NothingFound(f'no run {of}"{words.what}" in namespace "{namespace}"', "kubectl nrl runs -A")


def clusters_of(cluster: Any, namespace: str) -> tuple[list[ClusterRecord], str]:
    """The Ray clusters of a namespace; none for who may not list them, and then what was refused."""
    from ..runs import ClusterRecord

    try:
        return [ClusterRecord(item) for item in cluster.list(RAY_API, "RayCluster", namespace)], ""
    except ClusterError as error:
        if error.status != 403:
            raise
        return [], error.message


def ray_jobs_of(session: Session, cluster: Any, clusters: Sequence[ClusterRecord]) -> Asked:
    """The Ray jobs of long-lived clusters whose head is or was up; one that has none yet is asked nothing."""
    from ..runs import jobs_of
    from .cluster_drivers import drivers_of

    up = [found for found in clusters if found.may_answer and not found.rayjob]
    return jobs_of(up, lambda found: drivers_of(session, cluster, found.raycluster))


def meant(jobs: Sequence[ClusterJob], user: str, *, stop: bool, mine: bool = False) -> ClusterJob | None:
    """Which of one cluster's jobs (the newest first) is meant by its name, None for no submitted one.

    A daemon only where nothing else was submitted. To `stop`: what still runs, and of that mine; with `mine` those of the asking user in
    any case, where there are any.
    """
    found = [job for job in jobs if job.submission_id]
    found = [job for job in found if not job.daemon] or found
    if stop:
        found = [job for job in found if not job.final] or found
    if stop or mine:
        found = [job for job in found if job.owner == user] or found
    return found[0] if found else None


def _named(
    args: argparse.Namespace, session: Session, cluster: Any, namespace: str, word: str, recipe: OfRecipe | None
) -> RunRecord | ClusterJob | None:
    from ..runs import ClusterRecord, find

    found = find(cluster, namespace, word)
    if isinstance(found, ClusterRecord):
        return _newest_on(args, session, cluster, found)
    if found is not None:
        return found
    return by_record(session, cluster, namespace, word) or on_clusters(session, cluster, namespace, word, recipe)


def on_clusters(
    session: Session, cluster: Any, namespace: str, word: str, recipe: OfRecipe | None
) -> ClusterJob | None:
    """The job of that id on a long-lived cluster. Raises `UsageError` for an id that two clusters have."""
    records, _ = clusters_of(cluster, namespace)
    if recipe is not None:
        records = [found for found in records if found.name in recipe.clusters.values()]
    asked = ray_jobs_of(session, cluster, records)
    jobs = [job for job in asked.jobs if word in job.names]
    if len({job.cluster.uid for job in jobs}) > 1:
        where = ", ".join(f"raycluster/{job.cluster.name}" for job in jobs)
        raise UsageError(f'job "{word}" is on several clusters: {where}', "name the cluster instead: raycluster/NAME")
    if not jobs and asked.silent:
        why = "; ".join(f"raycluster/{name} cannot be asked: {said}" for name, said in asked.silent.items())
        raise NothingFound(f'no run "{word}" in namespace "{namespace}"; {why}', "kubectl nrl cluster list")
    return jobs[0] if jobs else None


def _newest_on(args: argparse.Namespace, session: Session, cluster: Any, record: ClusterRecord) -> ClusterJob:
    """The job of one long-lived cluster that its name means. Raises `UsageError` when there is none."""
    if not record.may_answer:
        raise UsageError(f'Ray cluster "{record.name}" has no head to ask ({record.state})', "kubectl nrl cluster list")
    if record.rayjob:
        raise UsageError(f'Ray cluster "{record.name}" belongs to a RayJob', f"name that one: rayjob/{record.rayjob}")
    asked = ray_jobs_of(session, cluster, [record])
    if record.name in asked.silent:
        raise UsageError(f"raycluster/{record.name} cannot be asked: {asked.silent[record.name]}")
    found = meant(asked.jobs, session.user.name, stop=getattr(args, "action", "") == "stop")
    if found is None:
        raise UsageError(f'no job was submitted to Ray cluster "{record.name}"', "kubectl nrl job list")
    return found


def _newest(
    args: argparse.Namespace, session: Session, cluster: Any, namespace: str, recipe: OfRecipe
) -> RunRecord | ClusterJob | None:
    """The newest run of a recipe: a RayJob of its training cluster's name, or a job on the role's long-lived cluster."""
    from ..runs import ClusterRecord, runs_of_clusters

    name = cluster_of(recipe, args.role)
    runs = runs_of_clusters(cluster, namespace, [name], session.user)
    live = cluster.get(RAY_API, "RayCluster", name, namespace)
    asked = ray_jobs_of(session, cluster, [ClusterRecord(live)] if live is not None else [])
    job = meant(asked.jobs, session.user.name, stop=getattr(args, "action", "") == "stop", mine=True)
    if job is None or (runs and runs[0].created and job.started and runs[0].created > job.started):
        return runs[0] if runs else None
    return job
