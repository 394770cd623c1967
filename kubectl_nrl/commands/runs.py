"""`kubectl nrl runs`: my runs, running and past, as the cluster remembers them, and those of this machine.

Without a cluster the runs of this machine are the answer, unless the flags ask for a cluster's.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError, ExitCode
from ..rayjob_state import span
from .connecting import namespace_of, open_cluster, paste
from .local_result import record_data
from .session import Session
from .table import table

if TYPE_CHECKING:
    from ..local import LocalRecord
    from ..runs import RunRecord, SeenRun

EXAMPLES = """
kubectl nrl runs
kubectl nrl runs -A --all-users
kubectl nrl runs --local
kubectl nrl runs -o json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="runs of every namespace")
    parser.add_argument("--all-users", action="store_true", help="everybody's runs")
    parser.add_argument("--local", action="store_true", help="the runs of this machine only")


@dataclass(frozen=True)
class RunList:
    """Runs, newest first. `where` and `whose` say which columns tell runs apart."""

    runs: Sequence[RunRecord]
    now: datetime
    where: bool
    whose: bool
    here: Sequence[LocalRecord] = ()
    standing: Sequence[SeenRun] = ()

    schema = "runs"

    def text(self) -> str:
        there = [(run.created, self._row(run)) for run in self.runs]
        there += [(seen.run.started, self._row_standing(seen)) for seen in self.standing]
        there.sort(key=lambda pair: pair[0].timestamp() if pair[0] else 0.0, reverse=True)
        rows = [*(self._row_here(run) for run in self.here), *(row for _, row in there)]
        return table(rows) if rows else "no runs"

    def _row(self, run: RunRecord) -> dict[str, str]:
        age = (self.now - run.created).total_seconds() if run.created else None
        return {
            "WHERE": "cluster" if self.here else "",
            "NAMESPACE": run.namespace if self.where else "",
            "ID": run.id,
            "RAYJOB": run.name,
            "RAYCLUSTER": "",
            "OWNER": run.owner if self.whose else "",
            "STATE": run.state,
            "REASON": run.reason,
            "AGE": span(age),
            "DURATION": span(run.seconds(self.now)),
            "GPUS": "?" if run.gpus is None else str(run.gpus),
            "WANDB": run.wandb,
        }

    def _row_standing(self, seen: SeenRun) -> dict[str, str]:
        """A run on a long-lived cluster, which holds what it holds with or without the run."""
        run = seen.run
        age = (self.now - run.started).total_seconds() if run.started else None
        ended = seen.state != "UNKNOWN" and (seen.ended or not seen.final)
        return {
            "WHERE": "cluster" if self.here else "",
            "NAMESPACE": run.namespace if self.where else "",
            "ID": run.id,
            "RAYJOB": "",
            "RAYCLUSTER": run.ray_cluster,
            "OWNER": run.owner if self.whose else "",
            "STATE": seen.state,
            "REASON": seen.reason,
            "AGE": span(age),
            "DURATION": span(seen.seconds(self.now)) if ended else "",
            "GPUS": "",
            "WANDB": run.wandb,
        }

    def _row_here(self, run: LocalRecord) -> dict[str, str]:
        row = dict.fromkeys(("WHERE", "NAMESPACE", "ID", "RAYJOB", "RAYCLUSTER", "OWNER"), "")
        row |= {"WHERE": "this machine", "ID": run.id, "OWNER": run.user if self.whose else ""}
        row |= {"STATE": run.shown_state, "REASON": run.reason, "AGE": span(run.age(self.now))}
        return {**row, "DURATION": span(run.seconds(self.now)), "GPUS": "", "WANDB": ""}

    def data(self) -> list[dict[str, Any]]:
        return [
            *(record_data(run, self.now) for run in self.here),
            *self._data_there(),
            *(standing_data(seen, self.now) for seen in self.standing),
        ]

    def _data_there(self) -> list[dict[str, Any]]:
        return [
            {
                "id": run.id,
                "rayjob": run.name,
                "namespace": run.namespace,
                "uid": run.uid,
                "owner": run.owner,
                "state": run.state,
                "final": run.final,
                "reason": run.reason,
                "created": run.rayjob["metadata"].get("creationTimestamp"),
                "durationSeconds": run.seconds(self.now),
                "gpusHeld": run.gpus,
                "rayCluster": run.ray_cluster,
                "wandb": run.wandb,
            }
            for run in self.runs
        ]


