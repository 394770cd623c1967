"""`kubectl nrl job`: a run's log, its end by hand, and the submission that a laptop left undone. A run's id is enough.

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
kubectl nrl job resume 20261130-120000-abcd --repo-root ~/nemo-rl
kubectl nrl job list
"""

_ACTIONS = ("list", "logs", "stop", "resume")
#: The actions that a flag belongs to.
_FLAGS = {
    "follow": ("logs",), "tail": ("logs",), "force": ("stop", "resume"), "yes": ("stop",), "repo_root": ("resume",),
    "wait": ("resume",),
}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action", metavar="list|logs|stop|resume", choices=_ACTIONS,
        help="the jobs of this machine, a driver's log, the end of a run, or what a laptop that left did not submit",
    )  # fmt: skip
    parser.add_argument("id", metavar="ID", nargs="?", help="a run's id, its RayJob's name, or rayjob/NAME")
    logs = parser.add_argument_group("logs")
    logs.add_argument("-f", "--follow", action="store_true", help="follow to the run's end; exit as the run does")
    logs.add_argument("--tail", metavar="LINES", type=lines, help="the last lines only (default: all)")
    stop = parser.add_argument_group("stop and resume")
    stop.add_argument("--force", action="store_true", help="also a run of another owner")
    stop.add_argument("--yes", action="store_true", help="answer yes to questions (stop)")
    resume = parser.add_argument_group("resume")
    resume.add_argument("--repo-root", metavar="DIR", help="the directory whose code is uploaded (default: this one)")
    resume.add_argument(
        "--wait", action=argparse.BooleanOptionalAction, help="follow the run to its end once it is submitted (default)"
    )


def handle(args: argparse.Namespace, session: Session) -> ExitCode | int:
    from . import local_job

    _refuse_flags(args)
    if args.action == "list":
        return _list(args, session)
    if args.id is None:
        raise UsageError("a run's ID is missing", "kubectl nrl runs")
    here = local_job.find(session, args.id)
    if args.action == "logs":
        if here is not None:
            return local_job.logs(session, here, follow=args.follow, lines=args.tail)
        from .job_logs import logs

        return logs(args, session)
    if args.action == "resume":
        return _resume(args, session, here)
    if here is not None:
        return local_job.stop(session, here)
    from .job_stop import stop

    return stop(args, session)


def _list(args: argparse.Namespace, session: Session) -> ExitCode:
    """The jobs of this machine, whatever became of them."""
    from .. import local
    from .local_list import LocalList

    if args.id is not None:
        raise UsageError(f'unrecognized argument "{args.id}"', "kubectl nrl job list")
    session.output.result(LocalList(local.runs(session.env), session.clock(), "no jobs on this machine"))
    return ExitCode.OK


def _resume(args: argparse.Namespace, session: Session, here: object) -> ExitCode | int:
    if here is not None:
        raise UsageError(
            f"run {args.id} runs on this machine, where nothing is uploaded", f"kubectl nrl job logs {args.id}"
        )
    from .job_resume import resume

    args.wait = args.wait is not False
    return resume(args, session)


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


def _refuse_flags(args: argparse.Namespace) -> None:
    for name, actions in _FLAGS.items():
        value = getattr(args, name)
        given = value is not None if name in ("wait", "tail", "repo_root") else bool(value)
        if given and args.action not in actions:
            flag = "--" + name.replace("_", "-")
            raise UsageError(
                f"{flag} belongs to job {' and '.join(actions)}",
                " ".join(w for w in (f"kubectl nrl job {args.action}", args.id) if w),
            )
