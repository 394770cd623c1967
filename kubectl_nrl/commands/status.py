"""`kubectl nrl status`: what runs, what it waits for, what it holds: on the cluster, and on this machine."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import ClusterError, ConfigError, ExitCode, UsageError
from ..parser import PROG, recipe_and_overrides
from .connecting import namespace_of, open_cluster, paste
from .local_list import LocalList
from .session import Session

if TYPE_CHECKING:
    from ..cluster import Cluster
    from ..config import Config
    from ..local import LocalRecord
    from .status_item import Item
    from .status_screen import Status

EXAMPLES = """
kubectl nrl status
kubectl nrl status 20261130-120000-abcd
kubectl nrl status rayjob/grpo-a -w
kubectl nrl status raycluster/gym -n rl -o json
kubectl nrl status recipe.yaml --infra infra.yaml
kubectl nrl status -A --all-users
"""

_PROG = f"{PROG} status"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        metavar="ID|NAME|RECIPE [OVERRIDES]",
        nargs="*",
        help="a run by its id, a RayJob or RayCluster by its name (rayjob/NAME, raycluster/NAME), or what came of a recipe; "
        "default: all of mine that is not over or still holds GPUs",
    )
    parser.add_argument("--infra", metavar="FILE", help="the infra file of RECIPE (not needed when it holds `infra:`)")
    parser.add_argument("-w", "--watch", action="store_true", help="go on showing it; one run: to its end")
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="of every namespace")
    parser.add_argument("--all-users", action="store_true", help="everybody's")


def handle(args: argparse.Namespace, session: Session) -> ExitCode | int:
    question = ask(args, session)
    if args.watch:
        from .status_watch import watch

        return watch(question, session)
    status = look(question, session)
    session.output.result(status)
    say_what_to_do(session, status)
    return ExitCode.OK


@dataclass(frozen=True)
class Question:
    """What is asked for: `word` is a name, else `recipe` a file (with `config`, None where it has no infra file), else mine."""

    word: str
    recipe: str
    config: Config | None
    everywhere: bool
    everybody: bool
    local_only: bool = False

    @property
    def words(self) -> str:
        return self.word or self.recipe


def ask(args: argparse.Namespace, session: Session) -> Question:
    """Read the command line and a recipe's files. Raises `UsageError` and `ConfigError`."""
    from .targets import is_recipe

    word, overrides = recipe_and_overrides(args.words, _PROG)
    recipe = word is not None and is_recipe(session, word)
    if (overrides or args.infra) and not recipe:
        what = "overrides" if overrides else "--infra"
        raise UsageError(f"{what} without a recipe", f"{_PROG} recipe.yaml --infra infra.yaml")
    if word and not recipe and (args.all_namespaces or args.all_users):
        raise UsageError("-A and --all-users are for lists, and a name asks for one", f"{_PROG} {word}")
    if word is None or not recipe:
        return Question(word or "", "", None, args.all_namespaces, args.all_users)
    config, local_only = _config(args, session, word)
    return Question("", word, config, args.all_namespaces, args.all_users, local_only)


def _config(args: argparse.Namespace, session: Session, recipe: str) -> tuple[Config | None, bool]:
    """The recipe's files, and whether they are for this machine only. Without an infra file its runs here are found still."""
    from ..plan import is_local
    from .planning import load_config, plan_options

    there = os.path.isfile(session.cwd / recipe)
    try:
        config = load_config(args, session, _PROG)
    except (UsageError, ConfigError) as error:
        # No infra file, or a recipe that is gone: what it left on this machine is known all the same.
        if args.infra is None and _here(session, "", recipe) and (isinstance(error, UsageError) or not there):
            return None, True
        raise
    return config, is_local(config, plan_options(args, session))


def look(question: Question, session: Session, *, over: bool = False, quiet: bool = False) -> Status:
    """What there is now; with `over` what is over and holds nothing as well, with `quiet` without a note on where was looked.

    Raises `ClusterError`, and `UsageError` for a name that nothing has.
    """
    from .status_screen import Status

    here = _here(session, question.word, question.recipe)
    items: list[Item] = []
    place = ""
    if not (
        question.local_only or (question.word and any(r.id == question.word and r.form != "cluster" for r in here))
    ):
        items, place = _there(question, session, here, over=over, quiet=quiet)
    counts = {r.id: _processes(r) for r in here if not r.torn_down}
    listed = LocalList(here, session.clock(), "nothing runs on this machine", counts, bool(question.word))
    return Status(
        items, listed, session.now(), place, bool(question.words), question.everywhere, question.everybody,
        session.output.columns(),
    )  # fmt: skip


