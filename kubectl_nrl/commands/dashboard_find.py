"""Which Ray cluster the words of `cluster dashboard` name: a cluster, a run, or what a recipe brought up, here or on Kubernetes."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError, UsageError
from ..labels import RAY_API
from ..parser import PROG
from .connecting import namespace_of, open_cluster
from .dashboard_target import OnKubernetes, OnThisMachine, Target, gone
from .planning import load_config
from .session import Session
from .status_find import by_name
from .targets import Words, cluster_of, of_recipe, tell_apart

if TYPE_CHECKING:
    from ..local import LocalRecord
    from ..runs import RunRecord

_PROG = f"{PROG} cluster dashboard"


def find_target(args: argparse.Namespace, session: Session, role: str) -> tuple[Target, int]:
    """The Ray cluster, and the local port that a recipe's infra file asks for (0: none). Raises `UsageError`, `ClusterError`."""
    from .. import local

    words = tell_apart(args.words, session, _PROG)
    if words.recipe is not None and words.name is None:
        return _of_recipe(args, session, words, role)
    if words.name is None or words.recipe is not None or args.infra is not None:
        raise UsageError("one cluster's or run's NAME, or one RECIPE, is wanted", f"{_PROG} NAME")
    here = local.find(words.name, session.env) or local.find_cluster(words.name, session.env)
    if here is not None or args.local:
        return _here(session, here, role, words.name), 0
    cluster = open_cluster(session)
    namespace = namespace_of(session, cluster)
    return _of_object(session, cluster, namespace, by_name(cluster, namespace, words.name)), 0


def _here(session: Session, found: LocalRecord | None, role: str, word: str = "") -> Target:
    """The dashboard of a run or cluster of this machine. Raises `UsageError` when it is not up."""
    from .. import local

    if found is not None and found.form == "job":
        found = local.find_cluster(found.cluster, session.env)
    if found is None or not found.alive:
        name = found.id if found else word
        raise UsageError(f'no Ray of "{name}" is up on this machine', f"{PROG} cluster list")
    if not found.roles:
        raise UsageError(f'the Ray of "{found.id}" is starting', "try again in some seconds")
    if role not in found.roles:
        if role != "training":
            raise UsageError(f'"{found.id}" has no role "{role}"', f"it has: {', '.join(found.roles)}")
        role = next(iter(found.roles))
    return OnThisMachine(found, role)


def _of_recipe(args: argparse.Namespace, session: Session, words: Words, role: str) -> tuple[Target, int]:
    """What a recipe has on this machine, where its infra file says so or none is given; else its long-lived cluster or newest run."""
    from ..runs import runs_of_clusters

    here = _up_here(session, str(words.recipe))
    if args.infra is None and here is not None:
        return _here(session, here, role), 0
    port = _written_port(args, session, words)
    if args.local or of_recipe(args, session, words).local:
        return _here(session, here, role, words.what), port
    cluster = open_cluster(session)
    found = of_recipe(args, session, words, cluster.namespace)
    name = cluster_of(found, role)
    live = cluster.get(RAY_API, "RayCluster", name, found.namespace)
    if live is not None:
        return _of_object(session, cluster, found.namespace, {"kind": "RayCluster", **live}), port
    runs = runs_of_clusters(cluster, found.namespace, [name], session.user)
    if not runs:
        what = f'no RayCluster "{name}" and no RayJob made for it in namespace "{found.namespace}"'
        raise UsageError(what, f"{PROG} cluster list -n {found.namespace}")
    return _rayjob(session, cluster, found.namespace, runs[0]), port


def _up_here(session: Session, recipe: str) -> LocalRecord | None:
    """The newest run or cluster of this machine that was started from the recipe and is up."""
    from .. import local

    wanted = str((session.cwd / recipe).resolve())
    found = [*local.runs(session.env), *local.clusters(session.env)]
    return next((item for item in found if item.recipe == wanted and item.alive), None)


def _written_port(args: argparse.Namespace, session: Session, words: Words) -> int:
    """`submit.localDashboardPort`, which acts only when somebody wrote it."""
    planned = argparse.Namespace(**{**vars(args), "words": [words.recipe, *words.overrides]})
    config = load_config(planned, session, _PROG)
    written = config.user_wrote("submit.localDashboardPort")
    return int((config.infra.get("submit") or {}).get("localDashboardPort") or 0) if written else 0


def _of_object(session: Session, cluster: Any, namespace: str, found: Mapping[str, Any]) -> Target:
    from ..runs import RunRecord

    if found["kind"] == "RayJob":
        return _rayjob(session, cluster, namespace, RunRecord(found))
    return _cluster(session, cluster, namespace, str(found["metadata"]["name"]))


def _cluster(session: Session, cluster: Any, namespace: str, name: str) -> Target:
    words = f"raycluster/{name}"

    def find() -> Mapping[str, Any]:
        live = cluster.get(RAY_API, "RayCluster", name, namespace)
        if live is None:
            raise gone(session, namespace, words)
        return _awake(live)

    return OnKubernetes(session, cluster, namespace, words, find)


def _rayjob(session: Session, cluster: Any, namespace: str, run: RunRecord) -> Target:
    """The cluster that a RayJob's status names: another one after each attempt that failed."""
    from ..runs import RunRecord

    words = f"rayjob/{run.name}"

    def find() -> Mapping[str, Any]:
        job = cluster.get(RAY_API, "RayJob", run.name, namespace)
        if job is None:
            raise gone(session, namespace, words)
        now = RunRecord(job)
        live = cluster.get(RAY_API, "RayCluster", now.ray_cluster, namespace) if now.ray_cluster else None
        if live is not None:
            return _awake(live)
        if now.final:
            raise gone(session, namespace, f"{words} is {now.state}: its Ray cluster", now.id)
        raise ClusterError(f"{words} has no Ray cluster yet ({now.state})", reason="NoHead")

    return OnKubernetes(session, cluster, namespace, words, find)


def _awake(raycluster: Mapping[str, Any]) -> Mapping[str, Any]:
    if (raycluster.get("spec") or {}).get("suspend"):
        raise ClusterError(f"raycluster/{raycluster['metadata']['name']} is suspended", reason="NoHead")
    return raycluster
