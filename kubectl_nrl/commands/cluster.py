"""`kubectl nrl cluster`: the Ray clusters there are, and the long-lived ones of an infra file up and down."""

from __future__ import annotations

import argparse
import os

from ..errors import ExitCode, UsageError
from ..parser import PROG, recipe_and_overrides
from . import cluster_dashboard, cluster_list, cluster_up
from .local_list import LocalList
from .planning import add_plan_arguments, load_config, load_plan, plan_options, refuse, seconds
from .session import Session
from .waiting import add_start_timeout

EXAMPLES = """
kubectl nrl cluster list
kubectl nrl cluster list -A -o json
kubectl nrl cluster list -n rl -w
kubectl nrl cluster up recipe.yaml --infra infra.yaml
kubectl nrl cluster up recipe.yaml --infra infra.yaml --target kuberay.generation --target deployments.judge
kubectl nrl cluster up recipe.yaml --infra infra.yaml --recreate
kubectl nrl cluster up recipe.yaml --infra infra.yaml --timeout 7200 --start-timeout 300
kubectl nrl cluster down recipe.yaml --infra infra.yaml
kubectl nrl cluster down my-cluster
kubectl nrl cluster dashboard my-cluster
kubectl nrl cluster dashboard recipe.yaml --infra infra.yaml --port 8265 --no-open
"""

_ACTIONS = ("list", "up", "down", "dashboard")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        metavar="list|up|down|dashboard",
        choices=_ACTIONS,
        help="show clusters, start one, stop one with its jobs, or open Ray's dashboard (NAME, RECIPE or a run's ID)",
    )
    add_plan_arguments(parser)
    cluster_list.add_arguments(parser)
    group = parser.add_argument_group("up and down")
    group.add_argument(
        "--wait", action=argparse.BooleanOptionalAction, default=True, help="until it is ready, or gone (default)"
    )
    group.add_argument(
        "--timeout", metavar="SECONDS", type=seconds, default=900, help="give up waiting after this long (900)"
    )
    up = parser.add_argument_group("up")
    up.add_argument("--gpus", metavar="N", type=seconds, help="--local: tell Ray of N GPUs (default: what it finds)")
    up.add_argument("--skip-daemons", action="store_true", help="do not start the roles' daemons")
    up.add_argument("--replace", action="store_true", help="stop daemons that run, and start them anew")
    up.add_argument("--recreate", action="store_true", help="make anew what differs from the infra file")
    add_start_timeout(
        up, start="a cluster from starting", left="what this call made is deleted, so that it holds nothing"
    )
    cluster_up.add_arguments(parser)
    cluster_dashboard.add_arguments(parser)


def handle(args: argparse.Namespace, session: Session) -> ExitCode:
    if args.action != "dashboard":
        cluster_dashboard.refuse_flags(args)
    if args.action == "list":
        if args.words:
            raise UsageError(f'unrecognized argument "{args.words[0]}"', f"{PROG} cluster list")
        return cluster_list.show(args, session)
    for name in ("all_namespaces", "watch"):
        if getattr(args, name):
            raise UsageError(f"--{name.replace('_', '-')} belongs to cluster list", f"{PROG} cluster {args.action} ...")
    if args.action == "dashboard":
        return cluster_dashboard.dashboard(args, session)
    return _up(args, session) if args.action == "up" else _down(args, session)


def _up(args: argparse.Namespace, session: Session) -> ExitCode:
    from ..plan import is_local
    from .local_cluster import bring_up

    prog = f"{PROG} cluster up"
    config = load_config(args, session, prog)
    if not is_local(config, plan_options(args, session)):
        _refuse_rayjob(args)
        if args.gpus is not None:
            raise UsageError("--gpus is for a cluster on this machine", "--local, or resources: in the infra file")
        return cluster_up.up(args, session, config, prog)
    _refuse_kubernetes(args)
    _, plan = load_plan(args, session, run=session.new_run(), prog=prog, config=config)
    refuse(plan.problems)
    session.output.problems(plan.problems)
    if args.replace:
        session.output.warn("--replace has no meaning on this machine: --recreate starts Rays and daemons anew")
    found = bring_up(session, plan, args.gpus, recreate=args.recreate, daemons=not args.skip_daemons, wait=args.wait)
    session.output.result(LocalList([found], session.clock(), ""))
    return ExitCode.OK


def _down(args: argparse.Namespace, session: Session) -> ExitCode:
    from .. import local
    from ..plan import is_local
    from . import cluster_down
    from .local_cluster import take_down

    prog = f"{PROG} cluster down"
    word, _ = recipe_and_overrides(args.words, prog)
    if word is None:
        raise UsageError("a cluster's name, or RECIPE, is missing", f"{PROG} cluster list")
    name = word
    if args.infra is not None or word.endswith((".yaml", ".yml")) or os.path.isfile(session.cwd / word):
        config = load_config(args, session, prog)
        if not is_local(config, plan_options(args, session)):
            _refuse_rayjob(args)
            return cluster_down.down(args, session, config, prog)
        _refuse_kubernetes(args)
        _, plan = load_plan(args, session, prog=prog, config=config)
        name = plan.roles[0].cluster
    found = local.find_cluster(name, session.env)
    if found is None and (args.local or name != word):
        raise UsageError(f'no cluster "{name}" is up on this machine', f"{PROG} cluster list")
    if found is None:
        return cluster_down.down_by_name(args, session, word)
    take_down(session, found)
    session.output.result(LocalList([], session.clock(), f"cluster {found.id} is down"))
    return ExitCode.OK


def _refuse_kubernetes(args: argparse.Namespace) -> None:
    if args.start_timeout is not None:
        raise UsageError("--start-timeout is for clusters on Kubernetes", "leave it out")
    for given, flag in ((cluster_up.targets(args), "--target"), (args.dry_run, "--dry-run")):
        if given:
            raise UsageError(
                f"{flag} has no meaning for a cluster on this machine, which comes up whole", "leave it out"
            )


def _refuse_rayjob(args: argparse.Namespace) -> None:
    if args.mode == "rayjob":
        raise UsageError("--rayjob makes no long-lived cluster", "leave it out")
