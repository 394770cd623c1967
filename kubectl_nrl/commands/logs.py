"""`kubectl nrl logs`: what a run or a Ray cluster said, its driver, a daemon, or Ray's own pods; here or on a cluster."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ExitCode, UsageError
from ..parser import PROG
from .job import lines
from .local_job import file_logs
from .local_job import logs as driver_logs
from .session import Session
from .targets import Words, add_recipe_arguments, run_here, tell_apart

if TYPE_CHECKING:
    from ..local import LocalRecord

EXAMPLES = """
kubectl nrl logs recipe.yaml --infra infra.yaml -f
kubectl nrl logs 20261130-120000-abcd --tail 50
kubectl nrl logs 20261130-120000-abcd --source head --since 10m
kubectl nrl logs 20261130-120000-abcd --source worker --all-workers -f
kubectl nrl logs raycluster/my-cluster --source head -f
kubectl nrl logs recipe.yaml --role generation --source daemon
"""

_SPAN = re.compile(r"(\d+)([smhd]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_recipe_arguments(
        parser, "RECIPE|ID|NAME",
        "a recipe (its newest run), a run's id, rayjob/NAME, raycluster/NAME, or a cluster of this machine",
    )  # fmt: skip
    parser.add_argument("--role", default="training", help="whose: training (default), generation, gym")
    parser.add_argument(
        "--source",
        choices=("auto", "daemon", "head", "worker"),
        default="auto",
        help="auto: the driver, else the daemon, else the head; daemon: the role's daemon; head, worker: Ray's own words",
    )
    parser.add_argument("--all-workers", action="store_true", help="every worker's, each line with its pod's name")
    parser.add_argument("-f", "--follow", action="store_true", help="follow to the end; exit as the run does")
    parser.add_argument("--tail", metavar="LINES", type=lines, default=200, help="the last lines only (200)")
    parser.add_argument("--since", metavar="TIME", type=_span, help="of head or worker: not older than 30s, 10m, 2h")


def handle(args: argparse.Namespace, session: Session) -> ExitCode | int:
    words = tell_apart(args.words, session, f"{PROG} logs")
    if not words.what:
        raise UsageError("RECIPE, ID or NAME is missing", f"{PROG} runs")
    if args.all_workers:
        if args.source not in ("auto", "worker"):
            raise UsageError(f"--all-workers shows workers, and --source {args.source} something else")
        args.source = "worker"
    if args.since is not None and args.source not in ("head", "worker"):
        raise UsageError("the lines of a driver carry no time, so --since cannot choose among them", "--tail LINES")
    here = _here(args, session, words)
    if here is None:
        from .logs_cluster import show

        return show(args, session, words)
    if args.source == "worker" or args.since is not None:
        raise UsageError(f"{here.id} is on this machine, where Ray's log is one: --source head, without --since")
    if args.source == "auto" and args.role == "training" and here.form != "cluster":
        return driver_logs(session, here, follow=args.follow, lines=args.tail)
    return file_logs(session, _file(here, args.role, args.source), here, follow=args.follow, lines=args.tail)


def _here(args: argparse.Namespace, session: Session, words: Words) -> LocalRecord | None:
    """The run or cluster of this machine that the words name."""
    from .. import local

    if words.name is not None:
        return local.find(words.name, session.env) or local.find_cluster(words.name, session.env)
    return run_here(args, session, words)


def _file(found: LocalRecord, role: str, source: str) -> Path:
    """The file that holds it. Raises `UsageError` when there is none."""
    daemon, head = found.folder / f"daemon-{role}.log", found.folder / f"ray-{role}.log"
    for name, path in (("daemon", daemon), ("head", head)):
        if source in (name, "auto") and os.path.isfile(path):
            return path
    have = ", ".join(sorted(p.name for p in found.folder.glob("*.log") if p.name != "supervisor.log"))
    raise UsageError(f"{found.id} has no such log of {role}; it has: {have or 'none'}")


def _span(word: str) -> int:
    """A length of time in seconds: `90`, `30s`, `10m`, `2h`, `1d`."""
    found = _SPAN.fullmatch(word) if word.isascii() else None
    if not found or not int(found[1]):
        raise argparse.ArgumentTypeError(f'"{word}" is no length of time: 30s, 10m, 2h')
    return int(found[1]) * _SECONDS[found[2]]
