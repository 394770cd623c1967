"""A driver's log by byte offset, from wherever it can be had.

The Jobs API is the last resort: it sends the whole log each time, and answers 500 when a byte of it is no text.
"""

from __future__ import annotations

from urllib.parse import quote

from ..errors import ClusterError
from .head import Head, job_path

#: Most bytes of a log that one request asks for.
CHUNK = 4 * 1024 * 1024
#: Seconds of silence after which a request for a part of a log has met a connection that is dead without a word.
SILENCE = 15.0

#: Prints a log's bytes from a position; the words come as arguments, so that no name is read as shell.
_TAIL = '[ -f "$1" ] || exit 44; tail -c "+$2" "$1" | head -c "$3"'
_NO_FILE = 44


class DriverLogs:
    """The logs of one head's jobs."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._may_exec = head.run is not None

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
        path = f"/logs/{quote(log_name(submission_id), safe='')}"
        doing = f"read the log of Ray job {submission_id}"
        span = {"Range": f"bytes={offset}-{offset + limit - 1}"}
        answer = self._head.ask(self._head.agent, "GET", path, span, timeout=SILENCE)
        body = answer.read()
        if answer.status == 206:
            return body
        if answer.status == 200:
            return _after(body, offset, limit, doing)
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

    def _from_api(self, submission_id: str, offset: int, limit: int) -> bytes:
        doing = f"read the log of Ray job {submission_id}"
        answer = self._head.json("GET", job_path(submission_id, "/logs"), doing)
        return _after(str(answer.get("logs") or "").encode("utf-8", "surrogatepass"), offset, limit, doing)


def log_name(submission_id: str) -> str:
    """Name of a driver's log file in the head's log directory (Ray: JOB_LOGS_PATH_TEMPLATE)."""
    return f"job-driver-{submission_id}.log"


def _after(whole: bytes, offset: int, limit: int, doing: str) -> bytes:
    if len(whole) < offset:
        raise _replaced(doing, len(whole), offset)
    return whole[offset : offset + limit]


def _replaced(doing: str, size: int, offset: int) -> ClusterError:
    return ClusterError(
        f"cannot {doing} from byte {offset}: it has {size} bytes now",
        reason="LogReplaced",
    )
