"""HTTP to a port of a pod through the API server.

A forwarded TCP connection is a channel like any other, so the pool that talks to the API server keeps these too: a
request over one that is open costs a millisecond or two, and nothing listens on this machine.
"""

from __future__ import annotations

from . import errors
from .client import Client
from .patience import Patience
from .port_requests import PortRequests
from .sockets import DialError
from .stream import Endpoint, Streams, open_streams

DATA, ERROR = 0, 1
#: Bytes per message: what the kubelet's own buffers take.
_PIECE = 32 * 1024


class ForwardChannel:
    """One TCP connection to a pod's port."""

    def __init__(self, streams: Streams, what: str) -> None:
        self._streams = streams
        self._what = what
        self._spoken = False

    def send(self, data: bytes, patience: Patience) -> None:
        for start in range(0, len(data), _PIECE):
            self._streams.send(DATA, data[start : start + _PIECE], patience.renewed())

    def recv(self, patience: Patience) -> bytes:
        while (message := self._streams.recv(patience)) is not None:
            number, data = message
            if number == ERROR:
                text = f"{self._what}: {_pod_error(data)}"
                raise OSError(text) if self._spoken else DialError(text)
            if number == DATA:
                self._spoken = True
                return data
        return b""

    def stale(self) -> bool:
        return self._streams.stale()

    def fileno(self) -> int:
        return self._streams.fileno()

    def close(self) -> None:
        self._streams.close()


def _pod_error(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    return "connection refused: nothing listens there" if "refused" in text else errors.clean(text, 300)


class Forward(PortRequests):
    """HTTP requests to one port of one pod, see `PortRequests`."""

    def __init__(self, client: Client, namespace: str, pod: str, port: int) -> None:
        self._client = client
        self.namespace, self.pod, self.port = namespace, pod, port
        doing = errors.describe("port-forward to", f"port {port} of pods", pod, namespace)
        super().__init__(self.dial, doing, f"{pod}:{port}", f"localhost:{port}", client.trace, connect_timeout=20.0)

    def dial(self, patience: Patience) -> ForwardChannel:
        """A new connection to the port. Raises `ClusterError` when it is refused, `DialError`, or `Cancelled`.

        That nothing listens there is told by the first `recv`, as a `DialError`.
        """
        port = str(self.port)
        # One pair of streams to a connection, so one request id will do.
        streams = {
            kind: {"streamType": word, "port": port, "requestID": "0"} for kind, word in ((1, "error"), (0, "data"))
        }
        endpoint = Endpoint(
            self.namespace,
            self.pod,
            "portforward",
            (("ports", port),),
            self._doing,
            protocols=("v4.channel.k8s.io",),
            spdy_protocol="portforward.k8s.io",
            streams=streams,
            writes=(DATA,),
            ends=(DATA,),
            greeted=True,
        )
        return ForwardChannel(open_streams(self._client, endpoint, patience), f"port {self.port} of pod {self.pod}")
