"""Follows a run's driver log from its first byte to its last, by offset, in a thread of its own.

The end of what can be read is never taken for the end of the job: reading stops only when the run is known to be over
and the rest is read, or when the head that holds the log is gone, and which of the two it was is said. A head that was replaced
has another log, or none: that is said too, and neither is taken for the other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import ClusterError
from .log_copy import LogCopy
from .log_keeping import Keeping
from .log_place import Place
from .log_view import Shown, WandbPage

#: Seconds during which a log that cannot be read yet is no news: the head has just started.
QUIET = 10.0
#: Longest pause in seconds between tries to reach a head, and the one after a refusal.
RETRY, REFUSED = 2.0, 30.0
#: What a new head means (KubeRay starts one when a pod or its container dies; Ray keeps jobs and logs in neither).
REPLACED = "the head was replaced: Ray's job history and earlier log are lost"
#: What it means that nothing is left of a log of which something was read, on the same head.
EMPTIED = "nothing is left of it on the head"
#: Reasons for which the rest of a log will never come: the Ray cluster is deleted, or its head does not know the job.
NEVER = ("Gone", "NotFound")


class JobsApi(Protocol):
    """What is used of `kubectl_nrl.ray_jobs.RayJobs`."""

    @property
    def life(self) -> str: ...

    def get(self, submission_id: str) -> Mapping[str, Any] | None: ...

    def log_chunk(self, submission_id: str, offset: int) -> bytes: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Source:
    """Where an attempt's log is: its RayCluster by name and uid, and Ray's submission id."""

    cluster: str
    uid: str
    submission_id: str


@dataclass(frozen=True)
class LogEnd:
    """How the following ended: `complete` when the last byte was read after the driver's end; `why` when it was not."""

    complete: bool
    bytes: int
    why: str = ""


