"""`kubectl nrl run`: a recipe becomes a RayJob, a run on long-lived clusters or one on this machine, followed to its end.

Nothing is sent before the whole Plan stands, has been asked about, and its name is free: what fails later takes back what this
call made.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError, ExitCode, UsageError
from ..output import json_text
from ..parser import PROG
from .cluster_plan import cluster_plan
from .connecting import open_cluster
from .planning import (
    add_launch_arguments,
    add_plan_arguments,
    load_config,
    load_plan,
    plan_options,
    refuse,
    seconds,
)
from .session import Session
from .waiting import add_start_timeout

if TYPE_CHECKING:
    from ..api import RunInfo
    from ..config import Config
    from ..plan import Plan

EXAMPLES = """
kubectl nrl run recipe.yaml --infra infra.yaml
kubectl nrl run recipe.yaml --infra infra.yaml grpo.max_num_steps=10 infra.image=registry.example/nemo-rl:v0.7.0
kubectl nrl run recipe.yaml --infra infra.yaml --dry-run
kubectl nrl run recipe.yaml --infra infra.yaml --dry-run=server
kubectl nrl run recipe.yaml --infra infra.yaml --no-wait
kubectl nrl run recipe.yaml --infra infra.yaml --require-capacity
kubectl nrl run recipe.yaml --infra infra.yaml --raycluster --replace
kubectl nrl run recipe.yaml --infra infra.yaml --raycluster --mode batch
kubectl nrl run recipe.yaml --infra local.infra.yaml --local
"""

_PROG = f"{PROG} run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_plan_arguments(parser)
    add_launch_arguments(parser)
    group = parser.add_argument_group("how it is run")
    add = group.add_argument
    add("--run-id", metavar="ID", help="the run's id (default: date, time and four characters)")
    add("--timeout", metavar="SECONDS", type=seconds, default=86400, help="give up waiting after this long (86400)")
    add_start_timeout(group, start="the driver from starting", left="the run is deleted, so that it holds nothing")
    add(
        "--replace", action="store_true",
        help="delete a run of mine that has this RayJob's name, or stop what runs on the long-lived cluster, then run",
    )  # fmt: skip
    add("--yes", action="store_true", help="answer yes to questions")
    add("--require-capacity", action="store_true", help="refuse (exit 3) unless all of it can start now")
    add("--recreate", action="store_true", help="make long-lived clusters anew that differ from the infra file")
    add("--force", action="store_true", help="with --recreate: also clusters of another owner")
    add("--skip-daemons", action="store_true", help="for long-lived clusters; no meaning for a RayJob")
    add(
        "--gpus",
        metavar="N",
        type=seconds,
        help="with --local: tell Ray that there are N GPUs (default: what it finds)",
    )
    dry = parser.add_mutually_exclusive_group()
    dry.add_argument(
        "--dry-run", dest="dry_run", action="store_const", const="client", help="print the objects, send nothing"
    )
    # A literal option, since `nargs="?"` would swallow the recipe; argparse looks for the whole word first.
    dry.add_argument(
        "--dry-run=server",
        dest="dry_run",
        action="store_const",
        const="server",
        help="have the API server check every object strictly, create nothing",
    )


def handle(args: argparse.Namespace, session: Session) -> ExitCode | int:
    from ..plan import is_local

    run = session.new_run(args.run_id)
    config = load_config(args, session, _PROG)
    if is_local(config, plan_options(args, session)):
        if args.require_capacity:
            raise UsageError("--require-capacity asks a cluster, and this run is on this machine", "leave it out")
        from .run_local import run_local

        if args.start_timeout is not None:
            raise UsageError("--start-timeout is for a run on a cluster", "leave it out; --timeout bounds a run here")
        return run_local(args, session, run, config, _PROG)
    if args.gpus is not None:
        raise UsageError("--gpus is for a run on this machine", "--local, or resources: in the infra file")
    if args.require_capacity and args.dry_run == "client":
        raise UsageError("--dry-run sends nothing, so what is free cannot be asked", "--dry-run=server")
    if args.dry_run == "client":
        return _print(args, session, run, config)
    from . import run_launch

    cluster, config, plan = _plan(args, session, run, config)
    session.output.problems(plan.problems)
    if plan.kind == "RayJob":
        _warn_meaningless(args, session, plan)
    if args.dry_run == "server":
        return run_launch.ask(args, session, cluster, config, plan)
    if plan.kind == "RayCluster":
        from . import run_raycluster

        return run_raycluster.launch(args, session, cluster, config, plan)
    return run_launch.launch(args, session, cluster, config, plan)


def _plan(args: argparse.Namespace, session: Session, run: RunInfo, config: Config) -> tuple[Any, Config, Plan]:
    """The cluster and the Plan for it."""
    from ..cluster.errors import INSTALL_KUBERAY

    cluster, config, plan = cluster_plan(args, session, run, config, _PROG)
    if not plan.facts.kuberay:
        raise ClusterError(
            f"this cluster has no KubeRay (ray.io/v1 is not served by {cluster.server})",
            INSTALL_KUBERAY,
            reason="NotServed",
        )
    return cluster, config, plan


def _print(args: argparse.Namespace, session: Session, run: RunInfo, config: Config) -> ExitCode:
    from .manifest_text import plan_list, plan_yaml

    _, plan = load_plan(
        args, session, run=run, context_namespace=_context_namespace(session), prog=_PROG, config=config
    )
    refuse(plan.problems)
    session.output.problems(plan.problems)
    if session.output.format == "json":
        session.output.line(json_text(plan_list(plan)))
    else:
        session.output.line(plan_yaml(plan))
    return ExitCode.OK


def _context_namespace(session: Session) -> str | None:
    """The context's namespace where there is a context: a dry run prints what a run would send."""
    try:
        return open_cluster(session).namespace
    except ClusterError:
        return None


def _warn_meaningless(args: argparse.Namespace, session: Session, plan: Plan) -> None:
    from .uploading import uploads

    if args.start_timeout is not None and not plan.wait and not uploads(session, plan):
        session.output.warn("--start-timeout has no meaning for a run that nobody waits for (--no-wait)")
    for flag in ("recreate", "skip_daemons"):
        if getattr(args, flag):
            session.output.warn(f"--{flag.replace('_', '-')} has no meaning for a RayJob, which is always new")
