"""Waits until a dashboard works, asked the way a browser will ask it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from ..cluster.pool import Pool
from ..cluster.sockets import SocketChannel, connect
from ..errors import ClusterError, ExitCode, NrlError
from .local_port import LOOPBACK
from .page import Ask, Seen

#: Seconds between two looks, and the longest silence of one answer.
PAUSE, ANSWER = 0.5, 30.0


class Trouble:
    """The last reason for which a connection to the dashboard could not be made."""

    def __init__(self) -> None:
        self._last: Exception | None = None

    def note(self, error: Exception) -> None:
        self._last = error

    def take(self) -> Exception | None:
        """That reason, forgotten from here on."""
        last, self._last = self._last, None
        return last


def asker(port: int, headers: Mapping[str, str]) -> tuple[Ask, Callable[[], None]]:
    """Asks the local port for paths, over connections that are kept; the second closes them."""
    pool = Pool(lambda patience: SocketChannel(connect(LOOPBACK, port, patience)))
    words = {"Host": f"{LOOPBACK}:{port}", "User-Agent": "kubectl-nrl", **headers}

    def ask(path: str) -> tuple[int, bytes]:
        with pool.request("GET", path, words, timeout=ANSWER) as response:
            return response.status, response.read()

    return ask, pool.close


def until_decided(
    see: Callable[[], Seen],
    trouble: Trouble,
    say: Callable[[str], None],
    deadline: float,
    pause: Callable[[float], None] = time.sleep,
) -> Seen:
    """Look until the dashboard works, or fails for a reason that waiting does not mend (`blank`, `missing`).

    `say` is told what is waited for, once per change; `deadline` is a time of `time.monotonic`. Raises `ClusterError` when it can never be
    reached (forbidden, gone), and `NrlError` at the deadline.
    """
    said = ""
    while True:
        try:
            seen = see()
            if seen.works or seen.blank or seen.missing:
                return seen
            words = seen.words
        except (OSError, ClusterError) as error:
            words = str(error)
        reason = trouble.take()
        if isinstance(reason, ClusterError) and is_final(reason):
            raise reason
        words = str(reason) if reason else words
        if words != said:
            said = words
            say(f"waiting for the dashboard: {words}")
        if time.monotonic() >= deadline:
            raise NrlError(f"the dashboard did not answer in time: {words}", exit_code=ExitCode.GAVE_UP)
        pause(PAUSE)


def is_final(error: ClusterError) -> bool:
    """Whether trying again cannot help: Kubernetes forbids it, or the cluster is gone."""
    return error.status in (401, 403) or error.reason == "Gone"
