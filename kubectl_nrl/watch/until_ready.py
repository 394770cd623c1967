"""Waits until one RayCluster or Deployment, of one uid, is up, and shows meanwhile what is missing and why.

The object's state is taken from a watch that is compared with the uid each time: a name can be given to another object while
somebody waits. Why it waits is judged by `kubectl_nrl.reasons`, as for a run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from ..api import Provider
from ..errors import ClusterError, ExitCode, NrlError
from ..labels import RAY_CLUSTER
from ..reasons import Situation, Snapshot, Trouble, ready_snapshot, snapshot
from ..reasons.advice import advice
from ..reasons.gather import unready
from ..reasons.server_clock import ServerClock
from .connection import Connection
from .deletion import deletion
from .feeds import Feeds
from .inquiry import Answer, Inquiry
from .readiness import Readiness, readiness_of
from .start_limit import GAP, StartLimit
from .telling import Telling

#: Seconds between tries to reach what should answer by now, and at most between two looks.
PROBE = 0.5
#: Seconds between two judgements of why it waits: changes of pods settle, and some causes are a matter of time.
JUDGE = 1.0


class Unstartable(NrlError):
    """What is waited for does not come up unless somebody mends something; `trouble` is what."""

    exit_code = ExitCode.GAVE_UP

    def __init__(self, words: str, trouble: Trouble, namespace: str) -> None:
        super().__init__(f"gave up waiting for {words}: {trouble.line}", advice(trouble, namespace))
        self.trouble = trouble


class Onlooker(Protocol):
    """Who is told of one wait, in the thread that waits. `connection` is shared by all who wait at the same time."""

    connection: Connection

    def view(self, picture: Snapshot) -> None:
        """A new picture of it."""

    def ready(self, picture: Snapshot) -> None:
        """The last picture: it is up."""

    def say(self, text: str) -> None:
        """A line of what has changed, which the picture shows as well."""

    def warn(self, text: str) -> None:
        """What cannot be asked or looked at."""


class UntilReady:
    """The wait for one object. `live` is the object as it was made or found.

    `probe(live)` is called once the object looks ready, and again until it raises no `ClusterError`: what must answer.
    `providers` are asked why pods wait; `start_limit` are the seconds of `StartLimit`.
    """

    def __init__(
        self,
        cluster: Any,
        live: Mapping[str, Any],
        onlooker: Onlooker,
        *,
        probe: Callable[[Mapping[str, Any]], None] = lambda live: None,
        suspended_by: str = "",
        providers: Sequence[Provider] = (),
        start_limit: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        meta = live["metadata"]
        self._cluster = cluster
        self._live, self._namespace = live, str(meta["namespace"])
        self.words = f"{live['kind'].lower()}/{meta['name']}"
        self._onlooker = onlooker
        self._probe, self._suspended_by, self._clock = probe, suspended_by, clock
        self._closed = threading.Event()
        self._feeds = Feeds(cluster, self._namespace)
        self._inquiry = Inquiry(cluster, self._namespace, providers, lambda answer: self._feeds.put("inquiry", answer))
        self._telling = Telling(self._tell, clock)
        self._limit, self._server_clock = StartLimit(start_limit), ServerClock(clock)
        self._pods: dict[str, Mapping[str, Any]] = {}
        self._answer, self._faults = Answer(), dict[str, None]()
        self._judge_at = clock() + JUDGE
        self._lost_since: float | None = None
        self._line = ""
        self._picture = replace(snapshot(self._situation(), None), groups=(), troubles=())

    def until(self, deadline: float, stop: threading.Event) -> Mapping[str, Any] | None:
        """The ready object; None when `stop` was set. `deadline` is a time of the clock.

        Raises `NrlError` with GAVE_UP at the deadline, `Unstartable`, and `ClusterError` when it is deleted, replaced, or suspended
        for good.
        """
        found = self._standing()
        if found.ready:
            return self._up(found)  # nothing is watched for what is up already
        self._watch()
        try:
            while not stop.is_set():
                self._once(self._words(found))
                self._give_up(found, deadline)
                for source, item in self._feeds.arrived(PROBE):
                    self._handle(source, item)
                if self._clock() >= self._judge_at:
                    self._judge()
                found = self._standing()
                if found.ready:
                    return self._up(found)
            return None
        finally:
            self._closed.set()
            self._inquiry.close()
            self._onlooker.connection.leave(self.words)

    def _standing(self) -> Readiness:
        """How it stands, with what must answer where the object says that it is up."""
        found = readiness_of(self._live, self._suspended_by)
        if not found.ready:
            return found
        try:
            self._probe(self._live)
        except ClusterError as error:
            if error.status in (401, 403):
                raise
            return Readiness(False, f"its pods are ready, waiting for it to answer ({error.message})")
        return found

    def _up(self, found: Readiness) -> Mapping[str, Any]:
        self._onlooker.ready(ready_snapshot(self._situation(), found.words))
        return self._live

    def _watch(self) -> None:
        meta = self._live["metadata"]
        self._feeds.watch("object", self._live["apiVersion"], self._live["kind"], self._closed, name=meta["name"])
        selector = f"{RAY_CLUSTER}={meta['name']}"
        if self._live["kind"] == "Deployment":
            labels = ((self._live.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
            selector = ",".join(f"{key}={value}" for key, value in labels.items())
        self._feeds.watch("pods", "v1", "Pod", self._closed, label_selector=selector)

    def _handle(self, source: str, item: Any) -> None:
        if source == "object refused":
            raise item
        if source == "pods refused":
            self._fault(f"pods cannot be watched: {item.message}")
        elif source == "inquiry":
            self._answer = item
            for fault in item.faults:
                self._fault(fault)
        elif item.type in ("LOST", "BACK"):
            if source == "object":
                self._on_connection(item)
        elif source == "object":
            self._on_object(item.type, item.object)
        else:
            self._server_clock.saw(item.object)
            uid = str(item.object["metadata"].get("uid"))
            if item.type == "DELETED":
                self._pods.pop(uid, None)
            else:
                self._pods[uid] = item.object

    def _on_connection(self, item: Any) -> None:
        if item.type == "LOST":
            self._lost_since = self._lost_since or self._clock()
            self._onlooker.connection.lost(self.words, item.error)
            return
        self._onlooker.connection.back(self.words)
        if self._lost_since is not None:
            # What has been seen is as old as the outage for a moment.
            self._limit.skip(self._clock() - self._lost_since + GAP)
        self._lost_since = None

    def _on_object(self, kind: str, live: Mapping[str, Any]) -> None:
        other = live["metadata"].get("uid") != self._live["metadata"]["uid"]
        if kind == "DELETED" and not other:
            words = deletion(self._cluster, f"{self.words} was deleted", self._namespace)
            raise ClusterError(f"{words} while it was waited for", reason="Gone")
        if other and kind != "DELETED":
            raise ClusterError(f"{self.words} was replaced by another of the same name while it was waited for")
        if not other:
            self._live = live
            self._server_clock.saw(live)

    def _situation(self) -> Situation:
        ray, deployment = (None, self._live) if self._live["kind"] == "Deployment" else (self._live, None)
        pods, answer = tuple(self._pods.values()), self._answer
        return Situation(None, ray, pods, answer.events, answer.said, tuple(self._faults), deployment=deployment)

    def _judge(self) -> None:
        """Show how it stands, and say why it waits as far as that is news.

        Raises `Unstartable` when it has waited for that long enough; not while the API server is away, since what is known may be old.
        """
        now, pods = self._clock(), tuple(self._pods.values())
        (self._inquiry.about(self._live, pods) if unready(None, pods) else self._inquiry.rest())
        picture = snapshot(self._situation(), self._server_clock.now())
        self._picture = replace(picture, description=self._line)
        self._onlooker.view(self._picture)
        # What is the state itself (`Suspended`) is said as such.
        self._telling.tell(trouble for trouble in picture.troubles if trouble.reason != picture.state)
        ended = self._clock()
        # A thousand pods take their time to judge, and this is not to fill a core.
        self._judge_at = ended + max(JUDGE, 20 * (ended - now))
        struck = None if self._lost_since is not None else self._limit.strikes(picture.troubles, now)
        if struck is not None:
            raise Unstartable(self.words, struck[0], self._namespace)

    def _give_up(self, found: Readiness, deadline: float) -> None:
        if found.stuck:
            raise self._never(found)
        if self._clock() >= deadline:
            troubles = self._picture.troubles
            why = "; ".join([found.words if troubles else found.text, *(trouble.line for trouble in troubles)])
            hint = advice(troubles[0], self._namespace) if troubles else self._look_hint()
            raise NrlError(f"gave up waiting for {self.words}: {why}", hint, exit_code=ExitCode.GAVE_UP)

    def _words(self, found: Readiness) -> str:
        """Its controller's own reason counts where the pods' reasons may not be read."""
        return found.text if self._faults and not self._picture.troubles else found.words

    def _once(self, line: str) -> None:
        """Show and say it, unless it was what was said before."""
        if line != self._line:
            self._line = line
            self._picture = replace(self._picture, description=line)
            self._onlooker.view(self._picture)
            self._onlooker.say(f"{self.words}: {line}")

    def _tell(self, trouble: Trouble) -> None:
        own = f"{self.words}: "
        self._onlooker.say(trouble.line if trouble.line.startswith(own) else own + trouble.line)

    def _fault(self, text: str) -> None:
        if text not in self._faults:
            self._faults[text] = None
            self._onlooker.warn(text)

    def _never(self, found: Readiness) -> ClusterError:
        hint = self._look_hint()
        if self._live["metadata"].get("deletionTimestamp"):
            return ClusterError(deletion(self._cluster, f"{self.words} is being deleted", self._namespace), hint)
        if (self._live.get("spec") or {}).get("suspend"):
            patch = """-p '{"spec":{"suspend":false}}'"""
            name = self._live["metadata"]["name"]
            hint = f"kubectl patch raycluster {name} -n {self._namespace} --type merge {patch}"
        return ClusterError(f"{self.words} is {found.words}", hint)

    def _look_hint(self) -> str:
        return f"kubectl describe {self.words.replace('/', ' ')} -n {self._namespace}"
