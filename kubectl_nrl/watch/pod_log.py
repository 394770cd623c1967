"""Reads one container's log, to its end or for as long as the pod lives, through cut connections and restarts.

The end of a stream is taken for nothing: the pod is looked at, and only one that is gone, or whose container will not
run again, ends the reading. A container that crashed before is shown with its last lines first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from ..cluster.patience import Cancelled
from ..errors import ClusterError
from ..ray_jobs import ray_container
from .pod_lines import Lines

#: Seconds between two tries while a container has not started, or the API server is away.
LOOK = 1.0
#: How often a log that is not followed is asked for again after the connection broke.
TRIES = 5
#: Lines of a container that crashed that are shown before those of the one that runs now.
BEFORE = 20
#: Reasons to go on without a word: the next try is the one after a cut.
_AGAIN = frozenset({"ConnectionLost", "Unreachable", "Timeout", "InternalError", "ServiceUnavailable"})


class PodLog:
    """The log of the Ray container of `pod`. `sink` gets whole lines, `say` what a person should know of the reading.

    `tail` and `since` (seconds) bound what is read of the past.
    """

    def __init__(
        self, cluster: Any, pod: Mapping[str, Any], sink: Callable[[bytes], None], say: Callable[[str], None],
        *, tail: int | None = None, since: int | None = None, stop: threading.Event | None = None,
    ) -> None:  # fmt: skip
        meta = pod["metadata"]
        self.name, self.uid = str(meta["name"]), str(meta["uid"])
        self._cluster, self._namespace = cluster, str(meta["namespace"])
        self._container = ray_container(pod)
        self._pod: Mapping[str, Any] | None = pod
        self._sink, self._say, self._tail, self._since = sink, say, tail, since
        self._stop = stop or threading.Event()
        self._lines = Lines()
        self._why = ""
        self._failures = 0
        self._told: tuple[int, str] | None = None

    def read(self, *, follow: bool) -> None:
        """Read to the end, or follow. Raises `ClusterError` when refused, or out of reach when it is not followed."""
        self._show_crash()
        if follow:
            self._follow()
        else:
            self._read_once()
        rest = self._lines.end()
        if rest:
            self._sink(rest + b"\n")

    def _read_once(self) -> None:
        for _ in range(TRIES):
            if self._stream() or self._stop.is_set():
                return
            self._stop.wait(LOOK)
        raise ClusterError(f"the log of pod {self.name} breaks off: {self._why}", reason="ConnectionLost")

    def _follow(self) -> None:
        restarts = self._restarts
        if restarts and not self._running:
            self._stream()  # what it said before it ended
        while not self._stop.is_set():
            if self._over:
                self._last_lines()
                return
            if self._restarts > restarts:
                restarts = self._restarts
                self._finish_previous()
            if self._running:
                self._stream(follow="true")
            else:
                self._say_how_it_waits(restarts)
            self._look()
            if not self._over:
                self._stop.wait(LOOK)

    def _stream(self, **more: str) -> bool:
        """One connection; whether it came to an end that the server meant. A refusal while following is waited out."""
        query = {"container": self._container, "timestamps": "true", **self._bounds(), **more}
        self._lines.reopened()
        try:
            pieces = self._cluster.pod_log_stream(self._namespace, self.name, query, cancelled=self._stop.is_set)
        except ClusterError as error:
            return self._refused(error, following="follow" in more)
        except Cancelled:
            return True
        while True:
            try:
                piece = next(pieces)
            except (StopIteration, Cancelled):
                return True
            except TimeoutError:
                self._why = "nothing came for a while"  # the connection may be dead, so it is made anew
                return False
            except OSError as error:
                self._failed(str(error))
                return False
            self._failures = 0
            for line in self._lines.feed(piece):  # outside of the try: an error of the sink is none of the connection
                self._sink(line)

    def _bounds(self) -> dict[str, str]:
        if self._lines.resume:
            return {"sinceTime": self._lines.resume}
        return {
            **({"tailLines": str(self._tail)} if self._tail is not None else {}),
            **({"sinceSeconds": str(self._since)} if self._since is not None else {}),
        }

    def _refused(self, error: ClusterError, *, following: bool) -> bool:
        waits = error.status == 400 and "waiting to start" in error.message
        if following and (waits or error.status == 404):
            self._why = error.message
            return False  # the look at the pod says which it is
        if error.reason not in _AGAIN:
            raise error
        self._failed(error.message)
        return False

    def _failed(self, why: str) -> None:
        """Say it once per outage; a first cut is no news, since reading goes on at the line where it stopped."""
        self._why = why
        self._failures += 1
        if self._failures == 2:
            self._say(f"pod {self.name}: {why}; reconnecting")

    def _look(self) -> None:
        try:
            found = self._cluster.get("v1", "Pod", self.name, self._namespace)
        except ClusterError as error:
            if error.status in (401, 403):
                raise
            return
        self._pod = found if found is not None and found["metadata"]["uid"] == self.uid else None

    @property
    def _status(self) -> Mapping[str, Any]:
        statuses = ((self._pod or {}).get("status") or {}).get("containerStatuses") or ()
        return next((s for s in statuses if s.get("name") == self._container), {})

    @property
    def _restarts(self) -> int:
        return int(self._status.get("restartCount") or 0)

    @property
    def _state(self) -> Mapping[str, Any]:
        return self._status.get("state") or {}

    @property
    def _running(self) -> bool:
        return self._state.get("running") is not None

    @property
    def _over(self) -> bool:
        """Whether the container has ended and will not run again."""
        if self._pod is None:
            return True
        ended = bool(self._state.get("terminated"))
        phase = (self._pod.get("status") or {}).get("phase")
        again = (self._pod.get("spec") or {}).get("restartPolicy", "Always") != "Never"
        return phase in ("Succeeded", "Failed") or (
            ended and (not again or bool(self._pod["metadata"].get("deletionTimestamp")))
        )

    def _last_lines(self) -> None:
        """What was written between the last connection's end and the container's."""
        if self._pod is not None:
            self._stream()
        ended = self._state.get("terminated")
        self._say(f"pod {self.name} {_how(ended) if self._pod is not None and ended else 'is gone'}")

    def _finish_previous(self) -> None:
        self._stream(previous="true")
        ended = (self._status.get("lastState") or {}).get("terminated")
        self._say(f"pod {self.name} {_how(ended)}; container {self._container} was started again")

    def _say_how_it_waits(self, restarts: int) -> None:
        """Once per state: a container that has not started, or that ended and is to be started again."""
        waiting = str((self._state.get("waiting") or {}).get("reason") or "")
        ended = self._state.get("terminated") or ((self._status.get("lastState") or {}).get("terminated"))
        if self._running or self._told == (restarts, waiting):
            return
        self._told = (restarts, waiting)
        what = f"{_how(ended)} and is to be started again" if ended else "has not started yet"
        self._say(f"pod {self.name} {what}" + (f" ({waiting})" if waiting else ""))

    def _show_crash(self) -> None:
        """The last lines of a container that crashed before this one was started."""
        restarts, ended = self._restarts, (self._status.get("lastState") or {}).get("terminated") or {}
        if not restarts or not self._running or not ended.get("exitCode"):
            return
        self._say(f"pod {self.name} {_how(ended)} before, {restarts} restart(s) so far; its last lines:")
        earlier, lines = Lines(), list[bytes]()
        query = {"container": self._container, "timestamps": "true", "previous": "true", "tailLines": str(BEFORE)}
        try:
            for piece in self._cluster.pod_log_stream(self._namespace, self.name, query, cancelled=self._stop.is_set):
                lines.extend(earlier.feed(piece))
        except (ClusterError, OSError, Cancelled) as error:
            self._say(f"they cannot be read: {error}")
        for line in lines:
            self._sink(line)
        self._say(f"pod {self.name}, container {self._container} as it runs now:")


def _how(ended: Mapping[str, Any] | None) -> str:
    """How a container ended: `ended with OOMKilled (exit 137)`."""
    code = (ended or {}).get("exitCode")
    reason = str((ended or {}).get("reason") or "Error")
    return f"ended with {reason}" + (f" (exit {code})" if code is not None else "")
