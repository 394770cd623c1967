"""From the objects of runs and Ray clusters to the picture of each: what was found is looked at, in as few requests as that takes.

One that was asked for gets every source; of many, only what is read for all of them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from ..labels import RAY_API, RAY_CLUSTER, labels_of
from ..manifests.amounts import ENDED
from ..rayjob_state import status_of
from .connecting import paste
from .run_launch import commands_for
from .run_result import LogFacts
from .session import Session
from .status_item import Item, head_replaced

if TYPE_CHECKING:
    from ..api import Provider
    from ..reasons import Situation
    from ..runs import RunRecord

Object = Mapping[str, Any]

#: Ray clusters that one request may name; more are read as all of the namespace's (a URL has its limits).
SELECTED = 30
#: KubeRay's label on a RayCluster that it made for a RayJob (ray-operator utils/constant.go).
FROM_JOB = "ray.io/originated-from-crd=RayJob"


def alone(session: Session, cluster: Any, obj: Object) -> Item:
    """Everything about one object, with what schedulers and drivers say of it. Raises `ClusterError` for an outage."""
    from .. import reasons

    namespace = str(obj["metadata"]["namespace"])
    job = obj["kind"] == "RayJob"
    found = reasons.gather(
        cluster, namespace, rayjob=obj if job else None, ray_cluster=None if job else obj, providers=Asked(session)
    )
    return item(session, found)


def several(
    session: Session, cluster: Any, namespace: str, objects: Sequence[Object], *, everywhere: bool
) -> list[Item]:
    """Each of the objects, from one list of Ray clusters, one of pods, and one of warnings where something is not ready."""
    from ..cluster.side_by_side import side_by_side
    from ..reasons import Situation
    from ..reasons.gather import Reading, unready, warnings

    if not objects:
        return []
    reading = Reading()
    where = {"all_namespaces": everywhere}
    names = sorted({name for obj in objects if (name := _ray_cluster_name(obj))})
    selector = f"{RAY_CLUSTER} in ({','.join(names)})" if len(names) <= SELECTED else RAY_CLUSTER
    jobs = [obj for obj in objects if obj["kind"] == "RayJob"]
    reads: list[Callable[[], Any]] = [
        lambda: (
            reading.ask(lambda: cluster.list("v1", "Pod", namespace, label_selector=selector, **where), "pods")
            if names
            else ()
        ),
        lambda: _ray_clusters(cluster, namespace, jobs, reading, everywhere=everywhere),
    ]
    pods, clusters = side_by_side(reads)
    by_cluster: dict[tuple[str, str], list[Object]] = {}
    for pod in pods:
        by_cluster.setdefault((pod["metadata"]["namespace"], labels_of(pod).get(RAY_CLUSTER, "")), []).append(pod)

    def pods_of(obj: Object) -> list[Object]:
        return by_cluster.get((obj["metadata"]["namespace"], _ray_cluster_name(obj)), [])

    waits = any(unready(obj if obj["kind"] == "RayJob" else None, pods_of(obj)) for obj in objects)
    events = () if everywhere or not waits else warnings(cluster, namespace, reading)
    notes, blind = tuple(reading.notes), "pods" in reading.refused
    found = []
    for obj in objects:
        job = obj["kind"] == "RayJob"
        ray = clusters.get((obj["metadata"]["namespace"], _ray_cluster_name(obj))) if job else obj
        found.append(Situation(obj if job else None, ray, tuple(pods_of(obj)), events, (), notes, blind))
    return [item(session, situation) for situation in found]


def item(session: Session, found: Situation) -> Item:
    """The picture of what was read."""
    from .. import reasons
    from ..runs import RunRecord
    from ..runs.lifetimes import lifetimes

    snapshot = reasons.snapshot(found, session.clock())
    note = head_replaced(found.ray_cluster, found.pods)
    if note:
        snapshot = replace(snapshot, notes=(*snapshot.notes, note))
    if found.rayjob is None:
        assert found.ray_cluster is not None
        return Item(found.ray_cluster, snapshot, _there(found.pods), blind=found.blind)
    run = RunRecord(found.rayjob)
    own = not run.borrows
    return Item(
        found.rayjob, snapshot, _there(found.pods) if own else (), run, lifetimes(run.rayjob) if run.final and own else None,
        _log(session, run), _commands(session, run), blind=found.blind and own,
    )  # fmt: skip


def _commands(session: Session, run: RunRecord) -> dict[str, str]:
    commands = commands_for(session, run.namespace, run.id)
    if run.final:
        commands["logs"] = paste(session, run.namespace, "job", "logs", run.id)
    return commands


class Asked(Sequence["Provider"]):
    """`waiting.asked`, loaded when the first is needed: a run whose pods are all ready needs no plugin."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __len__(self) -> int:
        return len(self._all)

    @overload
    def __getitem__(self, at: int) -> Provider: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Provider]: ...
    def __getitem__(self, at: int | slice) -> Provider | Sequence[Provider]:
        return self._all[at]

    @cached_property
    def _all(self) -> tuple[Provider, ...]:
        from .waiting import asked

        return asked(self._session)


def _there(pods: Iterable[Object]) -> tuple[Object, ...]:
    """Pods that hold something: they have not ended."""
    return tuple(p for p in pods if (p.get("status") or {}).get("phase") not in ENDED)


def _ray_cluster_name(obj: Object) -> str:
    return str(status_of(obj).get("rayClusterName") or "") if obj["kind"] == "RayJob" else str(obj["metadata"]["name"])


def _ray_clusters(
    cluster: Any, namespace: str, jobs: Sequence[Object], reading: Any, *, everywhere: bool
) -> dict[tuple[str, str], Object]:
    """The Ray clusters of RayJobs that are not over, by namespace and name."""
    from .status_find import unfinished

    wanted = [obj for obj in unfinished(jobs) if _ray_cluster_name(obj)]
    if not wanted:
        return {}
    found: Sequence[Object]
    if len(wanted) == 1:
        where, name = str(wanted[0]["metadata"]["namespace"]), _ray_cluster_name(wanted[0])
        found = reading.ask(lambda: filter(None, [cluster.get(RAY_API, "RayCluster", name, where)]), "rayclusters")
    else:
        words = {"label_selector": FROM_JOB, "all_namespaces": everywhere}
        found = reading.ask(lambda: cluster.list(RAY_API, "RayCluster", namespace, **words), "rayclusters")
    return {(str(c["metadata"]["namespace"]), str(c["metadata"]["name"])): c for c in found}


def _log(session: Session, run: RunRecord) -> LogFacts | None:
    """The copy of the driver's log on this machine, if there is one of this run's present attempt."""
    from ..run_directory import directory

    try:
        folder = directory(run.id, session.env)
        size = (folder / "driver.log").stat().st_size
    except (OSError, ValueError):
        return None
    from ..watch import read_record

    record = read_record(folder)
    whole = (
        run.final and bool(record.get("complete")) and str(record.get("cluster_uid", "")).rstrip("+") == run.ray_cluster
    )
    return LogFacts(str(folder / "driver.log"), whole, size)