class DriverLog:
    """The follower. `sink` gets the bytes to show (in the thread), `say` a line for a person, `wandb` the page once.

    `caught_up` is called in the thread whenever there is nothing new to read. `connect` makes a `JobsApi` for a
    RayCluster's name. `poll` is the pause between reads of a log that has nothing new, in seconds. Errors of the sink
    (a closed pipe) end the thread and are kept in `failure`.
    """

    def __init__(
        self,
        connect: Callable[[str], JobsApi],
        sink: Callable[[bytes], None],
        *,
        copy: LogCopy | None = None,
        say: Callable[[str], None] = lambda text: None,
        wandb: Callable[[str], None] = lambda url: None,
        caught_up: Callable[[], None] = lambda: None,
        poll: float = 0.5,
    ) -> None:
        self._connect, self._sink, self._say, self._wandb = connect, sink, say, wandb
        self._caught_up = caught_up
        self._keeping = Keeping(copy, say)
        self._poll = poll
        self._source: Source | None = None
        self._changed = threading.Condition()
        self._finishing_until: float | None = None
        self._over = False
        self._stopped = False
        self._thread: threading.Thread | None = None
        self.failure: BaseException | None = None
        self.end: LogEnd | None = None
        self._why = ""
        self._patience = 0.0
        self._jobs: JobsApi | None = None
        self._reset()

    def _reset(self) -> None:
        self._life = ""
        self._lost = ""
        self._bytes_before = 0
        self._begin_log(Place())
        self._told_trouble = False

    def _begin_log(self, place: Place) -> None:
        """Read a log from a place on, as the first that is shown of it."""
        self._place = place
        self._shown = Shown()
        self._page = WandbPage()
        self._driver_over = False
        self._complete = False
        self._troubled_since: float | None = None
        self._tries = 0
        self._next_state_check = 0.0

    @property
    def copy_lost(self) -> str:
        """Why the copy on this machine is not whole (a full disk), empty while it is."""
        return self._keeping.lost

    def follow(self, source: Source) -> None:
        """Read that attempt's log from now on; starts the thread on first use.

        The same source again changes nothing.
        """
        with self._changed:
            if source == self._source or self._finishing_until is not None:
                return
            self._source = source
            self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="driver-log", daemon=True)
            self._thread.start()

    def finish(self, patience: float, *, over: bool = True) -> None:
        """Read what is left, giving up when nothing came for `patience` seconds.

        `over`: the run is; what is read of one that goes on is not kept as the whole log.
        """
        with self._changed:
            self._over = over
            self._finishing_until = time.monotonic() + patience
            self._patience = patience
            self._changed.notify_all()

    def join(self, timeout: float) -> LogEnd | None:
        """The end, or None when it is not reached within `timeout` seconds. A log that never began is incomplete."""
        if self._thread is None:
            self._close()
            return LogEnd(False, 0, "the driver never started")
        self._thread.join(timeout)
        return self.end

    def to_the_end(self) -> LogEnd:
        """The end, once it is reached: `finish` says when that is at the latest."""
        end = None
        while end is None:
            end = self.join(1.0)
        return end

    def stop(self) -> None:
        """Stop reading; what was read stays.

        Nothing is written by the thread once this returned, unless it hangs in a write.
        """
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._thread is None:
            self._close()
        else:
            self._thread.join(1.0)

    def _run(self) -> None:
        source: Source | None = None
        try:
            while not self._stopped:
                if source != self._source:
                    source = self._begin()
                if self._step(source):
                    break
        except BaseException as error:  # handed to the thread that waits: a closed pipe must end the program there
            self.failure = error
        finally:
            self._close()

    def _begin(self) -> Source:
        source = self._source
        assert source is not None
        self._flush()
        self._disconnect()
        self._reset()
        place, self._life = self._keeping.resume(source.uid)
        self._begin_log(place)
        for piece in self._keeping.pieces() if place.offset else ():
            if not self._stopped:
                self._show(piece)
        return source

    def _step(self, source: Source | None) -> bool:
        """Read once; whether the following is over."""
        assert source is not None
        if self._complete:
            # Another attempt may follow (backoffLimit), so only the end of the run ends this.
            if self._finishing_until is None:
                self._pause(1.0)
            return self._finishing_until is not None
        try:
            if self._jobs is None:
                self._jobs = self._connect(source.cluster)
                self._meet(self._jobs.life)
            jobs, start = self._jobs, self._place.offset
            data = self._place.read(lambda offset: jobs.log_chunk(source.submission_id, offset))
        except ClusterError as error:
            return self._trouble(error)
        self._troubled_since, self._told_trouble, self._tries = None, False, 0
        if data:
            if self._lost and not start:
                self._say("driver log: the driver was started again; this is its new log")
            self._keeping.keep(data, start, self._life)
            self._show(data)
            if self._finishing_until is not None:
                self._finishing_until = time.monotonic() + self._patience
            return False
        self._caught_up()
        if self._driver_over or self._finishing_until is not None:
            self._complete = True
            return False
        self._look_at_driver(source)
        if not self._driver_over:
            self._pause(self._poll)
        return False

    def _meet(self, life: str) -> None:
        """Tell another head, or its container's next start, from the one whose log was read."""
        before, self._life = self._life, life or self._life
        if before and self._life != before:
            self._lost = REPLACED
            self._say(f"driver log: {REPLACED}")
            self._told_trouble = True  # that the new head does not know the job is no further news
            self._start_over()

    def _start_over(self) -> None:
        """Another log under the same name; the copy stays as it is until something of it comes."""
        self._flush()
        self._bytes_before += self._place.offset
        self._begin_log(Place())

    def _look_at_driver(self, source: Source) -> None:
        """Ask Ray, once a second at most, whether the driver is over.

        Its log is then read to the end before KubeRay takes the head.
        """
        now = time.monotonic()
        if now < self._next_state_check or self._jobs is None:
            return
        self._next_state_check = now + 1.0
        try:
            job = self._jobs.get(source.submission_id)
        except ClusterError:
            return
        self._driver_over = job is not None and str(job.get("status")) in ("SUCCEEDED", "FAILED", "STOPPED")

    def _trouble(self, error: ClusterError) -> bool:
        self._disconnect()
        now = time.monotonic()
        if self._finishing_until is not None and (now >= self._finishing_until or error.reason in NEVER):
            self._why = self._lost or error.message
            return True
        if error.reason == "LogReplaced":
            self._say(f"driver log: {error.message}: it was cut short or is another; reading it from its start")
            self._start_over()
            return False
        refused = error.status in (401, 403)
        self._tell_trouble(error, now, refused)
        self._tries += 1
        self._pause(REFUSED if refused else min(self._poll * 2 ** min(self._tries - 1, 8), RETRY))
        return False

    def _tell_trouble(self, error: ClusterError, now: float, refused: bool) -> None:
        """Say it once per outage, when reconnecting at once did not help; a log that has not begun gets some seconds first."""
        self._troubled_since = self._troubled_since or now
        early = not self._tries or (not self._place.offset and now - self._troubled_since < QUIET)
        if self._told_trouble or self._finishing_until is not None or (early and not refused):
            return
        if error.reason == "Unreachable":
            return  # the API server itself is away, which whoever follows the run says
        self._told_trouble = True
        self._say(f"driver log: {error.message}; {'the run is watched without it' if refused else 'reconnecting'}")

    def _disconnect(self) -> None:
        jobs, self._jobs = self._jobs, None
        if jobs is not None:
            jobs.close()

    def _pause(self, seconds: float) -> None:
        """Wait, or until something changes: a new attempt, the end of the run."""
        with self._changed:
            if not self._stopped:
                self._changed.wait(min(seconds, 0.2) if self._finishing_until is not None else seconds)

    def _show(self, data: bytes) -> None:
        url = self._page.feed(data)
        out = self._shown.feed(data)
        if out:
            self._sink(out)
        if url:
            self._wandb(url)

    def _flush(self) -> None:
        rest = self._shown.end()
        if rest:
            self._sink(rest)

    def _close(self) -> None:
        self._disconnect()
        if self.failure is None and not self._stopped:
            try:
                self._flush()
            except OSError as error:
                self.failure = error
        emptied = bool(self._bytes_before and not self._place.offset)
        whole = self._complete and not emptied
        self._keeping.close(complete=whole and (self._over or self._driver_over))
        size = self._place.offset or self._bytes_before
        why = (self._lost or EMPTIED) if self._complete and emptied else self._why or "stopped reading"
        self.end = LogEnd(whole, size, "" if whole else why)
