"""Takes long-lived objects down in the reverse of the order in which they were made, each by its uid.

A domain or claim that is deleted under a running pod breaks it, so children go when the pods are gone; the garbage collector is the
backstop of a crash, not the means.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from ..errors import ClusterError, ExitCode, NrlError
from ..labels import RAY_CLUSTER, labels_of
from .outages import Outages

#: Seconds between two looks at what is going away.
LOOK = 0.5

Say = Callable[[str], None]
#: Gets what is still there at each look: `raycluster/x`, `pod/y (held by finalizer z)`.
View = Callable[[Sequence[str]], None]


@dataclass(frozen=True)
class Doomed:
    """What goes together: `main`, the RayCluster or Deployment, and `rest`, what belongs to it (children, a Service)."""

    main: Mapping[str, Any] | None
    rest: tuple[Mapping[str, Any], ...] = ()

    @property
    def objects(self) -> list[Mapping[str, Any]]:
        return [*([self.main] if self.main is not None else []), *self.rest]

    @property
    def pod_selector(self) -> str:
        """The labels of the pods that go with it, empty where there are none."""
        if self.main is None:
            return ""
        if self.main["kind"] == "RayCluster":
            return f"{RAY_CLUSTER}={self.main['metadata']['name']}"
        labels = ((self.main.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
        return ",".join(f"{key}={value}" for key, value in labels.items())


@dataclass
class TakenDown:
    """Words of what this call deleted and of what somebody else had deleted meanwhile."""

    deleted: list[str] = field(default_factory=list)
    gone_before: list[str] = field(default_factory=list)


def take_down(
    cluster: Any, doomed: Sequence[Doomed], *, within: float | None, say: Say, view: View = lambda left: None,
    done: TakenDown | None = None,
) -> TakenDown:  # fmt: skip
    """Delete everything; with `within` seconds wait until objects and pods are gone, with None only ask for it.

    Raises `NrlError` with GAVE_UP that names what is still there and what holds it.
    """
    done = done if done is not None else TakenDown()
    deadline = None if within is None else time.monotonic() + within
    for item in doomed:
        if item.main is not None:
            _delete(cluster, item.main, done, say)
    if deadline is None:
        _delete_rest(cluster, doomed, done, say, owned=False)
        return done
    mains = [item for item in doomed if item.main is not None]
    _until(lambda: list(chain.from_iterable(_left(cluster, item) for item in mains)), deadline, say, view)
    _delete_rest(cluster, doomed, done, say, owned=True)
    _until(lambda: _objects_left(cluster, chain.from_iterable(item.rest for item in doomed)), deadline, say, view)
    return done


def words_of(obj: Mapping[str, Any]) -> str:
    return f"{obj['kind'].lower()}/{obj['metadata']['name']}"


def _delete(cluster: Any, obj: Mapping[str, Any], done: TakenDown, say: Say) -> None:
    meta, words = obj["metadata"], words_of(obj)
    if meta.get("deletionTimestamp"):
        say(f"{words} is being deleted already")
        done.deleted.append(words)
    elif cluster.delete(obj["apiVersion"], obj["kind"], meta["name"], meta["namespace"], uid=meta["uid"]):
        say(f"{words}: deleting")
        done.deleted.append(words)
    else:
        done.gone_before.append(words)


def _delete_rest(cluster: Any, doomed: Sequence[Doomed], done: TakenDown, say: Say, *, owned: bool) -> None:
    """Delete what belongs to the main objects; with `owned` False only what the garbage collector will not."""
    for item in doomed:
        for obj in item.rest:
            owners = obj["metadata"].get("ownerReferences")
            if owned or not owners:
                # the garbage collector may have been faster: it is gone either way
                _delete(cluster, obj, TakenDown() if owners else done, say)


def _left(cluster: Any, item: Doomed) -> list[str]:
    """What is still there of a main object and its pods, each with what holds it."""
    assert item.main is not None
    left = _objects_left(cluster, [item.main])
    if not item.pod_selector:
        return left
    try:
        pods = cluster.list("v1", "Pod", item.main["metadata"]["namespace"], label_selector=item.pod_selector)
    except ClusterError as error:
        if error.status == 403:
            return left  # who may not see pods cannot wait for them
        raise
    return left + [_held(pod, "pod") for pod in pods if _of(item.main, pod)]


def _of(main: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    """Whether a pod is of this very cluster: another one may have been made under its name meanwhile."""
    if main["kind"] != "RayCluster" or labels_of(pod).get("ray.io/node-type") is None:
        return True
    owners = {ref.get("uid") for ref in pod["metadata"].get("ownerReferences") or ()}
    return not owners or main["metadata"]["uid"] in owners


def _objects_left(cluster: Any, objects: Iterable[Mapping[str, Any]]) -> list[str]:
    left = []
    for obj in objects:
        meta = obj["metadata"]
        live = cluster.get(obj["apiVersion"], obj["kind"], meta["name"], meta["namespace"])
        if live is not None and live["metadata"]["uid"] == meta["uid"]:
            left.append(_held(live, obj["kind"].lower()))
    return left


def _held(live: Mapping[str, Any], kind: str) -> str:
    finalizers = ", ".join(live["metadata"].get("finalizers") or ())
    return f"{kind}/{live['metadata']['name']}" + (f" (held by finalizer {finalizers})" if finalizers else "")


def _until(left: Callable[[], list[str]], deadline: float, say: Say, view: View) -> None:
    """Wait until nothing is left. Raises `NrlError` with GAVE_UP at the deadline."""
    outages = Outages(deadline, say)
    while there := outages.ask(left):
        if time.monotonic() >= deadline:
            raise NrlError(f"still there: {'; '.join(there)}", _hint(there), exit_code=ExitCode.GAVE_UP)
        view(there)
        time.sleep(LOOK)


def _hint(there: Sequence[str]) -> str:
    stuck = [one for one in there if "finalizer" in one]
    if stuck:
        return "the controller that set the finalizer takes it off; is it running? kubectl get pods -A"
    return "its containers may need longer to end; the same command again goes on waiting"
