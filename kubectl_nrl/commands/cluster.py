"""`kubectl nrl cluster`: the Ray clusters there are, and the long-lived ones of this machine."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..errors import ExitCode, UsageError
from ..parser import PROG, recipe_and_overrides
from . import cluster_list
from .local_list import LocalList
from .planning import add_plan_arguments, load_config, load_plan, plan_options, refuse, seconds
from .session import Session

if TYPE_CHECKING:
    from ..local import LocalRecord

EXAMPLES = """
kubectl nrl cluster list
kubectl nrl cluster list -A -o json
kubectl nrl cluster list -n rl -w
kubectl nrl cluster up recipe.yaml --infra local.infra.yaml
kubectl nrl cluster down recipe.yaml --infra local.infra.yaml
kubectl nrl cluster down my-cluster
"""

_ACTIONS = ("list", "up", "down")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action", metavar="list|up|down", choices=_ACTIONS, help="show clusters, start one, or stop one with its jobs"
    )
    add_plan_arguments(parser)
    cluster_list.add_arguments(parser)
    up = parser.add_argument_group("up")
    up.add_argument("--gpus", metavar="N", type=seconds, help="tell Ray that there are N GPUs (default: what it finds)")
    up.add_argument("--wait", action=argparse.BooleanOptionalAction, default=True, help="until it is ready (default)")
    up.add_argument("--skip-daemons", action="store_true", help="do not start the roles' daemons")
    up.add_argument("--recreate", action="store_true", help="stop the one that is up first")


def handle(args: argparse.Namespace, session: Session) -> ExitCode:
    if args.action == "list":
        if args.words:
            raise UsageError(f'unrecognized argument "{args.words[0]}"', f"{PROG} cluster list")
        return cluster_list.show(args, session)
    for name in ("all_namespaces", "watch"):
        if getattr(args, name):
            raise UsageError(f"--{name.replace('_', '-')} belongs to cluster list", f"{PROG} cluster {args.action} ...")
    return _up(args, session) if args.action == "up" else _down(args, session)


def _up(args: argparse.Namespace, session: Session) -> ExitCode:
    from .local_cluster import bring_up

    prog = f"{PROG} cluster up"
    config = load_config(args, session, prog)
    _require_local(args, session, config)
    _, plan = load_plan(args, session, run=session.new_run(), prog=prog, config=config)
    refuse(plan.problems)
    session.output.problems(plan.problems)
    found = bring_up(session, plan, args.gpus, recreate=args.recreate, daemons=not args.skip_daemons, wait=args.wait)
    session.output.result(LocalList([found], session.clock(), ""))
    return ExitCode.OK


def _down(args: argparse.Namespace, session: Session) -> ExitCode:
    from .local_cluster import take_down

    found = _named(args, session)
    take_down(session, found)
    session.output.result(LocalList([], session.clock(), f"cluster {found.id} is down"))
    return ExitCode.OK


def _named(args: argparse.Namespace, session: Session) -> LocalRecord:
    """The cluster of a name, or of a recipe with its infra file. Raises `UsageError` when it is not there."""
    from .. import local

    prog = f"{PROG} cluster down"
    word, _ = recipe_and_overrides(args.words, prog)
    if word is None:
        raise UsageError("a cluster's name, or RECIPE, is missing", f"{PROG} cluster list")
    name = word
    if args.infra is not None or (session.cwd / word).is_file():
        config = load_config(args, session, prog)
        _require_local(args, session, config)
        _, plan = load_plan(args, session, prog=prog, config=config)
        name = plan.roles[0].cluster
    found = local.find_cluster(name, session.env)
    if found is None:
        raise UsageError(f'no cluster "{name}" is up on this machine', f"{PROG} cluster list")
    return found


def _require_local(args: argparse.Namespace, session: Session, config: object) -> None:
    from typing import cast

    from ..config import Config
    from ..plan import is_local

    if not is_local(cast(Config, config), plan_options(args, session)):
        raise UsageError(
            f"cluster {args.action} acts on this machine, and the infra file is for a cluster", "add --local"
        )
