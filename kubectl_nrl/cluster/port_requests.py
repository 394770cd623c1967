"""HTTP requests to one port of a pod, whatever way its connections are made."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from ..errors import ClusterError
from . import errors
from .patience import Patience
from .pool import Pool, Response
from .sockets import Channel, DialError
from .wire import Pieces


class PortRequests:
    """Safe for several threads; connections are kept between requests and closed by `close`.

    `doing` is what an error says could not be done, `where` names the port in the trace.
    """

    def __init__(
        self, dial: Callable[[Patience], Channel], doing: str, where: str, host: str, trace: Callable[[str], None],
        *, connect_timeout: float,
    ) -> None:  # fmt: skip
        self._doing, self._where, self._host, self._trace = doing, where, host, trace
        self._pool = Pool(dial, connect_timeout=connect_timeout)

    def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | Pieces = b"",
        *,
        timeout: float = 30.0,
        cancelled: Callable[[], bool] | None = None,
    ) -> Response:
        """Send one request; the body of the answer is read with `read()` or piece by piece with `chunks()`.

        `timeout` is the longest silence in seconds. Raises `ClusterError`: reason `PortClosed` when nothing listens
        there (a refused forward has its status, an API server that is away `Unreachable`), `ConnectionLost` or
        `Timeout` when the outcome is unknown.
        """
        words = {"Host": self._host, "User-Agent": "kubectl-nrl", **(headers or {})}
        started = time.monotonic()
        try:
            response = self._pool.request(method, path, words, body, timeout=timeout, cancelled=cancelled)
        except OSError as error:
            raise self._broken(error) from error
        spent = (time.monotonic() - started) * 1000
        self._trace(f"{method} {self._where}{path.partition('?')[0]} {response.status} in {spent:.0f} ms")
        response.translate = self._broken
        return response

    def _broken(self, error: OSError) -> ClusterError:
        reason = "ConnectionLost"
        if isinstance(error, DialError):
            reason = "PortClosed"
        elif isinstance(error, TimeoutError):
            reason = "Timeout"
        return ClusterError(f"cannot {self._doing}: {errors.clean(str(error))}", reason=reason)

    def close(self) -> None:
        self._pool.close()

    def __enter__(self) -> PortRequests:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
