"""The end of a run on this machine: its record, its log's file, and what is left of its processes, ports and session."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .verify_log import of_file

if TYPE_CHECKING:
    from ..local import LocalRecord
    from ..runs.checklist import Commands, Item, JobSeen
    from ..runs.evidence import LogFound
    from ..runs.local_checklist import LeftHere
    from .session import Session


def look(session: Session, run: LocalRecord) -> tuple[JobSeen, list[Item]]:
    """How the job stands, and the checklist."""
    from ..runs import checklist, evidence, local_checklist

    commands = _commands(run)
    left = _left(session, run)
    job = _job(run, left)
    clearing = run.supervised and run.final and not run.torn_down
    items = checklist.checklist(
        (), job, evidence.Launched.of(run.expects), _log(run), commands,
        local_checklist.teardown(job, clearing, left, commands),
    )  # fmt: skip
    return job, items


def _job(run: LocalRecord, left: LeftHere) -> JobSeen:
    from ..runs.checklist import UNKNOWN, JobSeen

    if run.final:
        return JobSeen(run.state, True, ": ".join(part for part in (run.reason, run.message) if part))
    if run.orphaned:
        return JobSeen(UNKNOWN, None if left.pids else True, "its supervisor was killed")
    return JobSeen(run.state, False, ", ".join(part for part in (run.state, run.phase) if part))


def _log(run: LocalRecord) -> LogFound:
    from ..runs.evidence import LogFound

    if not os.path.isfile(run.log):
        return LogFound("", "", False, "there was no driver" if run.final else "there is no driver yet")
    why = "" if run.final else "nobody knows whether it is whole" if run.orphaned else "the run goes on"
    return of_file(run.log, "", complete=run.final, why=why)


def _left(session: Session, run: LocalRecord) -> LeftHere:
    from .. import local
    from ..local import ports, processes, sessions
    from ..runs.local_checklist import LeftHere

    owned = sessions.owned(run.session, run.folder)
    pids = sorted(processes.of_run(str(run.folder), owned) | set(run.left if run.orphaned else ()))
    there = owned if owned and os.path.exists(owned) else ""
    if run.form == "job":
        cluster = local.find_cluster(run.cluster, session.env)
        return LeftHere(pids, there, (), run.cluster if cluster is not None and cluster.alive else "")
    used = sorted(port for role in run.roles.values() for port in role.ports.values() if ports.is_used(port))
    return LeftHere(pids, there, used)


def _commands(run: LocalRecord) -> Commands:
    from ..parser import PROG
    from ..runs.checklist import Commands

    down = f"{PROG} cluster down {run.cluster}" if run.cluster else ""
    return Commands(
        f"{PROG} job logs {run.id}", f"{PROG} job stop {run.id}", f"{PROG} status {run.id}", f"{PROG} clean", down
    )
