"""`kubectl nrl job`: the jobs there are, a job's log, its end by hand, and the submission that a laptop left undone.

A run's id is enough. What acts on a run that is somebody else's needs both --force and a yes: the labels on the RayJob say
whose it is, and the metadata of a Ray job.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..errors import ClusterError, ExitCode, UsageError
from ..parser import PROG
from .session import Session
from .targets import Words, add_recipe_arguments, run_here, tell_apart

if TYPE_CHECKING:
    from ..local import LocalRecord

EXAMPLES = """
kubectl nrl job list
kubectl nrl job list recipe.yaml --infra infra.yaml
kubectl nrl job logs 20261130-120000-abcd
kubectl nrl job logs 20261130-120000-abcd -f
kubectl nrl job logs rayjob/grpo-a --tail 200
kubectl nrl job logs recipe.yaml --infra infra.yaml -f
kubectl nrl job stop 20261130-120000-abcd
kubectl nrl job resume 20261130-120000-abcd --repo-root ~/nemo-rl
"""

_ACTIONS = ("list", "logs", "stop", "resume")
#: The actions that a flag belongs to.
_FLAGS = {
    "follow": ("logs",), "tail": ("logs",), "force": ("stop", "resume"), "yes": ("stop",), "repo_root": ("resume",),
    "wait": ("resume",), "local": ("list",),
}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action", metavar="list|logs|stop|resume", choices=_ACTIONS,
        help="the jobs there are, a driver's log, the end of a run, or what a laptop that left did not submit",
    )  # fmt: skip
    add_recipe_arguments(
        parser, "[ID] [RECIPE]",
        "a run's id, rayjob/NAME, raycluster/NAME (its newest job) or Ray's id of a job; or a recipe (its newest run)",
    )  # fmt: skip
    parser.add_argument("--role", default="training", help="with RECIPE: on whose cluster (training)")
    list_ = parser.add_argument_group("list")
    list_.add_argument("--local", action="store_true", help="the jobs of this machine only")
    logs = parser.add_argument_group("logs")
    logs.add_argument("-f", "--follow", action="store_true", help="follow to the run's end; exit as the run does")
    logs.add_argument("--tail", metavar="LINES", type=lines, help="the last lines only (default: all)")
    stop = parser.add_argument_group("stop and resume")
    stop.add_argument(
        "--force", action="store_true",
        help="also a run of another owner; and when Ray does not answer, stop it by deleting its RayJob",
    )  # fmt: skip
    stop.add_argument("--yes", action="store_true", help="answer yes to questions (stop)")
    resume = parser.add_argument_group("resume")
    resume.add_argument("--repo-root", metavar="DIR", help="the directory whose code is uploaded (default: this one)")
    resume.add_argument(
        "--wait", action=argparse.BooleanOptionalAction, help="follow the run to its end once it is submitted (default)"
    )


def handle(args: argparse.Namespace, session: Session) -> ExitCode | int:
    words = tell_apart(args.words, session, f"{PROG} job {args.action}")
    _refuse_flags(args, words)
    if args.action == "list":
        from .job_list import show

        return show(args, session, words)
    if words.name is None and words.recipe is None:
        raise UsageError("a run's ID, or RECIPE, is missing", "kubectl nrl runs")
    here = _here(args, session, words)
    if args.action == "logs":
        return _logs(args, session, words, here)
    if args.action == "stop":
        return _stop(args, session, words, here)
    return _resume(args, session, words, here)


def _here(args: argparse.Namespace, session: Session, words: Words) -> LocalRecord | None:
    """The run of this machine that the words name."""
    from . import local_job

    return local_job.find(session, words.name) if words.name else run_here(args, session, words)


def _logs(args: argparse.Namespace, session: Session, words: Words, here: LocalRecord | None) -> ExitCode | int:
    from . import job_logs, local_job
    from .job_target import NothingFound, look_up, not_found
    from .log_reading import from_copy

    if here is not None:
        return local_job.logs(session, here, follow=args.follow, lines=args.tail)
    try:
        place = look_up(args, session, words)
        if place.job is None:
            raise not_found(words, place.namespace)
    except (ClusterError, NothingFound) as error:
        return from_copy(session, words.what, error, args.tail, follow=args.follow)
    return job_logs.of_job(session, place.cluster, place.job, follow=args.follow, lines=args.tail)


def _stop(args: argparse.Namespace, session: Session, words: Words, here: LocalRecord | None) -> ExitCode | int:
    from ..runs import RunRecord
    from . import job_cluster, job_stop, local_job
    from .job_target import look_up, not_found

    if here is not None:
        return local_job.stop(session, here)
    place = look_up(args, session, words)
    if place.job is None:
        raise not_found(words, place.namespace)
    if isinstance(place.job, RunRecord):
        return job_stop.stop(args, session, place.cluster, place.job)
    return job_cluster.stop(args, session, place.cluster, place.job)


def _resume(args: argparse.Namespace, session: Session, words: Words, here: LocalRecord | None) -> ExitCode | int:
    from ..runs import RunRecord
    from .job_resume import resume
    from .job_target import look_up, not_found

    if here is not None:
        raise UsageError(
            f"run {here.id} runs on this machine, where nothing is uploaded", f"kubectl nrl job logs {here.id}"
        )
    place = look_up(args, session, words)
    if place.job is None:
        raise not_found(words, place.namespace)
    if not isinstance(place.job, RunRecord):
        raise UsageError(f"job {place.job.id} is submitted already", f"kubectl nrl job logs {place.job.id} -f")
    args.wait = args.wait is not False
    return resume(args, session, place.cluster, place.job)


def lines(word: str) -> int:
    if not word.isascii() or not word.isdigit():
        raise argparse.ArgumentTypeError(f'"{word}" is not a number of lines')
    return int(word)


def _refuse_flags(args: argparse.Namespace, words: Words) -> None:
    for name, actions in _FLAGS.items():
        value = getattr(args, name)
        given = value is not None if name in ("wait", "tail", "repo_root") else bool(value)
        if given and args.action not in actions:
            flag = "--" + name.replace("_", "-")
            raise UsageError(
                f"{flag} belongs to job {' and '.join(actions)}",
                " ".join(w for w in (f"kubectl nrl job {args.action}", words.what) if w),
            )
