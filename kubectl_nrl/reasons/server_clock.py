"""The cluster's time as a watcher knows it, which this machine's clock can be wrong about.

A change that arrives carries the time at which the API server made it, so the server's clock is at least that, plus what
has passed here since, by a clock that nobody sets. It lags after a long silence and never runs ahead: an age is judged too
small rather than too large, and neither a wrong clock, one that jumps, nor a laptop that slept makes a false alarm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from ..rayjob_state import parse_time


class ServerClock:
    """`monotonic` gives seconds; what it does while the machine sleeps does not matter."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._newest: tuple[datetime, float] | None = None

    def saw(self, obj: Mapping[str, Any]) -> None:
        """Learn from an object that has just arrived: when it was made, and when who wrote to it last."""
        meta, here = obj.get("metadata") or {}, self._monotonic()
        written = [entry.get("time") for entry in meta.get("managedFields") or ()]
        for time in map(parse_time, [meta.get("creationTimestamp"), *written]):
            now = self.now()
            if time is not None and (now is None or time > now):
                self._newest = time, here

    def now(self) -> datetime | None:
        """The server's time (aware), or a little less; None before anything arrived."""
        if self._newest is None:
            return None
        time, seen = self._newest
        return time + timedelta(seconds=self._monotonic() - seen)
