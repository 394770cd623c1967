"""Asks what no watch tells, while a run waits: the namespace's warnings, and what schedulers, drivers and claims say.

In a thread of its own, so that a slow or hanging provider delays nothing, and ever more seldom while the answer stays the
same: many people wait on a full cluster, often for hours.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..api import Provider, Reason
from ..errors import ClusterError
from ..reasons.gather import Reading, sayings, warnings

#: Seconds between two inquiries: at first, and at most while nothing changes.
FIRST, LONGEST = 2.0, 30.0


@dataclass(frozen=True)
class Answer:
    """As in `kubectl_nrl.reasons.Situation`; `faults` are lines about what could not be asked."""

    events: tuple[Mapping[str, Any], ...] = ()
    said: tuple[Reason, ...] = ()
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Question:
    run: Mapping[str, Any]
    pods: tuple[Mapping[str, Any], ...]


class Inquiry:
    """`put` gets each answer, in the thread."""

    def __init__(
        self, cluster: Any, namespace: str, providers: Sequence[Provider], put: Callable[[Answer], None]
    ) -> None:
        self._cluster, self._namespace, self._providers, self._put = cluster, namespace, tuple(providers), put
        self._question: _Question | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def about(self, run: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> None:
        """Go on asking about this run (its RayJob or RayCluster) with these pods; starts the thread on first use."""
        self._question = _Question(run, tuple(pods))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="watch-inquiry", daemon=True)
            self._thread.start()

    def rest(self) -> None:
        """Ask nothing until the next `about`."""
        self._question = None

    def close(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        last, pause = Answer(), FIRST
        while not self._stop.wait(pause):
            question = self._question
            if question is None:
                pause = FIRST
                continue
            try:
                answer = self._ask(question)
            except ClusterError:
                continue  # an outage: the watches say so
            pause = FIRST if answer != last else min(2 * pause, LONGEST)
            last = answer
            if not self._stop.is_set():
                self._put(answer)

    def _ask(self, question: _Question) -> Answer:
        reading, faults = Reading(), list[str]()
        events = warnings(self._cluster, self._namespace, reading)
        said = tuple(sayings(self._cluster, question.run, question.pods, events, self._providers, faults.append))
        return Answer(events, said, (*reading.notes, *faults))
