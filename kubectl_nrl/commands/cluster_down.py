"""`kubectl nrl cluster down` on a Kubernetes cluster: deletes what `cluster up` made, and says honestly what was not there."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError, ExitCode, UsageError
from ..labels import RAY_API
from .cluster_guard import Goer, goer, guard, say_interrupted
from .cluster_up import plan_for, targets
from .connecting import namespace_of, open_cluster, paste
from .going_panel import going_panel
from .run_launch import say_namespace
from .session import Session

if TYPE_CHECKING:
    from ..apply import Doomed
    from ..config import Config
    from ..plan import Plan


@dataclass(frozen=True)
class DownResult:
    """`deleted` and `absent` are words such as `raycluster/x`; `waited`: objects and pods are gone, else deletion was asked for.

    `would` is what would go (a dry run), `would_rest` what is left of such without its RayCluster or Deployment.
    """

    namespace: str
    deleted: Sequence[str]
    absent: Sequence[str]
    waited: bool
    would: Sequence[Goer] = ()
    would_rest: Sequence[str] = ()

    schema = "cluster_down"

    def text(self) -> str:
        word = "deleted" if self.waited else "being deleted"
        lines = [f"{name}: {word}" for name in self.deleted]
        lines += [f"{found.line}; would be deleted" for found in self.would]
        lines += [f"{name}: would be deleted" for name in self.would_rest]
        return "\n".join([*lines, *(f"{name}: did not exist" for name in self.absent)]) or "nothing to delete"

    def data(self) -> dict[str, Any]:
        return {
            "namespace": self.namespace,
            "deleted": list(self.deleted),
            "absent": list(self.absent),
            "waited": self.waited,
            "wouldDelete": [*(found.data() for found in self.would), *({"name": name} for name in self.would_rest)],
        }


def down(args: argparse.Namespace, session: Session, config: Config, prog: str) -> ExitCode:
    """Delete what a recipe's infra file describes. Raises `NrlError`."""
    from ..apply import look, units_of
    from .long_lived import doomed, drift_ignores, targets_of

    cluster, _, plan = plan_for(args, session, config, prog)
    plan = targets_of(plan, targets(args))
    say_namespace(session, plan)
    standings = look(units_of(plan), plan.namespace, cluster, plan.run.user, drift_ignores(session, plan))
    going = [item for s in standings if (item := doomed(s)).objects]
    absent = [s.unit.words for s in standings if s.main.live is None]
    code = _delete(args, session, cluster, plan.namespace, going, absent)
    if not args.dry_run:
        _end_rendezvous(session, cluster, plan)
    return code


def _end_rendezvous(session: Session, cluster: Any, plan: Plan) -> None:
    """Remove where the roles left their URLs, once none of the clusters that take part is there."""
    from .daemons import rendezvous_of

    for job_id in sorted({daemon.rendezvous for daemon in plan.daemons} - {""}):
        roles = {daemon.role for daemon in plan.daemons if daemon.rendezvous == job_id}
        names = [role.cluster for role in plan.roles if role.name in roles]
        found = [cluster.get(RAY_API, "RayCluster", name, plan.namespace) for name in names]
        if any(live is not None and not live["metadata"].get("deletionTimestamp") for live in found):
            continue
        rendezvous = rendezvous_of(cluster, plan, job_id)
        try:
            if rendezvous.remove():
                session.output.progress(f"configmap/{rendezvous.name} of its daemons: deleted")
        except ClusterError as error:
            session.output.warn(f"configmap/{rendezvous.name} of its daemons stays: {error.message}")


def down_by_name(args: argparse.Namespace, session: Session, word: str) -> ExitCode:
    """Delete one RayCluster by its name, with all that it owns. Raises `UsageError` when it is not there, or a RayJob's."""
    from ..apply import Doomed

    if targets(args):
        raise UsageError("--target chooses among what a recipe's infra file describes", "cluster down RECIPE --infra F")
    try:
        cluster = open_cluster(session)
    except ClusterError as error:
        raise UsageError(f'no cluster "{word}" is up on this machine; {error.message}', error.hint) from error
    namespace = namespace_of(session, cluster)
    live = cluster.get(RAY_API, "RayCluster", _name(session, namespace, word), namespace)
    if live is None:
        raise UsageError(f'no RayCluster "{word}" in namespace "{namespace}"', "kubectl nrl cluster list -A")
    for ref in live["metadata"].get("ownerReferences") or ():
        if ref.get("kind") == "RayJob":
            raise UsageError(
                f'RayCluster "{word}" belongs to rayjob/{ref["name"]}, which would make it anew or lose its run',
                paste(session, namespace, "job", "stop", f"rayjob/{ref['name']}"),
            )
        if ref.get("controller"):
            owner = f"{str(ref.get('kind')).lower()}/{ref.get('name')}"
            raise UsageError(
                f'RayCluster "{word}" belongs to {owner}, which would make it anew',
                f"kubectl delete {owner.replace('/', ' ')} -n {namespace}   # if it is not needed any more",
            )
    return _delete(
        args, session, cluster, namespace, [Doomed({"apiVersion": RAY_API, "kind": "RayCluster", **live})], []
    )


def _name(session: Session, namespace: str, word: str) -> str:
    kind, slash, name = word.rpartition("/")
    if not slash or kind in ("raycluster", "rayclusters", "raycluster.ray.io", "rayclusters.ray.io"):
        return name
    if kind in ("rayjob", "rayjobs", "rayjob.ray.io", "rayjobs.ray.io"):
        raise UsageError(f'"{word}" is a run, not a cluster', paste(session, namespace, "job", "stop", word))
    raise UsageError(f'"{word}" is no RayCluster and no file', "kubectl nrl cluster list")


def _delete(
    args: argparse.Namespace, session: Session, cluster: Any, namespace: str, going: Sequence[Doomed], absent: Sequence[str]
) -> ExitCode:  # fmt: skip
    from ..apply import TakenDown, take_down, words_of

    mains: list[tuple[Mapping[str, Any], str]] = [(d.main, d.pod_selector) for d in going if d.main is not None]
    goers = [goer(session, cluster, live, selector) for live, selector in mains]
    if args.dry_run:
        rest = [words_of(obj) for d in going if d.main is None for obj in d.rest]
        session.output.result(DownResult(namespace, [], absent, False, goers, rest))
        return ExitCode.OK
    guard(session, goers, namespace, yes=args.yes, force=args.force)
    within = float(args.timeout) if args.wait else None
    done = TakenDown()
    try:
        with going_panel(session) as panel:
            take_down(cluster, going, within=within, say=session.output.progress, view=panel.view, done=done)
    except KeyboardInterrupt:
        say_interrupted(session, done, [words_of(obj) for d in going for obj in d.objects], namespace)
        raise
    for live, _ in mains:
        session.manager.observe(
            {"event": "torn-down", "kind": live["kind"], "name": live["metadata"]["name"], "namespace": namespace}
        )
    shown = {words_of(live) for live, _ in mains} | {words_of(obj) for d in going if d.main is None for obj in d.rest}
    deleted = [word for word in done.deleted if word in shown]
    session.output.result(DownResult(namespace, deleted, [*absent, *done.gone_before], args.wait))
    return ExitCode.OK
