"""`kubectl nrl job`: a run's log, and its end by hand. A run's id is enough, from any laptop.

What acts on a run that is somebody else's needs both --force and a yes: the labels on the RayJob say whose it is.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..errors import ExitCode, UsageError
from .connecting import namespace_of, open_cluster
from .session import Session

if TYPE_CHECKING:
    from ..cluster import Cluster
    from ..runs import RunRecord

EXAMPLES = """
kubectl nrl job logs 20261130-120000-abcd
kubectl nrl job logs 20261130-120000-abcd -f
kubectl nrl job logs rayjob/grpo-a --tail 200
kubectl nrl job stop 20261130-120000-abcd
kubectl nrl job list
"""

_ACTIONS = ("list", "logs", "stop")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        metavar="list|logs|stop",
        choices=_ACTIONS,
        help="the jobs of this machine, a driver's log, or the end of a run",
    )
    parser.add_argument("id", metavar="ID", nargs="?", help="a run's id, its RayJob's name, or rayjob/NAME")
    logs = parser.add_argument_group("logs")
    logs.add_argument("-f", "--follow", action="store_true", help="follow to the run's end; exit as the run does")
    logs.add_argument("--tail", metavar="LINES", type=lines, help="the last lines only (default: all)")
    stop = parser.add_argument_group("stop")
    stop.add_argument("--force", action="store_true", help="also a run of another owner")
    stop.add_argument("--yes", action="store_true", help="answer yes to questions")


def handle(args: argparse.Namespace, session: Session) -> ExitCode | int:
    from . import local_job

    if args.action == "list":
        return _list(args, session)
    if args.id is None:
        raise UsageError("a run's ID is missing", "kubectl nrl runs")
    here = local_job.find(session, args.id)
    if args.action == "logs":
        _refuse_flags(args, "stop", force=args.force, yes=args.yes)
        if here is not None:
            return local_job.logs(session, here, follow=args.follow, lines=args.tail)
        from .job_logs import logs

        return logs(args, session)
    _refuse_flags(args, "logs", follow=args.follow, tail=args.tail is not None)
    if here is not None:
        return local_job.stop(session, here)
    from .job_stop import stop

    return stop(args, session)


def _list(args: argparse.Namespace, session: Session) -> ExitCode:
    """The jobs of this machine, whatever became of them."""
    from .. import local
    from .local_list import LocalList

    _refuse_flags(args, "logs", follow=args.follow, tail=args.tail is not None)
    _refuse_flags(args, "stop", force=args.force, yes=args.yes)
    if args.id is not None:
        raise UsageError(f'unrecognized argument "{args.id}"', "kubectl nrl job list")
    session.output.result(LocalList(local.runs(session.env), session.clock(), "no jobs on this machine"))
    return ExitCode.OK


def connect_to_run(session: Session, word: str) -> tuple[Cluster, str, RunRecord | None]:
    """The cluster, the namespace looked in, and the run that `word` names there."""
    from ..runs import find_run

    cluster = open_cluster(session)
    namespace = namespace_of(session, cluster)
    return cluster, namespace, find_run(cluster, namespace, word)


def not_found(word: str, namespace: str) -> UsageError:
    return UsageError(f'no run "{word}" in namespace "{namespace}"', "kubectl nrl runs -A")


def lines(word: str) -> int:
    if not word.isascii() or not word.isdigit():
        raise argparse.ArgumentTypeError(f'"{word}" is not a number of lines')
    return int(word)


def _refuse_flags(args: argparse.Namespace, other: str, **given: bool) -> None:
    for name, is_given in given.items():
        if is_given:
            raise UsageError(
                f"--{name} belongs to job {other}", f"kubectl nrl job {args.action}{f' {args.id}' if args.id else ''}"
            )
