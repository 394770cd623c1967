"""`kubectl nrl clean`: what my runs left behind, on a cluster and on this machine; listed, asked about, removed."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import ClusterError, ExitCode, UsageError
from .clean_result import Cleaned, listing
from .connecting import agree, can_ask, paste
from .session import Session

if TYPE_CHECKING:
    from ..local import Leftover as LocalLeftover
    from ..runs import Leftover
    from .clean_cluster import ClusterLitter, Swept

EXAMPLES = """
kubectl nrl clean
kubectl nrl clean --dry-run
kubectl nrl clean --yes -n rl
kubectl nrl clean rayjob/grpo-a1b2c3 -n rl
kubectl nrl clean --local
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="only these: run ids, or objects as KIND/NAME")
    add("-A", "--all-namespaces", action="store_true", help="look in every namespace")
    add("--local", action="store_true", help="this machine only")
    add("--dry-run", action="store_true", help="list, remove nothing")
    add("--yes", action="store_true", help="answer yes to questions")
    add("--force", action="store_true", help="with NAME: also what belongs to somebody else")


def handle(args: argparse.Namespace, session: Session) -> ExitCode:
    from .. import local

    if args.local and (args.names or args.all_namespaces):
        raise UsageError("--local is for this machine, which has no namespaces and no names", "leave out --local")
    if "" in args.names:  # a variable of a script that is not set; it must not mean what has no run
        raise UsageError("an empty NAME names nothing", "kubectl nrl clean --dry-run")
    if args.force and not args.names:
        raise UsageError("--force needs the NAME of what to remove", "kubectl nrl clean NAME --force")
    here = [] if args.names else local.leftovers(session.env)
    there = None if args.local else _there(args, session, here)
    _list(session, here, there, dry_run=args.dry_run)
    if args.dry_run:
        session.output.result(Cleaned(here, (), there, dry_run=True))
        return ExitCode.OK
    removable = [left for left in there.found if left.action != "look"] if there else []
    here_too, chosen = _agreed(args, session, here, removable)
    stubborn = sorted({pid for left in here_too for pid in local.clear(left)})
    swept = there.sweep(chosen) if there else None
    session.output.result(Cleaned(here_too, stubborn, there, swept))
    untouched = [left for left in here if left not in here_too]
    _say_left(session, untouched, swept, [left for left in removable if left not in chosen])
    return ExitCode.FAILED if stubborn or (swept and swept.left) else ExitCode.OK


def _there(args: argparse.Namespace, session: Session, here: Sequence[LocalLeftover]) -> ClusterLitter | None:
    """The cluster's litter; None, with a note, where there is no cluster and none was asked for."""
    from .clean_cluster import ClusterLitter

    try:
        return ClusterLitter(session, all_namespaces=args.all_namespaces, names=args.names, force=args.force)
    except ClusterError as error:
        asked = session.namespace or session.context or session.kubeconfig or args.all_namespaces or args.names
        if asked or (error.reason != "NoConfig" and not here):
            raise
        if error.reason != "NoConfig":
            session.output.note(f"this machine only: {error.message}")
        return None


def _list(session: Session, here: Sequence[LocalLeftover], there: ClusterLitter | None, *, dry_run: bool) -> None:
    """What was found, before the question; a dry run's listing is its result."""
    output = session.output
    if there is not None:
        if there.seen.unseen:
            output.warn("; ".join(there.seen.unseen))
        if session.namespace is None and not there.all_namespaces:
            output.note(f'namespace "{there.namespace}" (from the kubeconfig context; -n or -A for others)')
    if not dry_run:
        for line in listing(here, there):
            output.plain(line)
    for left in there.found if there else ():
        if left.action == "look":
            output.warn(f"{left.words} cannot be cleaned: {left.why}")
            output.hint(f"kubectl get {left.kind.lower()} {left.name} -n {left.namespace} -o yaml")


def _agreed(
    args: argparse.Namespace, session: Session, here: Sequence[LocalLeftover], removable: Sequence[Leftover]
) -> tuple[Sequence[LocalLeftover], Sequence[Leftover]]:
    """What may be removed: all of it when a person says so; my idle objects alone where nobody can be asked."""
    if not here and not removable:
        return here, removable
    idle = [left for left in removable if left.owner.mine and not left.busy]
    if idle and not args.yes and not can_ask():
        return (), idle
    agree(session, _question(here, removable), yes=args.yes)
    return here, removable


def _question(here: Sequence[LocalLeftover], removable: Sequence[Leftover]) -> str:
    """What is asked; what makes it a question elsewhere than on a terminal comes first."""
    busy = [f"{left.words} may still run" for left in removable if left.busy]
    foreign = [f"{left.words} belongs to {left.owner.words}" for left in removable if not left.owner.mine]
    released = sum(left.action == "release" for left in removable)
    deleted = len(removable) - released
    deeds = [f"end and remove what is left of {_count(len(here), 'run')} on this machine"] if here else []
    deeds += [f"release {_count(released, 'run')}"] if released else []
    deeds += [f"delete {_count(deleted, 'object')}"] if deleted else []
    return "; ".join([", ".join(busy + foreign), ", ".join(deeds)][not (busy or foreign) :]) + "?"


def _say_left(
    session: Session, here: Sequence[LocalLeftover], swept: Swept | None, unasked: Sequence[Leftover]
) -> None:
    """What stays: what could not be removed, and what needs a yes that nobody was there to give."""
    output = session.output
    for left, why in swept.left if swept else ():
        output.warn(f"{left.words} was left: {why}")
    for left in unasked:
        why = "it may still run" if left.busy else f"it belongs to {left.owner.words}"
        output.warn(f"{left.words} was left: {why}")
        output.hint(paste(session, left.namespace, "clean", left.words, "--yes"))
    if here:
        output.warn(f"what is left of {_count(len(here), 'run')} on this machine was not touched")
        output.hint("kubectl nrl clean --local --yes")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
