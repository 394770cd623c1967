"""Runs and clusters of this machine as a table, and as data."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..cells import printable
from ..parser import PROG
from ..rayjob_state import span
from .local_result import record_data
from .table import table

if TYPE_CHECKING:
    from ..local import LocalRecord

#: Lines of a run's message that are shown.
LINES = 20


@dataclass(frozen=True)
class LocalList:
    """Records, newest first; `empty` is what to say when there is none, `processes` how many some of them have.

    `named`: they were asked for by name, and the one run among them is told in full.
    """

    records: Sequence[LocalRecord]
    now: datetime
    empty: str
    processes: Mapping[str, int] = field(default_factory=dict)
    named: bool = False

    schema = "local_list"

    def text(self) -> str:
        if not self.records:
            return self.empty
        runs = [found for found in self.records if found.form != "cluster"] if self.named else []
        return "\n".join(
            [table([self._row(r) for r in self.records]), *(line for run in runs for line in _detail(run))]
        )

    def _row(self, found: LocalRecord) -> dict[str, str]:
        count = self.processes.get(found.id)
        return {
            "WHAT": "cluster" if found.form == "cluster" else "run",
            "ID": found.id,
            "STATE": found.shown_state,
            "NOW": found.phase,
            "REASON": found.reason,
            "AGE": span(found.age(self.now)),
            "DURATION": span(found.seconds(self.now)) if found.form != "cluster" else "",
            "CLUSTER": found.cluster,
            "RAYS": ",".join(found.roles) if not found.torn_down else "",
            "PROCESSES": "" if count is None else str(count),
            "DASHBOARD": next((r.dashboard for r in found.roles.values()), "") if found.alive else "",
        }

    def data(self) -> list[dict[str, Any]]:
        return [{**record_data(r, self.now), "processes": self.processes.get(r.id)} for r in self.records]


def _detail(run: LocalRecord) -> Iterator[str]:
    """What a table has no room for; paths and commands to copy are never broken."""
    for at, line in enumerate(run.message.strip().splitlines()[:LINES]):
        yield f"  {'' if at else 'message':<11}{printable(line)}"
    if os.path.isfile(run.log):
        yield f"  {'log':<11}{run.log}"
    if run.final:
        yield f"  {'read it':<11}{PROG} job logs {run.id}"
    else:
        yield f"  {'follow it':<11}{PROG} job logs {run.id} -f"
        yield f"  {'stop it':<11}{PROG} job stop {run.id}"
