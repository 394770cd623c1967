"""Waits until one RayCluster or Deployment, of one uid, is up, and says meanwhile what is missing and why.

The object's state is taken from a watch that is compared with the uid each time: a name can be given to another object while
somebody waits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..api import Provider
from ..errors import ClusterError, ExitCode, NrlError
from ..labels import RAY_CLUSTER
from ..reasons import Situation, Trouble, troubles
from ..reasons.advice import advice
from ..reasons.gather import unready
from ..reasons.server_clock import ServerClock
from .deletion import deletion
from .feeds import Feeds
from .inquiry import Answer, Inquiry
from .readiness import Readiness, readiness_of
from .start_limit import StartLimit
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


class UntilReady:
    """The wait for one object. `live` is the object as it was made or found; `say` gets a line per change.

    `probe(live)` is called once the object looks ready, and again until it raises no `ClusterError`: what must answer.
    `providers` are asked why pods wait; `start_limit` are the seconds of `StartLimit`.
    """

    def __init__(
        self,
        cluster: Any,
        live: Mapping[str, Any],
        *,
        say: Callable[[str], None],
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
        self._say, self._probe, self._suspended_by, self._clock = say, probe, suspended_by, clock
        self._closed = threading.Event()
        self._feeds = Feeds(cluster, self._namespace)
        self._inquiry = Inquiry(cluster, self._namespace, providers, lambda answer: self._feeds.put("inquiry", answer))
        self._telling = Telling(lambda trouble: say(f"{self.words}: {trouble.line}"), clock)
        self._limit, self._server_clock = StartLimit(start_limit), ServerClock(clock)
        self._pods: dict[str, Mapping[str, Any]] = {}
        self._answer = Answer()
        self._judge_at = clock() + JUDGE
        self._said: set[str] = set()
        self._why = ""

    def until(self, deadline: float, stop: threading.Event) -> Mapping[str, Any] | None:
        """The ready object; None when `stop` was set. `deadline` is a time of the clock.

        Raises `NrlError` with GAVE_UP at the deadline, `Unstartable`, and `ClusterError` when it is deleted, replaced, or suspended
        for good.
        """
        if readiness_of(self._live, self._suspended_by).ready and self._answers():
            return self._live  # nothing is watched for what is up already
        self._watch()
        try:
            while not stop.is_set():
                readiness = readiness_of(self._live, self._suspended_by)
                if readiness.ready and self._answers():
                    return self._live
                self._once(readiness.words)
                self._give_up(readiness, deadline)
                for source, item in self._feeds.arrived(PROBE):
                    self._handle(source, item)
                if not readiness.ready and self._clock() >= self._judge_at:
                    self._judge()
            return None
        finally:
            self._closed.set()
            self._inquiry.close()

    def _answers(self) -> bool:
        try:
            self._probe(self._live)
        except ClusterError as error:
            if error.status in (401, 403):
                raise
            self._why = error.message
            self._once(f"its pods are ready, waiting for it to answer ({error.message})")
            return False
        return True

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
            self._once(f"its pods cannot be watched: {item.message}")
        elif source == "inquiry":
            self._answer = item
        elif item.type in ("LOST", "BACK"):
            if source == "object":
                state = f"lost ({item.error}), reconnecting" if item.type == "LOST" else "is back"
                self._say(f"{self.words}: connection to the API server {state}")
        elif source == "object":
            self._on_object(item.type, item.object)
        else:
            self._server_clock.saw(item.object)
            uid = str(item.object["metadata"].get("uid"))
            if item.type == "DELETED":
                self._pods.pop(uid, None)
            else:
                self._pods[uid] = item.object

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

    def _judge(self) -> None:
        """Say why it waits, as far as that is news. Raises `Unstartable` when it has waited for that long enough."""
        now = self._clock()
        self._judge_at = now + JUDGE
        pods = tuple(self._pods.values())
        (self._inquiry.about(self._live, pods) if unready(None, pods) else self._inquiry.rest())
        raycluster = self._live if self._live["kind"] == "RayCluster" else None
        found = troubles(
            Situation(None, raycluster, pods, self._answer.events, self._answer.said), self._server_clock.now()
        )
        self._telling.tell(found)
        struck = self._limit.strikes(found, now)
        if struck is not None:
            raise Unstartable(self.words, struck[0], self._namespace)

    def _give_up(self, readiness: Readiness, deadline: float) -> None:
        if readiness.stuck:
            raise self._never(readiness)
        if self._clock() >= deadline:
            why = self._why if readiness.ready else readiness.words
            raise NrlError(f"gave up waiting for {self.words}: {why}", self._look_hint(), exit_code=ExitCode.GAVE_UP)

    def _once(self, line: str) -> None:
        """Say it, unless it was what was said before."""
        if line not in self._said:
            self._said = {line}
            self._say(f"{self.words}: {line}")

    def _never(self, readiness: Readiness) -> ClusterError:
        hint = self._look_hint()
        if self._live["metadata"].get("deletionTimestamp"):
            return ClusterError(deletion(self._cluster, f"{self.words} is being deleted", self._namespace), hint)
        if (self._live.get("spec") or {}).get("suspend"):
            patch = """-p '{"spec":{"suspend":false}}'"""
            name = self._live["metadata"]["name"]
            hint = f"kubectl patch raycluster {name} -n {self._namespace} --type merge {patch}"
        return ClusterError(f"{self.words} is {readiness.words}", hint)

    def _look_hint(self) -> str:
        return f"kubectl describe {self.words.replace('/', ' ')} -n {self._namespace}"
