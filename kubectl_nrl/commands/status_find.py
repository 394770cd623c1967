"""The runs and Ray clusters that `status` is asked about: mine, a recipe's, or the one that a word names.

Objects are found by labels and names, never by a guess: a RayJob's Ray cluster is read from its status.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError, UsageError
from ..labels import CLUSTER, RAY_API, UPSTREAM_OWNER, ownership
from ..rayjob_state import outcome, status_of
from .session import Session

if TYPE_CHECKING:
    from ..config import Config
    from ..runs import ClusterRun

Object = Mapping[str, Any]


def mine(
    session: Session, cluster: Any, namespace: str, *, everywhere: bool, everybody: bool, quiet: bool = False
) -> list[Object]:
    """RayJobs and long-lived RayClusters, newest first: mine (this tool's and upstream's), or everybody's."""
    selector = "" if everybody else f"{UPSTREAM_OWNER}={session.user.name}"
    return _list(session, cluster, namespace, selector, everywhere=everywhere, everybody=everybody, quiet=quiet)


def of_recipe(
    session: Session,
    cluster: Any,
    namespace: str,
    config: Config,
    *,
    everywhere: bool,
    everybody: bool,
    quiet: bool = False,
) -> list[Object]:
    """RayJobs and long-lived RayClusters that were made from a recipe and infra file of these names, newest first.

    Among them are the clusters that it attaches, whoever made them.
    """
    from ..manifests.names import label_value
    from ..plan.roles import role_name

    run = session.new_run()
    name = label_value(role_name(config, "training", run))
    selector = f"{CLUSTER}={name}" + ("" if everybody else f",{UPSTREAM_OWNER}={session.user.name}")
    found = _list(session, cluster, namespace, selector, everywhere=everywhere, everybody=everybody, quiet=quiet)
    attached = (config.infra.get("launch") or {}).get("attach") or {}
    if not attached or everywhere:
        return found
    known = {obj["metadata"]["uid"] for obj in found}
    # Without a training cluster of its own, what it made bears no recipe's name.
    own = [role_name(config, role, run) for role in config.infra.get("kuberay") or {}]
    theirs = [str(name) for name in attached.values() if name]
    for cluster_name in dict.fromkeys([*own, *theirs]):
        live = cluster.get(RAY_API, "RayCluster", cluster_name, namespace)
        if live is None or live["metadata"]["uid"] in known:
            continue
        if cluster_name in theirs or everybody or ownership(live, session.user).mine:
            found.append({"apiVersion": RAY_API, "kind": "RayCluster", **live})
    return sorted(found, key=_created, reverse=True)


def infra_namespace(config: Config) -> str:
    """The namespace that the infra file names; empty when it names none."""
    return str(config.infra.get("namespace") or "")


def by_name(cluster: Any, namespace: str, word: str) -> Object:
    """See `named`: the object alone."""
    return named(cluster, namespace, word)[0]


def named(cluster: Any, namespace: str, word: str) -> tuple[Object, ClusterRun | None]:
    """The RayJob (by run id or name) or RayCluster (by name, or by the id of a run on it: that one too) that `word` names.

    Raises `UsageError` for none, and for a name that is both; `ClusterError` for a run whose RayCluster is gone.
    """
    from ..runs import RunRecord, find, find_cluster_run
    from .job_record import Forgotten

    found = find(cluster, namespace, word)
    if found is not None:
        return (found.rayjob if isinstance(found, RunRecord) else found.raycluster), None
    kind, slash, name = word.rpartition("/")
    recorded = None if slash else find_cluster_run(cluster, namespace, word)
    if recorded is not None:
        live = cluster.get(RAY_API, "RayCluster", recorded.ray_cluster, namespace)
        if live is None or live["metadata"]["uid"] != recorded.ray_cluster_uid:
            raise Forgotten(recorded, f"raycluster/{recorded.ray_cluster} of run {word} is gone")
        return {"apiVersion": RAY_API, "kind": "RayCluster", **live}, recorded
    what = f'{"RayCluster" if kind.startswith("raycluster") else "RayJob"} "{name}"'
    if not slash:
        what = f'run, RayJob or RayCluster "{word}"'
    here = "" if slash else ", and none on this machine"
    raise UsageError(f'no {what} in namespace "{namespace}"{here}', "kubectl nrl runs -A")


def unfinished(objects: Sequence[Object]) -> list[Object]:
    """Those that are not over; a RayCluster never is."""
    return [obj for obj in objects if obj["kind"] != "RayJob" or outcome(status_of(obj)) is None]


def _list(
    session: Session, cluster: Any, namespace: str, selector: str, *, everywhere: bool, everybody: bool, quiet: bool
) -> list[Object]:
    from ..cluster.side_by_side import side_by_side

    words = {"label_selector": selector, "all_namespaces": everywhere}
    jobs, clusters = side_by_side(
        [
            lambda: cluster.list(RAY_API, "RayJob", namespace, **words),
            lambda: _ray_clusters(cluster, namespace, words, lambda text: None if quiet else session.output.note(text)),
        ]
    )
    found = [*jobs, *(c for c in clusters if not _made_for_a_job(c))]
    if not everybody:
        found = [obj for obj in found if ownership(obj, session.user).mine]
    return sorted(found, key=_created, reverse=True)


def _created(obj: Object) -> str:
    return str(obj["metadata"].get("creationTimestamp") or "")


def _ray_clusters(
    cluster: Any, namespace: str, words: Mapping[str, Any], note: Callable[[str], None]
) -> Sequence[Object]:
    """Who may see RayJobs alone still gets those, and a note."""
    try:
        found: Sequence[Object] = cluster.list(RAY_API, "RayCluster", namespace, **words)
    except ClusterError as error:
        if error.status != 403:
            raise
        note("runs only: Ray clusters may not be listed with these permissions")
        return ()
    return found


def _made_for_a_job(raycluster: Object) -> bool:
    return any(ref.get("kind") == "RayJob" for ref in raycluster["metadata"].get("ownerReferences") or ())
