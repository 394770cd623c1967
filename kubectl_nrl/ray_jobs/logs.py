"""A driver's log by byte offset, from wherever it can be had.

The Jobs API is the last resort: it sends the whole log each time, every line end as a newline, and answers 500 when a byte of it
is no text. Its other way, the web socket of `/logs/tail`, is no better: it begins at the first line each time, ten lines a message,
breaks at a line of 4 MiB, and a connection that died looks like a silent driver (ray/dashboard/modules/job: job_head.py, utils.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from ..errors import ClusterError
from .head import Head, job_path
from .json_text import JsonText
from .whole_log import Shorter, WholeLog

#: Most bytes of a log that one request asks for.
CHUNK = 4 * 1024 * 1024
#: Seconds of silence after which a request for a part of a log has met a connection that is dead without a word.
SILENCE = 15.0
#: The same for the Jobs API, which makes the whole answer before it sends the first byte.
SILENCE_WHOLE = 60.0

#: Prints a log's bytes from a position; the words come as arguments, so that no name is read as shell.
_TAIL = '[ -f "$1" ] || exit 44; tail -c "+$2" "$1" | head -c "$3"'
_NO_FILE = 44


class DriverLogs:
    """The logs of one head's jobs."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._may_exec = head.run is not None
        #: Answers with a whole log that are read piece by piece.
        self._of_api: dict[str, WholeLog] = {}
        self._of_agent: dict[str, WholeLog] = {}

    def chunk(self, submission_id: str, offset: int, *, limit: int = CHUNK) -> bytes:
        """Bytes of the driver's log from `offset` on, at most `limit`; b"" when there are none yet.

        Exact bytes from the head's agent; where that is out of reach by exec on the head; else from the Jobs API (its text in
        UTF-8), which also knows a driver on another node. Reason `LogReplaced` when the log is now shorter than `offset`.
        """
        try:
            chunk = self._from_agent(submission_id, offset, limit)
        except ClusterError as error:
            forbidden = error.status == 403 and error.reason != "RayUnauthorized"  # the forward, not Ray
            if error.reason != "PortClosed" and not forbidden:
                raise
            chunk = self._from_exec(submission_id, offset, limit)
        return self._from_api(submission_id, offset, limit) if chunk is None else chunk

    def _from_agent(self, submission_id: str, offset: int, limit: int) -> bytes | None:
        """Raises `ClusterError` with reason `PortClosed` where there is no agent; None when it has no such file (yet)."""
        if self._head.agent is None:
            raise ClusterError("no agent", reason="PortClosed")
        if submission_id in self._of_agent:
            return _read(self._of_agent[submission_id], offset, limit, _doing(submission_id))
        path, doing = _file_path(submission_id), _doing(submission_id)
        span = {"Range": f"bytes={offset}-{offset + limit - 1}"}
        answer = self._head.ask(self._head.agent, "GET", path, span, timeout=SILENCE)
        if answer.status == 200:
            answer.close()
            whole = self._of_agent[submission_id] = WholeLog(lambda: self._file(submission_id))
            return _read(whole, offset, limit, doing)
        body = answer.read()
        if answer.status == 206:
            return body
        if answer.status == 416:
            size = answer.headers.get("content-range", "").rpartition("/")[2]
            if size.isdecimal() and int(size) < offset:
                raise _replaced(doing, int(size), offset)
            return b""
        if answer.status in (401, 403):
            raise self._head.unauthorized(answer.status, doing)
        return None

    def _from_exec(self, submission_id: str, offset: int, limit: int) -> bytes | None:
        """By `tail` on the head; given up for good once it is refused (exec is forbidden on many shared clusters)."""
        if not self._may_exec or self._head.run is None:
            return None
        path = f"{self._head.log_dir}/{log_name(submission_id)}"
        try:
            code, out, _ = self._head.run(["sh", "-c", _TAIL, "sh", path, str(offset + 1), str(limit)])
        except ClusterError as error:
            if error.reason not in ("ConnectionLost", "Timeout"):
                self._may_exec = False
            return None
        # A file that is not there may be on another node, which only the Jobs API finds.
        return None if code == _NO_FILE or code else out

    def _file(self, submission_id: str) -> Iterator[bytes]:
        """The whole log from an agent behind something that knows no ranges, as it comes."""
        assert self._head.agent is not None
        answer = self._head.ask(self._head.agent, "GET", _file_path(submission_id), timeout=SILENCE)
        try:
            if answer.status != 200:
                raise ClusterError(f"cannot {_doing(submission_id)}: HTTP {answer.status}", reason="PortClosed")
            yield from answer.chunks()
        finally:
            answer.close()

    def _from_api(self, submission_id: str, offset: int, limit: int) -> bytes:
        if submission_id not in self._of_api:
            self._of_api[submission_id] = WholeLog(lambda: self._text(submission_id))
        return _read(self._of_api[submission_id], offset, limit, _doing(submission_id))

    def _text(self, submission_id: str) -> Iterator[bytes]:
        """The whole log from the Jobs API, as it comes."""
        doing, text = _doing(submission_id), JsonText()
        answer = self._head.stream(job_path(submission_id, "/logs"), doing, timeout=SILENCE_WHOLE)
        try:
            for data in answer.chunks():
                yield text.feed(data)
        except ValueError as error:
            raise self._head.not_json(answer.status, doing) from error
        finally:
            answer.close()
        if not text.ended:
            raise self._head.not_json(answer.status, doing)

    def close(self) -> None:
        """Let go of answers that are half read."""
        for whole in (*self._of_api.values(), *self._of_agent.values()):
            whole.close()


def log_name(submission_id: str) -> str:
    """Name of a driver's log file in the head's log directory (Ray: JOB_LOGS_PATH_TEMPLATE)."""
    return f"job-driver-{submission_id}.log"


def _file_path(submission_id: str) -> str:
    """Where the agent serves it."""
    return f"/logs/{quote(log_name(submission_id), safe='')}"


def _doing(submission_id: str) -> str:
    return f"read the log of Ray job {submission_id}"


def _read(whole: WholeLog, offset: int, limit: int, doing: str) -> bytes:
    try:
        return whole.read(offset, limit)
    except Shorter as shorter:
        raise _replaced(doing, shorter.size, offset) from None


def _replaced(doing: str, size: int, offset: int) -> ClusterError:
    return ClusterError(
        f"cannot {doing} from byte {offset}: it has {size} bytes now",
        reason="LogReplaced",
    )
