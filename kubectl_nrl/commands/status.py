"""`kubectl nrl status`: what runs on this machine, and what was left behind."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..errors import ExitCode, UsageError
from .local_list import LocalList
from .session import Session

if TYPE_CHECKING:
    from ..local import LocalRecord

EXAMPLES = """
kubectl nrl status
kubectl nrl status 20261130-120000-abcd
kubectl nrl status recipe.yaml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name",
        metavar="ID|NAME|RECIPE",
        nargs="?",
        help="one run by its id, one cluster by its name, or a recipe's runs; default: all that is not over",
    )


def handle(args: argparse.Namespace, session: Session) -> ExitCode:
    from .. import local
    from ..local import processes, sessions

    records = _named(session, args.name) if args.name else _unfinished(session)
    counts = {
        r.id: len(processes.of_run(str(r.folder), sessions.owned(r.session, r.folder)))
        for r in records
        if not r.torn_down
    }
    session.output.result(LocalList(records, session.clock(), "nothing runs on this machine", counts))
    for record in records:
        if record.orphaned:
            session.output.warn(f"{record.id}: its supervisor was killed, and nobody ends what it started")
            session.output.hint("kubectl nrl clean")
    if not args.name and not records and local.runs(session.env):
        session.output.note("runs that are over: kubectl nrl runs --local")
    return ExitCode.OK


def _unfinished(session: Session) -> list[LocalRecord]:
    from .. import local

    found = [*local.clusters(session.env), *local.runs(session.env)]
    return [record for record in found if not (record.final and record.torn_down)]


def _named(session: Session, word: str) -> list[LocalRecord]:
    """Raises `UsageError` when this machine has nothing of that name."""
    from .. import local

    run, cluster = local.find(word, session.env), local.find_cluster(word, session.env)
    if run is not None or cluster is not None:
        return [found for found in (cluster, run) if found is not None]
    path = (session.cwd / word).resolve()
    of_recipe = [r for r in [*local.clusters(session.env), *local.runs(session.env)] if r.recipe == str(path)]
    if of_recipe or path.is_file():
        return of_recipe
    raise UsageError(f'no run, cluster or recipe "{word}" on this machine', "kubectl nrl runs")
