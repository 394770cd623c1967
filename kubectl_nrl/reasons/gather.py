"""Reads what a run's wait is judged by: its RayCluster, pods, the namespace's warnings, what providers say.

Few requests, each for the whole run, and the expensive ones only while something is not ready: a namespace is shared,
and a storm of questions would be its own trouble. What may not be read is a note, never a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..api import Provider, Reason
from ..errors import ClusterError
from ..labels import RAY_API, RAY_CLUSTER
from ..rayjob_state import outcome, status_of
from .claims import claim_reasons, volume_reasons
from .model import Situation
from .pods import being_deleted, is_ready, name_of

#: Only what is no normal event: a namespace has thousands of the others.
WARNINGS = "type!=Normal"


class Reading:
    """The few questions that were asked, and a note for each that may not be; `refused` is what they were about."""

    def __init__(self) -> None:
        self.notes: dict[str, None] = {}
        self.refused: set[str] = set()

    def ask(self, ask: Callable[[], Iterable[Mapping[str, Any]]], what: str) -> tuple[Mapping[str, Any], ...]:
        """The answer; nothing, and a note, where it is refused. Raises `ClusterError` for anything else."""
        try:
            return tuple(ask())
        except ClusterError as error:
            if error.status != 403:
                raise
            self.refused.add(what)
            self.notes[f"{what} may not be read with these permissions"] = None
            return ()


def gather(
    cluster: Any,
    namespace: str,
    *,
    rayjob: Mapping[str, Any] | None = None,
    ray_cluster: Mapping[str, Any] | None = None,
    providers: Sequence[Provider] = (),
) -> Situation:
    """Everything at once, for a look at a run (its RayJob) or at a long-lived RayCluster.

    `cluster` reads (`kubectl_nrl.cluster.Cluster`). The run's RayCluster is read by its present name, and so are its pods, which
    outlive it while they end; events, claims and providers are asked only when something is not ready. Raises `ClusterError` for an
    outage.
    """
    reading = Reading()
    name = name_of(ray_cluster) if ray_cluster is not None else ""
    if rayjob is not None and ray_cluster is None:
        name = str(status_of(rayjob).get("rayClusterName") or "")
        ray_cluster = _ray_cluster(cluster, namespace, name, reading) if name else None
    pods: tuple[Mapping[str, Any], ...] = ()
    if name:
        selector = f"{RAY_CLUSTER}={name}"
        pods = reading.ask(lambda: cluster.list("v1", "Pod", namespace, label_selector=selector), "pods")
    events: tuple[Mapping[str, Any], ...] = ()
    said: tuple[Reason, ...] = ()
    top = rayjob if rayjob is not None else ray_cluster
    if top is not None and unready(rayjob, pods):
        events = warnings(cluster, namespace, reading)
        said = tuple(sayings(cluster, top, pods, events, providers, _noted(reading)))
    return Situation(rayjob, ray_cluster, pods, events, said, tuple(reading.notes), "pods" in reading.refused)


def _noted(reading: Reading) -> Callable[[str], None]:
    return lambda text: reading.notes.setdefault(text, None)


def _ray_cluster(cluster: Any, namespace: str, name: str, reading: Reading) -> Mapping[str, Any] | None:
    found = reading.ask(lambda: filter(None, [cluster.get(RAY_API, "RayCluster", name, namespace)]), "rayclusters")
    return found[0] if found else None


def unready(rayjob: Mapping[str, Any] | None, pods: Sequence[Mapping[str, Any]]) -> bool:
    """Whether there is anything to explain: no pod yet, or one that is not ready; never after the run's end.

    A driver that runs has pods, also where they may not be seen.
    """
    status = status_of(rayjob) if rayjob is not None else {}
    if outcome(status) is not None or (not pods and status.get("jobStatus") == "RUNNING"):
        return False
    return not pods or any(not is_ready(p) for p in pods if not being_deleted(p))


def warnings(cluster: Any, namespace: str, reading: Reading) -> tuple[Mapping[str, Any], ...]:
    """The namespace's warnings."""
    return reading.ask(lambda: cluster.list("v1", "Event", namespace, field_selector=WARNINGS), "events")


def sayings(
    cluster: Any,
    run: Mapping[str, Any],
    pods: Sequence[Mapping[str, Any]],
    events: Sequence[Mapping[str, Any]],
    providers: Iterable[Provider],
    failed: Callable[[str], None],
) -> Iterable[Reason]:
    """What providers, claims and volumes say of the run. One that raises costs a line, told to `failed`, that names it."""
    for provider in providers:
        try:
            yield from list(provider.reasons(run, cluster))
        except Exception as error:  # a plugin's fault must not end a run
            failed(f'"{provider.name}" could not say why the run waits: {type(error).__name__}: {error}')
    namespace = str(run["metadata"].get("namespace"))
    yield from volume_reasons(cluster, namespace, pods, events)
    yield from claim_reasons(cluster, namespace, pods)