def _there(
    question: Question, session: Session, here: Sequence[LocalRecord], *, over: bool, quiet: bool
) -> tuple[list[Item], str]:
    """The cluster's answer and where it was asked; nothing, with a note, where there is no cluster to ask and that is no fault."""
    flags = session.namespace or session.context or session.kubeconfig or question.everywhere or question.everybody
    try:
        return _ask_cluster(question, session, open_cluster(session), over=over, quiet=quiet)
    except ClusterError as error:
        if flags or (error.reason != "NoConfig" and not here) or (question.recipe and not here):
            raise
        if question.word and not here:
            raise UsageError(
                f'no run or cluster "{question.word}" on this machine, and no cluster is configured', "kubectl nrl runs"
            ) from error
        session.output.note(f"this machine only: {error.message}")
        return [], ""
    except UsageError:
        if here:
            return [], ""
        raise


def _ask_cluster(
    question: Question, session: Session, cluster: Cluster, *, over: bool, quiet: bool
) -> tuple[list[Item], str]:
    from . import status_find as find
    from . import status_read as read
    from .status_daemons import with_jobs

    written = find.infra_namespace(question.config) if question.config is not None else ""
    namespace = session.namespace or written or namespace_of(session, cluster)
    everywhere = {"everywhere": question.everywhere}
    if question.word:
        obj, run = find.named(cluster, namespace, question.word)
        named = read.alone(session, cluster, obj)
        if run is not None:
            named = read.with_run(session, cluster, named, run)
        return with_jobs(session, cluster, [named]), namespace
    if session.namespace is None and not question.everywhere and not quiet:
        source = "infra file" if written else "kubeconfig context"
        session.output.note(f'namespace "{namespace}" (from the {source}; -n or -A for others)')
    whose = {**everywhere, "everybody": question.everybody, "quiet": quiet}
    if question.config is not None:
        found = find.of_recipe(session, cluster, namespace, question.config, **whose)
        items = with_jobs(session, cluster, read.several(session, cluster, namespace, found, **everywhere))
    else:
        found = find.mine(session, cluster, namespace, **whose)
        items = read.several(session, cluster, namespace, found, **everywhere)
        items = [item for item in items if over or not item.final or item.gpus]
    return items, "any namespace" if question.everywhere else f'namespace "{namespace}"'


def _here(session: Session, word: str, recipe: str) -> list[LocalRecord]:
    """This machine's: those of a name or a recipe, else all that is not over."""
    from ..run_directory import any_local

    if not any_local(session.env):
        return []
    from .. import local

    if word:
        named = (local.find_cluster(word, session.env), local.find(word, session.env))
        return [found for found in named if found is not None]
    found = [*local.clusters(session.env), *local.runs(session.env)]
    if recipe:
        path = str((session.cwd / recipe).resolve())
        return [record for record in found if record.recipe == path]
    return [record for record in found if not (record.final and record.torn_down)]


def _processes(record: LocalRecord) -> int:
    from ..local import processes, sessions

    return len(processes.of_run(str(record.folder), sessions.owned(record.session, record.folder)))


def say_what_to_do(session: Session, status: Status) -> None:
    """Name what holds GPUs for nothing, and what was left behind on this machine, each with the command that ends it."""
    from ..run_directory import any_local

    output = session.output
    for item in status.items:
        if item.final and item.run is not None and item.gpus:
            always = ", and nothing will take them from it" if item.stuck else ""
            output.warn(f"run {item.run.id} is over and still holds {item.gpus} GPUs{always}")
            every = f"   # all of mine: {paste(session, item.namespace, 'clean')}" if item.stuck else ""
            output.hint(paste(session, item.namespace, "job", "stop", item.run.id) + every)
    for record in status.here.records:
        if record.orphaned:
            output.warn(f"{record.id}: its supervisor was killed, and nobody ends what it started")
            output.hint("kubectl nrl clean")
    if not (status.asked or status.items or status.here.records or status.place) and any_local(session.env):
        output.note("runs that are over: kubectl nrl runs --local")
