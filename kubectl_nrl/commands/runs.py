"""`kubectl nrl runs`: my runs, running and past, as the cluster remembers them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..errors import ExitCode
from ..rayjob_state import span
from .connecting import namespace_of, open_cluster, paste
from .session import Session

if TYPE_CHECKING:
    from ..runs import RunRecord

EXAMPLES = """
kubectl nrl runs
kubectl nrl runs -A --all-users
kubectl nrl runs -o json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="runs of every namespace")
    parser.add_argument("--all-users", action="store_true", help="everybody's runs")


@dataclass(frozen=True)
class RunList:
    """Runs, newest first. `where` and `whose` say which columns tell runs apart."""

    runs: Sequence[RunRecord]
    now: datetime
    where: bool
    whose: bool

    schema = "runs"

    def text(self) -> str:
        if not self.runs:
            return "no runs"
        rows = [self._row(run) for run in self.runs]
        names = [name for name in rows[0] if any(row[name] for row in rows)]
        table = [names, *([row[name] or "-" for name in names] for row in rows)]
        widths = [max(len(line[i]) for line in table) for i in range(len(names))]
        return "\n".join("   ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in table)

    def _row(self, run: RunRecord) -> dict[str, str]:
        age = (self.now - run.created).total_seconds() if run.created else None
        return {
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

    def data(self) -> list[dict[str, Any]]:
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
    from ..runs import my_runs

    cluster = open_cluster(session)
    namespace = namespace_of(session, cluster)
    user = session.user
    runs = my_runs(cluster, namespace, user, all_namespaces=args.all_namespaces, all_users=args.all_users)
    if session.namespace is None and not args.all_namespaces:
        session.output.note(f'namespace "{namespace}" (from the kubeconfig context; -n or -A for others)')
    session.output.result(RunList(runs, session.clock(), args.all_namespaces, args.all_users))
    if any(run.gpus is None for run in runs):
        session.output.note("GPUs held are unknown: you may not list pods")
    for run in runs:
        if run.final and run.gpus:
            session.output.warn(f"run {run.id} is over and still holds {run.gpus} GPUs")
            session.output.hint(paste(session, run.namespace, "job", "stop", run.id))
    return ExitCode.OK
