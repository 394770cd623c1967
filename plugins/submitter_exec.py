"""The submitter that starts the driver in the head's container, through the API server's exec.

The driver belongs to no connection: it has its own session, and its log, process and exit status are kept on the head, in
`<submit.execTmpDir>/nrl-<user>/<run id>/`. Ray sees it as one that somebody
started by hand, whose metadata names the run.
"""

from __future__ import annotations

import json
import secrets
import shlex
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from kubectl_nrl import hookimpl
from kubectl_nrl.api import CodeSource, Connection, Context, Problem, RunInfo, State, Submission, Submitter
from kubectl_nrl.errors import ClusterError
from kubectl_nrl.written import origin

from .log_bytes import log_bytes

if TYPE_CHECKING:
    from kubectl_nrl.exec_jobs import Answer, HeadDriver

#: Seconds between looks at a log after a lost connection.
PAUSE = 0.5
#: Seconds that the head waits for news before it answers that there is none.
WAIT = 2.0
#: Seconds for which what a waiting reader was told is taken for the state: it is told at once when that changes.
FRESH = WAIT + 1.0


@dataclass
class _Seen:
    """The last answer of one driver, and when; `waiting` while a reader waits on the head for the next one."""

    answer: Answer
    at: float
    offset: int = -1
    waiting: bool = False


class ExecSubmitter(Submitter):
    name = "exec"
    summary = "started in the head pod, through pods/exec"
    reached_by = "exec"
    takes_script = True
    in_ray = False

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, str], _Seen] = {}

    def refuses(self, code: CodeSource, ctx: Context) -> str | None:
        """Ray unpacks an uploaded working directory for the jobs that are submitted to it, and this is none."""
        if code.traits.uploads:
            return "the exec submitter starts the code that is on the pod: use --code-source image or lustre"
        return None

    def problems(self, ctx: Context) -> Iterable[Problem]:
        directory = str(ctx.get("submit.execTmpDir", "/tmp"))
        if not directory.startswith("/") or "\n" in directory:
            yield Problem(
                f'submit.execTmpDir "{directory}" is no absolute path', origin(ctx, "submit", "execTmpDir"), hint="/tmp"
            )

    def place(self, run: RunInfo, submission: Submission) -> str:
        return f"{submission.tmp_dir.rstrip('/')}/nrl-{run.user.name}/{run.id}"

    def submit(self, run: RunInfo, connection: Connection, submission: Submission) -> RunInfo:
        """Start it, exactly once. Raises `ClusterError`, with reason `AlreadyExists` for a run's directory that is taken."""
        try:
            self._driver(run, connection).start(_script(submission), secrets.token_hex(8))
        except ClusterError as error:
            if error.status != 403:
                raise
            raise forbidden(error.message) from error
        return run

    def state(self, run: RunInfo, connection: Connection) -> State:
        seen = self._seen.get(self._key(run, connection))
        if seen is not None and seen.waiting and time.monotonic() - seen.at < FRESH:
            answer = seen.answer
        else:
            answer = self._driver(run, connection).look()
        return State(answer.status, answer.message, _time(answer.ended), 0 if answer.live else len(answer.left))

    def logs(self, run: RunInfo, connection: Connection, *, follow: bool, offset: int) -> Iterator[bytes]:
        """The driver's log from that byte on; what is written last is read after the state is final."""

        def over() -> bool:
            return not follow or self.state(run, connection).status != "RUNNING"

        return log_bytes(lambda at: self._read(run, connection, at), over, offset, pause=PAUSE)

    def stop(self, run: RunInfo, connection: Connection, *, force: bool = False) -> None:
        """End the driver and all that it started: SIGTERM, SIGKILL after some seconds (at once with `force`). It is over then.

        Raises `ClusterError` for a driver that the head does not know, and for processes that a kill does not end.
        """
        from kubectl_nrl.exec_jobs import GRACE

        answer = self._driver(run, connection).stop(grace=0.0 if force else GRACE)
        if answer.status == "UNKNOWN":
            raise ClusterError(f"run {run.id}: {answer.message}", reason="NotFound")

    def _read(self, run: RunInfo, connection: Connection, offset: int) -> bytes:
        """A piece of the log. The second time that there is nothing from `offset` on, the head waits for it."""
        key = self._key(run, connection)
        seen = self._seen.get(key)
        waits = seen is not None and seen.offset == offset and seen.answer.live
        if seen is not None:
            seen.waiting = waits
        try:
            answer = self._driver(run, connection).read(offset, WAIT if waits else 0.0)
        except BaseException:
            self._seen.pop(key, None)
            raise
        self._seen[key] = _Seen(answer, time.monotonic(), -1 if answer.log else offset, waits and answer.live)
        return answer.log

    def _driver(self, run: RunInfo, connection: Connection) -> HeadDriver:
        from kubectl_nrl.exec_jobs import HeadDriver

        return HeadDriver(connection.jobs.run, run.place)

    def _key(self, run: RunInfo, connection: Connection) -> tuple[str, str, str]:
        return connection.namespace, str(connection.jobs.life), run.place


def _time(seconds: int | None) -> datetime | None:
    """Seconds since 1970 by the head's clock, whatever that says."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None


def _script(submission: Submission) -> str:
    """The launch script, with what Ray reads where a driver connects to it (RAY_JOB_CONFIG_JSON_ENV_VAR): so it shows whose it is."""
    config = json.dumps({"metadata": dict(submission.metadata)})
    return f"export RAY_JOB_CONFIG_JSON_ENV_VAR={shlex.quote(config)}\n{submission.script}"


def forbidden(why: str) -> ClusterError:
    """Exec is not allowed, as on many shared clusters."""
    return ClusterError(
        f"the exec submitter needs exec in the head pod: {why}; nothing was started",
        "--submitter portForward does without",
        status=403,
        reason="Forbidden",
    )


@hookimpl
def nrl_submitters() -> Iterator[Submitter]:
    yield ExecSubmitter()
