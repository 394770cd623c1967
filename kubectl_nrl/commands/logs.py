"""`kubectl nrl logs`: what a run or cluster of this machine said, its driver, a daemon, or Ray itself."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ExitCode, UsageError
from .job import lines
from .local_job import file_logs
from .local_job import logs as driver_logs
from .session import Session

if TYPE_CHECKING:
    from ..local import LocalRecord

EXAMPLES = """
kubectl nrl logs recipe.yaml -f
kubectl nrl logs 20261130-120000-abcd --tail 50
kubectl nrl logs recipe.yaml --role generation --source daemon
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="RECIPE|ID|NAME", help="a recipe (its newest run on this machine), a run's id, a cluster's name"
    )
    parser.add_argument("--role", default="training", help="whose: training (default), generation, gym")
    parser.add_argument(
        "--source",
        choices=("auto", "daemon", "head"),
        default="auto",
        help="auto: the driver, else the daemon, else Ray; daemon: the role's daemon; head: Ray's own start and end",
    )
    parser.add_argument("-f", "--follow", action="store_true", help="follow to the end; exit as the run does")
    parser.add_argument("--tail", metavar="LINES", type=lines, default=200, help="the last lines only (200)")


def handle(args: argparse.Namespace, session: Session) -> ExitCode:
    found = _find(session, args.name)
    if args.source == "auto" and args.role == "training" and found.form != "cluster":
        return driver_logs(session, found, follow=args.follow, lines=args.tail)
    return file_logs(session, _file(found, args.role, args.source), found, follow=args.follow, lines=args.tail)


def _find(session: Session, word: str) -> LocalRecord:
    from .. import local

    found = local.find(word, session.env) or local.find_cluster(word, session.env)
    path = session.cwd / word
    if found is None and path.is_file():
        found = local.newest_of_recipe(path, session.env)
    if found is None:
        raise UsageError(
            f'no run of "{word}" on this machine', "kubectl nrl runs, then kubectl nrl job logs ID for one on a cluster"
        )
    return found


def _file(found: LocalRecord, role: str, source: str) -> Path:
    """The file that holds it. Raises `UsageError` when there is none."""
    daemon, head = found.folder / f"daemon-{role}.log", found.folder / f"ray-{role}.log"
    for name, path in (("daemon", daemon), ("head", head)):
        if source in (name, "auto") and path.exists():
            return path
    have = ", ".join(sorted(p.name for p in found.folder.glob("*.log") if p.name != "supervisor.log"))
    raise UsageError(f"{found.id} has no such log of {role}; it has: {have or 'none'}")