def standing_data(seen: SeenRun, now: datetime) -> dict[str, Any]:
    """A run on a long-lived cluster for JSON."""
    run = seen.run
    return {
        "id": run.id,
        "rayCluster": run.ray_cluster,
        "namespace": run.namespace,
        "submitter": run.submitter,
        "owner": run.owner,
        "recipe": run.recipe,
        "state": seen.state,
        "final": seen.final,
        "reason": seen.reason,
        "message": seen.message,
        "created": run.started.isoformat() if run.started else None,
        "durationSeconds": seen.seconds(now) if seen.ended or not seen.final else None,
        "wandb": run.wandb,
    }


def handle(args: argparse.Namespace, session: Session) -> ExitCode:
    from .. import local
    from ..runs import my_runs

    here = [] if args.all_namespaces and not args.local else local.runs(session.env)
    if args.local:
        session.output.result(RunList([], session.clock(), False, args.all_users, here))
        return ExitCode.OK
    try:
        return _with_the_clusters(args, session, my_runs, here)
    except ClusterError as error:
        asked = session.namespace or session.context or session.kubeconfig or args.all_namespaces or args.all_users
        if asked or not here:
            raise
        session.output.note(f"the runs of this machine only: {error.message}")
        session.output.result(RunList([], session.clock(), False, False, here))
        return ExitCode.OK


def _with_the_clusters(
    args: argparse.Namespace, session: Session, my_runs: Callable[..., list[RunRecord]], here: Sequence[LocalRecord]
) -> ExitCode:
    cluster = open_cluster(session)
    namespace = namespace_of(session, cluster)
    user = session.user
    runs = my_runs(cluster, namespace, user, all_namespaces=args.all_namespaces, all_users=args.all_users)
    if session.namespace is None and not args.all_namespaces:
        session.output.note(f'namespace "{namespace}" (from the kubeconfig context; -n or -A for others)')
    standing = _standing(args, session, cluster, namespace)
    session.output.result(RunList(runs, session.now(), args.all_namespaces, args.all_users, here, standing))
    if any(run.gpus is None for run in runs):
        session.output.note("GPUs held are unknown: you may not list pods")
    for run in runs:
        if run.final and (run.gpus or run.forgotten):
            session.output.warn(f"run {run.id} is over and still holds {run.forgotten or f'{run.gpus} GPUs'}")
            session.output.hint(paste(session, run.namespace, "job", "stop", run.id))
    _say_what_is_unknown(session, standing)
    return ExitCode.OK


def _say_what_is_unknown(session: Session, standing: Sequence[SeenRun]) -> None:
    """Why nobody knows how some runs stand, once for all that share a cause."""
    why: dict[str, list[str]] = {}
    for seen in standing:
        if not seen.final and seen.state == "UNKNOWN" and seen.message:
            why.setdefault(seen.message, []).append(seen.run.id)
    for message, ids in why.items():
        session.output.note(f"UNKNOWN, {', '.join(ids)}: {message}")


def _standing(args: argparse.Namespace, session: Session, cluster: Any, namespace: str) -> list[SeenRun]:
    """Runs on long-lived clusters, by their records and what Ray says; none where records may not be read."""
    from ..runs import cluster_runs
    from .job_record import seen

    try:
        records = cluster_runs(
            cluster, namespace, session.user, all_namespaces=args.all_namespaces, all_users=args.all_users
        )
    except ClusterError as error:
        if error.status != 403:
            raise
        session.output.note("runs on long-lived clusters are not listed: you may not list configmaps")
        return []
    return seen(session, cluster, records)
