"""Runs and clusters of this machine as a table, and as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..rayjob_state import span
from .local_result import record_data
from .table import table

if TYPE_CHECKING:
    from ..local import LocalRecord


@dataclass(frozen=True)
class LocalList:
    """Records, newest first; `empty` is what to say when there is none, `processes` how many some of them have."""

    records: Sequence[LocalRecord]
    now: datetime
    empty: str
    processes: Mapping[str, int] = field(default_factory=dict)

    schema = "local_list"

    def text(self) -> str:
        return table([self._row(r) for r in self.records]) if self.records else self.empty

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
