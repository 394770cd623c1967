"""Clears what runs left behind when their supervisor was killed: processes, sessions, and records that claim to run."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import processes, record, sessions
from .finding import clusters, runs
from .record import LocalRecord
from .requests import SPEC


@dataclass(frozen=True)
class Leftover:
    """What is left of one run or cluster; `record` is None for a session whose run is forgotten."""

    id: str
    record: LocalRecord | None
    folder: str
    session: str
    pids: tuple[int, ...]

    @property
    def words(self) -> str:
        parts = [f"{len(self.pids)} processes"] if self.pids else []
        if self.session and Path(self.session).exists():
            parts.append(self.session)
        return f"{self.id}: {', '.join(parts) or 'a record that claims to run'}"


def leftovers(env: Mapping[str, str]) -> list[Leftover]:
    """Everything on this machine that no supervisor owns any more."""
    records = [*runs(env), *clusters(env)]
    found = [_of_record(r) for r in records if r.orphaned]
    for session in sessions.existing():
        owner = sessions.owner_of(session)
        if owner is None or record.is_alive(owner) or record.read(owner) is not None:
            continue
        found.append(Leftover(owner.name, None, str(owner), str(session), _pids(str(owner), str(session))))
    return found


def clear(left: Leftover) -> set[int]:
    """End the processes, remove the session, and close the record; pids that could not be ended."""
    stubborn = processes.end(lambda: processes.of_run(left.folder, left.session))
    if left.session:
        sessions.remove(Path(left.session))
    if left.record is not None and not stubborn:
        _close(left.record)
    return stubborn


def _of_record(found: LocalRecord) -> Leftover:
    session = sessions.owned(found.session, found.folder)
    return Leftover(found.id, found, str(found.folder), session, _pids(str(found.folder), session))


def _pids(mark: str, session: str) -> tuple[int, ...]:
    return tuple(sorted(processes.of_run(mark, session)))


def _close(found: LocalRecord) -> None:
    if found.form == "cluster":
        shutil.rmtree(found.folder, ignore_errors=True)
        return
    values: dict[str, object] = {"torn_down": True, "phase": "", "left": ()}
    if not found.final:
        values |= {
            "state": "FAILED",
            "reason": "Orphaned",
            "message": "the run's supervisor was killed",
            "ended": record.now(),
        }
    record.change(found.folder, **values)
    for name in (SPEC, record.STOP):
        (found.folder / name).unlink(missing_ok=True)
