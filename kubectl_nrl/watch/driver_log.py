"""Follows a run's driver log from its first byte to its last, by offset, in a thread of its own.

The end of what can be read is never taken for the end of the job: reading stops only when the run is known to be over
and the rest is read, or when the head that holds the log is gone, and which of the two it was is said.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ..errors import ClusterError
from .log_copy import LogCopy
from .log_view import Shown, WandbPage

#: Seconds during which a log that cannot be read yet is no news: the head has just started.
QUIET = 10.0


class JobsApi(Protocol):
    """What is used of `kubectl_nrl.ray_jobs.RayJobs`."""

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
        self._copy = copy
        self._poll = poll
        self._source: Source | None = None
        self._changed = threading.Condition()
        self._finishing_until: float | None = None
        self._stopped = False
        self._thread: threading.Thread | None = None
        self.failure: BaseException | None = None
        self.end: LogEnd | None = None
        self._why = ""
        self._patience = 0.0
        self._jobs: JobsApi | None = None
        self._reset()

    def _reset(self) -> None:
        self._offset = 0
        self._shown = Shown()
        self._page = WandbPage()
        self._driver_over = False
        self._complete = False
        self._troubled_since: float | None = None
        self._told_trouble = False
        self._next_state_check = 0.0

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

    def finish(self, patience: float) -> None:
        """The run is over: read what is left, giving up when nothing came for `patience` seconds."""
        with self._changed:
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
        if self._copy is not None:
            kept = self._copy.attempt(source.uid)
            if kept:
                self._offset = kept
                self._show(self._copy.path.read_bytes())
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
            data = self._jobs.log_chunk(source.submission_id, self._offset)
        except ClusterError as error:
            return self._trouble(error)
        self._troubled_since, self._told_trouble = None, False
        if data:
            self._offset += len(data)
            self._keep(data)
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
        if self._finishing_until is not None and (now >= self._finishing_until or error.reason == "Gone"):
            self._why = error.message
            return True
        if error.reason == "LogReplaced" and self._source is not None:
            # A head that restarted has another log under the same name: an attempt of its own.
            self._say(f"driver log: {error.message}")
            self._source = replace(self._source, uid=self._source.uid + "+")
            return False
        refused = error.status in (401, 403)
        self._tell_trouble(error, now, refused)
        self._pause(30.0 if refused else self._poll)
        return False

    def _tell_trouble(self, error: ClusterError, now: float, refused: bool) -> None:
        """Say it once per outage; a log that has not begun gets some seconds first."""
        self._troubled_since = self._troubled_since or now
        early = not self._offset and now - self._troubled_since < QUIET
        if self._told_trouble or self._finishing_until is not None or (early and not refused):
            return
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

    def _keep(self, data: bytes) -> None:
        if self._copy is None:
            return
        try:
            self._copy.append(data)
        except OSError as error:
            self._say(f"driver log: no copy is kept on this machine any more: {error}")
            self._copy.close()
            self._copy = None

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
        self.end = LogEnd(self._complete, self._offset, "" if self._complete else self._why or "stopped reading")
        if self._copy is not None:
            if self._source is not None and self._complete:
                self._copy.note(complete=True)
            self._copy.close()
