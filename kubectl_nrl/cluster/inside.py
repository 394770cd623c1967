"""HTTP to a port of a pod from inside the cluster: straight to its Service or address, as any pod reaches any other.

Where that does not answer (a NetworkPolicy, a name that no DNS here knows) the API server's forward is the way after all: it is chosen
while connecting, when nothing of a request was sent.
"""

from __future__ import annotations

from collections.abc import Callable

from . import errors
from .dial import Address
from .forward import Forward
from .patience import Patience
from .port_requests import PortRequests
from .sockets import Channel, DialError

#: Seconds that a connection inside the cluster may take: a policy that drops packets must not hold things up.
CONNECT_SECONDS = 3.0


class Inside(PortRequests):
    """One port, by `host` or through `forward`; see `PortRequests`."""

    def __init__(self, host: str, forward: Forward, trace: Callable[[str], None]) -> None:
        self._address, self._forward, self._forwarding = Address(host, forward.port), forward, False
        where = f"{host}:{forward.port}"
        super().__init__(self._dial, errors.describe("connect to", where), where, where, trace, connect_timeout=20.0)

    def _dial(self, patience: Patience) -> Channel:
        if not self._forwarding:
            try:
                return self._address.dial(patience.within(CONNECT_SECONDS))
            except DialError as error:
                self._trace(f"{errors.clean(str(error))}; through the API server instead")
                self._forwarding = True
        return self._forward.dial(patience)
