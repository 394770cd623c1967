"""`kubectl nrl job list`: the RayJobs of a namespace, the Ray jobs of its long-lived clusters, and those of this machine.

Everybody's are shown, with their owner: who looks for a free cluster wants to know who is on it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError, ExitCode
from ..labels import RAY_API
from ..rayjob_state import parse_time, span
from .connecting import namespace_of, open_cluster
from .local_list import LocalList
from .session import Session
from .table import table
from .targets import OfRecipe, Words, of_recipe

if TYPE_CHECKING:
    from ..local import LocalRecord
    from ..runs import Asked, ClusterJob, RunRecord

_EARLIEST = datetime.min.replace(tzinfo=timezone.utc)


@dataclass(frozen=True)
class JobList:
    """Jobs of all kinds; `me` is the asking user's name, `empty` what to say when there is none."""

    runs: Sequence[RunRecord]
    jobs: Sequence[ClusterJob]
    here: Sequence[LocalRecord]
    now: datetime
    me: str
    empty: str

    schema = "job_list"

    def text(self) -> str:
        dated = [
            *((parse_time(run.created) or _EARLIEST, self._row_here(run)) for run in self.here),
            *((run.created or _EARLIEST, self._row_of_run(run)) for run in self.runs),
            *((job.started or _EARLIEST, self._row(job)) for job in self.jobs),
        ]
        rows = [row for _, row in sorted(dated, key=lambda pair: pair[0], reverse=True)]
        return table(rows) if rows else self.empty

    def _line(self, id: str, on: str, owner: str, state: str, reason: str, *seconds: float | None) -> dict[str, str]:
        age, duration = map(span, seconds)
        whose = f"{owner} (you)" if owner and owner == self.me else owner
        return {
            "ID": id, "ON": on, "OWNER": whose, "STATE": state, "REASON": reason, "AGE": age, "DURATION": duration
        }  # fmt: skip

    def _row_of_run(self, run: RunRecord) -> dict[str, str]:
        age = (self.now - run.created).total_seconds() if run.created else None
        return self._line(run.id, f"rayjob/{run.name}", run.owner, run.state, run.reason, age, run.seconds(self.now))

    def _row(self, job: ClusterJob) -> dict[str, str]:
        age = (self.now - job.started).total_seconds() if job.started else None
        why = f"daemon of {job.daemon}" if job.daemon else "" if job.submission_id else "started by hand"
        return self._line(
            job.id, f"raycluster/{job.cluster.name}", job.owner, job.state, why, age, job.seconds(self.now)
        )

    def _row_here(self, run: LocalRecord) -> dict[str, str]:
        return self._line(
            run.id, "this machine", run.user, run.shown_state, run.reason, run.age(self.now), run.seconds(self.now)
        )

    def data(self) -> list[dict[str, Any]]:
        return [
            *LocalList(self.here, self.now, "").data(),
            *(self._data_of_run(run) for run in self.runs),
            *(self._data(job) for job in self.jobs),
        ]

    def _data_of_run(self, run: RunRecord) -> dict[str, Any]:
        return {
            "id": run.id, "rayjob": run.name, "rayCluster": run.ray_cluster, "namespace": run.namespace,
            "submissionId": run.submission_id, "owner": run.owner, "mine": run.owner == self.me, "state": run.state,
            "final": run.final, "reason": run.reason, "daemon": "",
            "started": run.status.get("startTime"), "durationSeconds": run.seconds(self.now),
        }  # fmt: skip

    def _data(self, job: ClusterJob) -> dict[str, Any]:
        return {
            "id": job.id, "rayjob": "", "rayCluster": job.cluster.name, "namespace": job.cluster.namespace,
            "submissionId": job.submission_id, "owner": job.owner, "mine": job.owner == self.me, "state": job.state,
            "final": job.final, "reason": job.message if job.final and job.state != "SUCCEEDED" else "",
            "daemon": job.daemon,
            "started": job.started.isoformat() if job.started else None, "durationSeconds": job.seconds(self.now),
        }  # fmt: skip


def show(args: argparse.Namespace, session: Session, words: Words) -> ExitCode:
    """List them. Without a cluster to ask, this machine's are the answer, unless the flags ask for a cluster's."""
    from .. import local

    if words.name is not None:
        from ..errors import UsageError

        raise UsageError(f'unrecognized argument "{words.name}"', "kubectl nrl job list")
    here = local.runs(session.env)
    if words.recipe is not None:
        here = [run for run in here if run.recipe == str(Path(session.cwd / words.recipe).resolve())]
    now, me = session.now(), session.user.name
    only_here = JobList([], [], here, now, me, "no jobs on this machine")
    recipe = of_recipe(args, session, words) if words.recipe is not None and not args.local else None
    if args.local or (recipe is not None and recipe.local):
        session.output.result(only_here)
        return ExitCode.OK
    try:
        namespace, runs, asked = _on_the_cluster(session, recipe)
    except ClusterError as error:
        if session.namespace or session.context or session.kubeconfig or recipe is not None:
            raise
        session.output.note(f"the jobs of this machine only: {error.message}")
        session.output.result(only_here)
        return ExitCode.OK
    session.output.result(JobList(runs, asked.jobs, here, session.now(), me, f'no jobs in namespace "{namespace}"'))
    _say_silent(session, asked.silent)
    return ExitCode.OK


def _on_the_cluster(session: Session, recipe: OfRecipe | None) -> tuple[str, Sequence[RunRecord], Asked]:
    """The namespace looked in, its RayJobs, and what its long-lived clusters say."""
    from ..labels import CLUSTER, labels_of
    from ..manifests.names import label_value
    from ..runs import RunRecord, newest_first
    from .job_target import clusters_of, ray_jobs_of

    cluster = open_cluster(session)
    namespace = session.namespace or (recipe.namespace if recipe else "") or namespace_of(session, cluster)
    if session.namespace is None:
        whose = "the infra file" if recipe else "the kubeconfig context"
        session.output.note(f'namespace "{namespace}" (from {whose}; -n for another)')
    clusters, refused = clusters_of(cluster, namespace)
    try:
        runs = [RunRecord(job) for job in cluster.list(RAY_API, "RayJob", namespace)]
    except ClusterError as error:
        if error.status != 403 or refused:
            raise
        session.output.note(f"RayJobs are not listed: {error.message}")
        runs = []
    if refused:
        session.output.note(f"jobs of long-lived clusters are not listed: {refused}")
    if recipe is not None:
        wanted = set(map(label_value, recipe.clusters.values()))
        runs = [run for run in runs if labels_of(run.rayjob).get(CLUSTER) in wanted]
        clusters = [found for found in clusters if found.name in recipe.clusters.values()]
    return namespace, newest_first(runs), ray_jobs_of(session, cluster, clusters)


def _say_silent(session: Session, silent: Mapping[str, str]) -> None:
    for name, why in silent.items():
        session.output.note(f"jobs of raycluster/{name} are not listed: {why}")
