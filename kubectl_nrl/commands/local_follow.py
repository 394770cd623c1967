"""Stays with a run on this machine: a panel while Ray starts, then the log, then the result.

Only the run's directory is read, so any number of terminals can follow one run, and none of them can harm it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import ExitCode
from ..rayjob_state import FAILED
from .local_result import LocalResult
from .reward_curve import RewardCurve
from .run_failure import of_local
from .session import Session

if TYPE_CHECKING:
    from ..local import LocalRecord

#: Seconds between looks at the run's directory.
PAUSE = 0.1
#: Seconds that a finished run may take to clear up before that is said; 12 is what the supervisor gives itself.
CLEARED = 30.0


def commands_for(run_id: str) -> dict[str, str]:
    """The two lines that go on with a run: follow it again, and stop it."""
    return {"logs": f"kubectl nrl job logs {run_id} -f", "stop": f"kubectl nrl job stop {run_id}"}


def say_left_alone(session: Session, run_id: str, why: str) -> None:
    """The lines that reattach and that stop, whatever -q says."""
    commands = commands_for(run_id)
    session.output.plain(f"{why}\n  follow it again: {commands['logs']}\n  stop it: {commands['stop']}")


class LocalFollow:
    """One local run, followed. `sink` gets the log's bytes; `caught_up` is called once what was there at first is read."""

    def __init__(
        self, session: Session, run: LocalRecord, *, sink: Callable[[bytes], None], caught_up: Callable[[], None]
    ) -> None:
        from ..local import LocalJobs
        from ..watch import WandbPage

        self._session, self._run = session, run
        self._jobs = LocalJobs(session.env)
        self._sink, self._caught_up = sink, caught_up
        self._offset = 0
        self._curve, self._page = RewardCurve(), WandbPage()
        self._said = ""
        self._panel = session.output.panel()
        self._began = time.monotonic()

    def to_the_end(self, timeout: float | None = None) -> ExitCode:
        """Follow to the end, `timeout` seconds at most; the run's exit code, or that of why it is not known."""
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            while not self._over():
                if deadline is not None and time.monotonic() >= deadline:
                    return self._gave_up()
                time.sleep(PAUSE)
            return self._finish()
        except KeyboardInterrupt:
            self._panel.close()
            say_left_alone(self._session, self._run.id, "interrupted; the run goes on")
            return ExitCode.INTERRUPTED
        finally:
            self._panel.close()

    def read_rest(self) -> None:
        """Everything that the log holds now."""
        while self._read():
            pass
        self._caught_up()

    def result(self) -> LocalResult:
        session = self._session
        plain = "utf" not in (session.env.get("LC_ALL") or session.env.get("LANG") or "utf-8").lower()
        commands = commands_for(self._run.id)
        failure = of_local(session, self._run) if self._run.shown_state == FAILED else None
        return LocalResult(self._run, session.clock(), commands, self._curve, self._page.url, plain, failure)

    def _over(self) -> bool:
        """Look once: at the record first, so that a log that is read after a final state is read to its end."""
        self._look()
        self._read_all()
        return self._run.final or self._run.orphaned

    def _look(self) -> None:
        from ..local import find

        found = find(self._run.id, self._session.env)
        if found is not None:
            self._run = found
        text = self._phase()
        if self._offset:
            self._panel.close()
        else:
            self._panel.show(text, time.monotonic() - self._began)
        if text != self._said:
            self._said = text
            if not self._panel.live:
                self._session.output.progress(text)

    def _phase(self) -> str:
        run = self._run
        if run.final or run.orphaned or run.state == "RUNNING":
            where = next((role.dashboard for role in run.roles.values()), "")
            return f"running; Ray's dashboard: {where}" if where else "running"
        return run.phase or "starting"

    def _read_all(self) -> None:
        while self._read():
            pass
        self._caught_up()

    def _read(self) -> bool:
        data = self._jobs.log_chunk(self._run.id, self._offset)
        if not data:
            return False
        self._panel.close()
        self._offset += len(data)
        self._curve.feed(data)
        self._sink(data)
        url = self._page.feed(data)
        if url:
            self._session.output.progress(f"wandb: {url}")
        return True

    def _finish(self) -> ExitCode:
        output, run = self._session.output, self._run
        self._panel.close()
        result = self.result()
        output.plain(result.text())
        if run.orphaned:
            output.error(
                f"the run's supervisor is gone{self._last_words()}; what it started may be left", "kubectl nrl clean"
            )
        else:
            self._see_it_cleared()
        if output.format != "text":
            output.result(self.result())
        return ExitCode.UNKNOWN if run.orphaned and not run.final else run.exit_code

    def _last_words(self) -> str:
        """What a supervisor that failed by itself said, which one that was killed does not."""
        log = self._run.folder / "supervisor.log"
        try:
            lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        except OSError:
            return ""
        return f": {lines[-1][:300]} ({log})" if lines else ""

    def _see_it_cleared(self) -> None:
        """Wait until the run has left nothing, its supervisor included, or say what is left."""
        deadline = time.monotonic() + CLEARED
        while self._run.alive and time.monotonic() < deadline:
            time.sleep(PAUSE / 2)
        self._look()
        if not self._run.torn_down:
            left = ", ".join(map(str, self._run.left)) or "unknown"
            self._session.output.warn(f"not everything of the run is gone: processes {left}")
            self._session.output.hint("kubectl nrl clean")

    def _gave_up(self) -> ExitCode:
        self._panel.close()
        self._session.output.error(f"gave up waiting ({self._phase()}); the run goes on")
        say_left_alone(self._session, self._run.id, f"run {self._run.id}:")
        if self._session.output.format != "text":
            self._session.output.result(self.result())
        return ExitCode.GAVE_UP
