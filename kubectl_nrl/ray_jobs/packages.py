"""Working directories as Ray keeps them: packages under content-addressed names, sent to the head once.

Ray stores a package when it has read the whole body, so one that was cut off is not there, and asking is enough to know whether
it must be sent again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from ..errors import ClusterError
from .head import Body, Head, told

#: Answers that say nothing about the package: a connection broke, or the API server or the head's port was away.
PASSING = frozenset({"ConnectionLost", "Timeout", "Unreachable", "PortClosed"})
#: Seconds during which a cut upload is tried again, and between tries.
PATIENCE, PAUSE = 180.0, 2.0
#: Longest silence of Ray after the last byte: it writes the package into its store.
ANSWER = 120.0


class Packages:
    """The packages of one head."""

    def __init__(self, head: Head) -> None:
        self._head = head

    def exists(self, name: str) -> bool:
        """Whether Ray has it. Raises `ClusterError`."""
        status, body = self._head.send("GET", _path(name), "look for the uploaded code")
        if status == 404:
            return False
        if status >= 300:
            raise _refused(self._head, status, body)
        return True

    def upload(self, name: str, body: Body, progress: Callable[[int], None] = lambda sent: None) -> int:
        """Send the package unless Ray has it; the bytes of the sending that arrived, 0 when it was there.

        A connection that breaks is tried again for `PATIENCE` seconds, from the start: Ray keeps no part of a body. `progress` is
        told the bytes sent so far. Raises `ClusterError`, with a reason in `PASSING` when it ran out of patience.
        """
        deadline, sent = time.monotonic() + PATIENCE, 0
        while True:
            try:
                if self.exists(name):
                    return sent
                sent = len(body)
                progress(0)
                status, answer = self._head.send(
                    "PUT", _path(name), "upload the code", {"Content-Type": "application/octet-stream"},
                    _Counted(body, progress), timeout=ANSWER,
                )  # fmt: skip
                if status >= 300:
                    raise _refused(self._head, status, answer)
                return sent
            except ClusterError as error:
                if not passing(error) or time.monotonic() >= deadline:
                    raise
            time.sleep(PAUSE)


def passing(error: ClusterError) -> bool:
    """Whether an error may be over in a moment, and says nothing of what the other side did."""
    return error.reason in PASSING or error.status in (502, 503, 504)


class _Counted:
    """A body that tells how much of it was read."""

    def __init__(self, body: Body, progress: Callable[[int], None]) -> None:
        self._body, self._progress = body, progress

    def __len__(self) -> int:
        return len(self._body)

    def __iter__(self) -> Iterator[bytes]:
        sent = 0
        for piece in self._body:
            yield piece
            sent += len(piece)
            self._progress(sent)


def _path(name: str) -> str:
    return f"/api/packages/gcs/{name}"


def _refused(head: Head, status: int, body: bytes) -> ClusterError:
    said = "the upload is larger than it accepts (100 MiB)" if status == 413 else told(body) or f"HTTP {status}"
    return ClusterError(
        f"Ray on {head.where} does not take the uploaded code: {said}", status=status, reason="RayRefused"
    )
