"""`kubectl nrl cluster up` on a Kubernetes cluster: the roles' RayClusters and the Deployments of an infra file, together.

What is there already and as it should be is not written to, so that the command may be repeated and two people may type it at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import ExitCode
from .cluster_checks import answers, refuse_failed, require_room, say
from .cluster_plan import cluster_plan
from .connecting import paste
from .run_launch import refuse_refused, say_namespace
from .session import Session
from .waiting import start_limit

if TYPE_CHECKING:
    from ..apply import Standing
    from ..config import Config
    from ..plan import Plan
    from .daemons import StartedDaemon
    from .long_lived import Came


@dataclass(frozen=True)
class UpResult:
    """What became of each RayCluster and Deployment, and of the daemons on them."""

    namespace: str
    came: Sequence[Came]
    daemons: Sequence[StartedDaemon] = ()

    schema = "cluster_up"

    def text(self) -> str:
        lines = [f"{came.unit.words}: {came.action}{self._state(came)}" for came in self.came]
        return "\n".join([*lines, *(daemon.text for daemon in self.daemons)])

    def _state(self, came: Came) -> str:
        from ..watch import readiness_of

        return f", {readiness_of(came.live).text}" if came.ready or came.action in ("unchanged", "kept") else ""

    def data(self) -> dict[str, Any]:
        return {
            "namespace": self.namespace,
            "objects": [
                {
                    "target": came.unit.target,
                    "kind": came.unit.main.kind,
                    "name": came.unit.main.name,
                    "uid": came.live["metadata"]["uid"],
                    "action": came.action,
                    "ready": came.ready,
                }
                for came in self.came
            ],
            "daemons": [daemon.data() for daemon in self.daemons],
        }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `cluster up` and `cluster down` that belong to a Kubernetes cluster."""
    group = parser.add_argument_group("up and down, on Kubernetes")
    group.add_argument(
        "--target", metavar="TARGET", action="append", default=[],
        help="only kuberay.ROLE or deployments.NAME (repeatable; default: all)",
    )  # fmt: skip
    group.add_argument("--role", action="append", default=[], help=argparse.SUPPRESS)
    group.add_argument("--yes", action="store_true", help="answer yes to questions")
    group.add_argument("--force", action="store_true", help="also what belongs to another owner")
    group.add_argument("--dry-run", action="store_true", help="print what would be made or deleted, and do nothing")


def targets(args: argparse.Namespace) -> list[str]:
    """The targets named; `--role R` is upstream's word for `--target kuberay.R`."""
    return [*args.target, *(f"kuberay.{role}" for role in args.role)]


def plan_for(args: argparse.Namespace, session: Session, config: Config, prog: str) -> tuple[Any, Config, Plan]:
    """The cluster, the config and the long-lived Plan for it. Raises `ConfigError`, and `ClusterError` when it cannot be reached."""
    args.mode = "raycluster"
    return cluster_plan(args, session, session.new_run(), config, prog)


def taking_down(
    args: argparse.Namespace, session: Session, plan: Plan, *, whole: bool = True
) -> Callable[[Sequence[str]], str]:
    """The command that takes units of a Plan down, by their targets; `whole`: the Plan is all that the infra file describes."""
    from ..apply import units_of

    everything = {unit.target for unit in units_of(plan)}
    words = [*args.words, *(["--infra", args.infra] if args.infra else [])]

    def command(made: Sequence[str]) -> str:
        chosen = [] if whole and everything <= set(made) else [word for one in made for word in ("--target", one)]
        return paste(session, plan.namespace, "cluster", "down", *words, *chosen)

    return command


def up(args: argparse.Namespace, session: Session, config: Config, prog: str) -> ExitCode:
    """Bring the targets up. Raises `NrlError`."""
    from .daemons import Daemons
    from .long_lived import LongLived, Wishes, targets_of
    from .uploading import Packages

    cluster, config, plan = plan_for(args, session, config, prog)
    plan = targets_of(plan, targets(args))
    if args.dry_run:
        from .manifest_text import print_plan

        session.output.problems(plan.problems)
        print_plan(session.output, plan)
        return ExitCode.OK
    session.output.problems(plan.problems)
    say_namespace(session, plan)
    if args.start_timeout is not None and not args.wait:
        session.output.warn("--start-timeout has no meaning for clusters that nobody waits for (--no-wait)")
    wishes = Wishes(
        taking_down(args, session, plan, whole=not targets(args)), args.recreate, args.wait, float(args.timeout), args.yes,
        args.force, start_limit(args),
    )  # fmt: skip
    long_lived = LongLived(session, cluster, plan, wishes)
    packages = Packages(session, plan, args.repo_root)
    daemons = Daemons(session, cluster, plan, packages, replace=args.replace, yes=args.yes, force=args.force)
    try:
        start = bool(plan.daemons) and not args.skip_daemons
        if start and not args.wait:
            session.output.warn("--no-wait: no daemon is started, since that takes a cluster that is up")
        elif start:
            daemons.prepare()
        standings = long_lived.look()
        may_be_made(args, session, cluster, config, plan, standings)
        came = long_lived.ensure(standings, daemons if start else None)
    finally:
        packages.close()
    session.output.result(UpResult(plan.namespace, came, [daemons.started[role] for role in sorted(daemons.started)]))
    return ExitCode.OK


def may_be_made(
    args: argparse.Namespace, session: Session, cluster: Any, config: Config, plan: Plan, standings: Sequence[Standing]
) -> None:
    """Ask about what is missing, all at once. Raises `ClusterError`; asks nothing where all is there."""
    from dataclasses import replace

    from ..apply import dry_run
    from ..preflight import blocking

    missing = [j.planned for s in standings for j in s.judgements if j.verdict in ("absent", "going")]
    if not missing and not args.recreate:
        return
    wanted = replace(plan, objects=tuple(missing or plan.objects))
    found = answers(args, session, cluster, config, wanted, room=bool(getattr(args, "require_capacity", False)))
    say(session, found.topics)
    refuse_failed(blocking(found.topics))
    require_room(found.room)
    said = dry_run(wanted, cluster)
    for note in said.notes:
        session.output.note(note)
    refuse_refused(said, plan)
