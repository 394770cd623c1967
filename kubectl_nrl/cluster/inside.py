"""HTTP to a port of a pod from inside the cluster: straight to its Service or address, as any pod reaches any other.

Where that does not answer (a NetworkPolicy, a name that no DNS here knows) the API server's forward is the way after all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..errors import ClusterError
from . import errors
from .dial import Address
from .forward import Forward
from .pool import Response
from .port_requests import PortRequests
from .wire import Pieces

#: Seconds that a connection inside the cluster may take: a policy that drops packets must not hold things up.
CONNECT_SECONDS = 3.0


class Inside(PortRequests):
    """One port, by `host` or through `forward`; see `PortRequests`."""

    def __init__(self, host: str, forward: Forward, trace: Callable[[str], None]) -> None:
        self._forward, self._forwarding = forward, False
        address = Address(host, forward.port)
        where = f"{host}:{forward.port}"
        super().__init__(
            address.dial, errors.describe("connect to", where), where, where, trace, connect_timeout=CONNECT_SECONDS
        )

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
        if not self._forwarding:
            try:
                return super().request(method, path, headers, body, timeout=timeout, cancelled=cancelled)
            except ClusterError as error:
                if error.reason != "PortClosed":
                    raise
                self._trace(f"{error.message}; through the API server instead")
                self._forwarding = True  # nothing was sent yet
        return self._forward.request(method, path, headers, body, timeout=timeout, cancelled=cancelled)

    def close(self) -> None:
        super().close()
        self._forward.close()
