"""Byte streams into pods through the API server: exec, and HTTP to a port.

Each forwarded connection is one WebSocket of the API server's port-forward (`v4.channel.k8s.io`: a channel byte
before the data), kept for the next request as any HTTP connection is: no local port, no thread, no child process to
look after.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from ..errors import ClusterError
from . import errors
from .client import Client
from .credentials import Proof
from .patience import Patience
from .pool import Pool, Response
from .sockets import DialError
from .websocket import WebSocket, upgrade

STDOUT, STDERR, RESULT = 1, 2, 3
_EXEC_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_FORWARD_PROTOCOLS = ("v4.channel.k8s.io",)
#: Bytes per message: what the kubelet's own buffers take.
_PIECE = 32 * 1024


@dataclass(frozen=True)
class Endpoint:
    """A streaming subresource of a pod; `doing` is what a refusal says could not be done."""

    namespace: str
    pod: str
    subresource: str
    query: tuple[tuple[str, str], ...]
    protocols: tuple[str, ...]
    doing: str

    @property
    def path(self) -> str:
        words = (quote(word, safe="") for word in (self.namespace, self.pod))
        return "/api/v1/namespaces/{}/pods/{}/{}".format(*words, self.subresource)


def open_stream(client: Client, endpoint: Endpoint, patience: Patience) -> WebSocket:
    """A WebSocket to a subresource of a pod. Raises `ClusterError` when it is refused."""
    opened: list[WebSocket] = []
    target = client.target(endpoint.path, endpoint.query)

    def ask(proof: Proof) -> Response:
        # The port-forward handler refuses a client that would have JSON.
        headers = client.headers(proof, {"Accept": "*/*"})
        channel = client.dial(patience)
        try:
            parser, first, protocol = upgrade(channel, target, headers, endpoint.protocols, patience)
        except BaseException:
            channel.close()
            raise
        if parser.status == 101:
            opened.append(WebSocket(channel, first, protocol))
        return Response(channel, parser, first, patience, lambda _: channel.close(), keep_open=parser.status == 101)

    client.upgrade_or_stream(ask, (101,), endpoint.path, endpoint.doing)
    return opened[0]


def run_command(
    client: Client, namespace: str, pod: str, command: Sequence[str], *, container: str | None, timeout: float
) -> tuple[int, bytes, bytes]:
    """Exit code, stdout and stderr of a command in a pod. Raises `ClusterError` (also when it takes longer than
    `timeout` seconds).
    """
    doing = errors.describe("exec in", "pods", pod, namespace)
    query = [("command", word) for word in command] + [("stdout", "1"), ("stderr", "1")]
    query += [("container", container)] if container else []
    patience = Patience(timeout)
    collected: dict[int, list[bytes]] = {STDOUT: [], STDERR: [], RESULT: []}
    stream = open_stream(client, Endpoint(namespace, pod, "exec", tuple(query), _EXEC_PROTOCOLS, doing), patience)
    try:
        while (message := stream.recv(patience)) is not None:
            if message and message[0] in collected:
                collected[message[0]].append(message[1:])
    except TimeoutError:
        raise ClusterError(f"cannot {doing}: the command took longer than {timeout:g} s", reason="Timeout") from None
    except OSError as error:
        raise errors.lost(client.access.server, doing, error) from error
    finally:
        stream.close()
    return exit_code(b"".join(collected[RESULT]), doing), b"".join(collected[STDOUT]), b"".join(collected[STDERR])


def exit_code(result: bytes, doing: str) -> int:
    """The exit code in the Status that ends an exec stream. Raises `ClusterError` when the command could not be run,
    or ended unknown.
    """
    try:
        status = json.loads(result)
    except ValueError:
        raise ClusterError(f"cannot {doing}: the stream ended without a result", reason="ConnectionLost") from None
    if status.get("status") == "Success":
        return 0
    for cause in (status.get("details") or {}).get("causes") or []:
        if cause.get("reason") == "ExitCode" and str(cause.get("message", "")).isdecimal():
            return int(cause["message"])
    raise ClusterError(
        f"cannot {doing}: {errors.clean(str(status.get('message') or 'failed'))}",
        reason=str(status.get("reason") or ""),
    )


class ForwardChannel:
    """One TCP connection to a pod's port, inside a WebSocket."""

    def __init__(self, stream: WebSocket, what: str) -> None:
        self._stream = stream
        self._what = what
        self._greeted: set[int] = set()
        self._spoken = False

    def send(self, data: bytes, patience: Patience) -> None:
        view = memoryview(data)
        for start in range(0, len(view), _PIECE):
            self._stream.send(b"\0" + bytes(view[start : start + _PIECE]), patience.renewed())

    def recv(self, patience: Patience) -> bytes:
        while (message := self._stream.recv(patience)) is not None:
            if not message:
                continue
            channel, data = message[0], message[1:]
            if channel not in self._greeted:
                # The first message of each channel is the port's number.
                self._greeted.add(channel)
                data = data[2:]
            if channel == 1 and data:
                text = f"{self._what}: {_pod_error(data)}"
                raise OSError(text) if self._spoken else DialError(text)
            if channel == 0 and data:
                self._spoken = True
                return data
        return b""

    def stale(self) -> bool:
        return self._stream.stale()

    def close(self) -> None:
        self._stream.close()


def _pod_error(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    return "connection refused: nothing listens there" if "refused" in text else errors.clean(text, 300)


class Forward:
    """HTTP requests to one port of one pod. Safe for several threads; connections are kept between requests and
    closed by `close`.
    """

    def __init__(self, client: Client, namespace: str, pod: str, port: int) -> None:
        self._client = client
        self.namespace, self.pod, self.port = namespace, pod, port
        self._doing = errors.describe("port-forward to", f"port {port} of pods", pod, namespace)
        self._pool = Pool(self._dial, connect_timeout=20.0)

    def _dial(self, patience: Patience) -> ForwardChannel:
        query = (("ports", str(self.port)),)
        endpoint = Endpoint(self.namespace, self.pod, "portforward", query, _FORWARD_PROTOCOLS, self._doing)
        stream = open_stream(self._client, endpoint, patience)
        return ForwardChannel(stream, f"port {self.port} of pod {self.pod}")

    def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout: float = 30.0,
        cancelled: Callable[[], bool] | None = None,
    ) -> Response:
        """Send one request; the body of the answer is read with `read()` or piece by piece with `chunks()`.

        `timeout` is the longest silence in seconds. Raises `ClusterError`: reason `Unreachable` when nothing was sent
        (the port does not answer, the forward was refused: its status), `ConnectionLost` or `Timeout` when the
        outcome is unknown.
        """
        words = {"Host": f"localhost:{self.port}", "User-Agent": "kubectl-nrl", **(headers or {})}
        started = time.monotonic()
        try:
            response = self._pool.request(method, path, words, body, timeout=timeout, cancelled=cancelled)
        except OSError as error:
            raise self._broken(error) from error
        spent = (time.monotonic() - started) * 1000
        where = f"{self.pod}:{self.port}{path.partition('?')[0]}"
        self._client.trace(f"{method} {where} {response.status} in {spent:.0f} ms")
        response.translate = self._broken
        return response

    def _broken(self, error: OSError) -> ClusterError:
        reason = (
            "Unreachable"
            if isinstance(error, DialError)
            else "Timeout"
            if isinstance(error, TimeoutError)
            else "ConnectionLost"
        )
        return ClusterError(f"cannot {self._doing}: {errors.clean(str(error))}", reason=reason)

    def close(self) -> None:
        self._pool.close()

    def __enter__(self) -> Forward:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
