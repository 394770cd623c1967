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
    from ..runs import RunRecord

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

    schema = "runs"

    def text(self) -> str:
        rows = [*(self._row_here(run) for run in self.here), *(self._row(run) for run in self.runs)]
        return table(rows) if rows else "no runs"

    def _row(self, run: RunRecord) -> dict[str, str]:
        age = (self.now - run.created).total_seconds() if run.created else None
        return {
            "WHERE": "cluster" if self.here else "",
            "NAMESPACE": run.namespace if self.where else "",
            "ID": run.id,
            "RAYJOB": run.name,
            "OWNER": run.owner if self.whose else "",
            "STATE": run.state,
            "REASON": run.reason,
            "AGE": span(age),
            "DURATION": span(run.seconds(self.now)),
            "GPUS": "?" if run.gpus is None else str(run.gpus),
            "WANDB": run.wandb,
        }

    def _row_here(self, run: LocalRecord) -> dict[str, str]:
        row = dict.fromkeys(("WHERE", "NAMESPACE", "ID", "RAYJOB", "OWNER"), "")
        row |= {"WHERE": "this machine", "ID": run.id, "OWNER": run.user if self.whose else ""}
        row |= {"STATE": run.shown_state, "REASON": run.reason, "AGE": span(run.age(self.now))}
        return {**row, "DURATION": span(run.seconds(self.now)), "GPUS": "", "WANDB": ""}

    def data(self) -> list[dict[str, Any]]:
        return [
            *(record_data(run, self.now) for run in self.here),
            *self._data_there(),
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
    session.output.result(RunList(runs, session.clock(), args.all_namespaces, args.all_users, here))
    if any(run.gpus is None for run in runs):
        session.output.note("GPUs held are unknown: you may not list pods")
    for run in runs:
        if run.final and (run.gpus or run.forgotten):
            session.output.warn(f"run {run.id} is over and still holds {run.forgotten or f'{run.gpus} GPUs'}")
            session.output.hint(paste(session, run.namespace, "job", "stop", run.id))
    return ExitCode.OK
