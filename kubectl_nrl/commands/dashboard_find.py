"""Which Ray cluster the words of `cluster dashboard` name: a cluster, a run, or what a recipe brought up, here or on Kubernetes."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError, UsageError
from ..parser import PROG, recipe_and_overrides
from .connecting import RAY_API, namespace_of, open_cluster
from .dashboard_target import OnKubernetes, OnThisMachine, Target, gone
from .planning import load_config, load_plan, plan_options
from .session import Session

if TYPE_CHECKING:
    from ..config import Config
    from ..local import LocalRecord
    from ..runs import RunRecord

_PROG = f"{PROG} cluster dashboard"
_RAYCLUSTER = ("raycluster", "rayclusters", "raycluster.ray.io", "rayclusters.ray.io")
_OBJECT_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")

Find = Callable[[], Mapping[str, Any]]


def find_target(args: argparse.Namespace, session: Session, role: str) -> tuple[Target, int]:
    """The Ray cluster, and the local port that a recipe's infra file asks for (0: none). Raises `UsageError`, `ClusterError`."""
    from .. import local

    word, overrides = recipe_and_overrides(args.words, _PROG)
    if word is None:
        raise UsageError("a cluster's or run's name, or RECIPE, is missing", f"{_PROG} NAME")
    path = session.cwd / word
    is_recipe = word.endswith((".yaml", ".yml")) or path.is_file()
    if not is_recipe and (overrides or args.infra is not None):
        raise UsageError(f'"{word}" is no recipe, and there is no RECIPE for the rest', f"{_PROG} {word}")
    if is_recipe and args.infra is None and (here := local.newest_of_recipe(path, session.env)) and here.alive:
        return _here(session, here, role), 0
    if is_recipe:
        return _of_recipe(args, session, word, role)
    here = local.find(word, session.env) or local.find_cluster(word, session.env)
    if here is not None or args.local:
        return _here(session, here, role, word), 0
    return _named(session, word), 0


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


def _of_recipe(args: argparse.Namespace, session: Session, word: str, role: str) -> tuple[Target, int]:
    from .. import local
    from ..plan import is_local

    # As a long-lived Plan: its Ray clusters bear the names that a RayJob's are derived from.
    planned = argparse.Namespace(**{**vars(args), "mode": "raycluster"})
    config = load_config(planned, session, _PROG)
    port = _written_port(config)
    if is_local(config, plan_options(planned, session)):
        _, plan = load_plan(planned, session, prog=_PROG, config=config)
        run = local.newest_of_recipe(session.cwd / word, session.env)
        found = local.find_cluster(plan.roles[0].cluster, session.env)
        return _here(session, found if found or not run or not run.alive else run, role, plan.roles[0].cluster), port
    cluster = open_cluster(session)
    _, plan = load_plan(planned, session, context_namespace=cluster.namespace, prog=_PROG, config=config)
    names = {**plan.attached, **{item.name: item.cluster for item in plan.roles}}
    if role not in names:
        raise UsageError(f'the infra file has no role "{role}"', f"it has: {', '.join(names)}")
    return _by_recipe(session, cluster, plan.namespace, names[role]), port


def _written_port(config: Config) -> int:
    """`submit.localDashboardPort`, which acts only when somebody wrote it."""
    written = config.user_wrote("submit.localDashboardPort")
    return int((config.infra.get("submit") or {}).get("localDashboardPort") or 0) if written else 0


def _by_recipe(session: Session, cluster: Any, namespace: str, name: str) -> Target:
    """The long-lived cluster of that name, else my newest RayJob that was made for it."""
    from ..labels import CLUSTER, OWNER, ownership
    from ..manifests.names import label_value
    from ..runs import RunRecord

    if cluster.get(RAY_API, "RayCluster", name, namespace) is not None:
        return _cluster(session, cluster, namespace, name)
    selector = f"{CLUSTER}={label_value(name)},{OWNER}={session.user.name}"
    jobs = [
        job
        for job in cluster.list(RAY_API, "RayJob", namespace, label_selector=selector)
        if ownership(job, session.user).mine
    ]
    if not jobs:
        raise UsageError(
            f'no RayCluster "{name}" and no RayJob of mine for it in namespace "{namespace}"', f"{PROG} cluster list"
        )
    newest = max(jobs, key=lambda job: str(job["metadata"].get("creationTimestamp") or ""))
    return _rayjob(session, cluster, namespace, RunRecord(newest))


def _named(session: Session, word: str) -> Target:
    """A RayCluster's name, a RayJob's name or a run's id. Raises `UsageError` for none of them, and for two."""
    from ..runs import find_cluster_run, find_run

    cluster = open_cluster(session)
    namespace = namespace_of(session, cluster)
    kind, slash, name = word.rpartition("/")
    if (not slash or kind in _RAYCLUSTER) and _OBJECT_NAME.fullmatch(name):
        if cluster.get(RAY_API, "RayCluster", name, namespace) is not None:
            if not slash and cluster.get(RAY_API, "RayJob", name, namespace) is not None:
                raise UsageError(
                    f'"{name}" is both a RayJob and a RayCluster', f"write rayjob/{name} or raycluster/{name}"
                )
            return _cluster(session, cluster, namespace, name)
        if slash:
            raise UsageError(f'no RayCluster "{name}" in namespace "{namespace}"', f"{PROG} cluster list")
    run = find_run(cluster, namespace, word)
    if run is not None:
        return _rayjob(session, cluster, namespace, run)
    record = None if slash else find_cluster_run(cluster, namespace, word)
    if record is not None:
        return _cluster(session, cluster, namespace, record.ray_cluster)
    raise UsageError(
        f'no RayCluster, RayJob or run "{word}" in namespace "{namespace}", and none on this machine',
        f"{PROG} cluster list",
    )


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
