"""Byte streams into pods through the API server: exec, and TCP to a port.

Each is a connection of its own, over WebSocket (`v4.channel.k8s.io`: a channel byte before the data), or over SPDY
where the WebSocket is refused: no local port, no thread, no child process to look after.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

from ..errors import ClusterError
from . import errors
from .client import Client
from .credentials import Proof
from .patience import Patience
from .pool import Response, exchange
from .sockets import Channel
from .spdy import SpdyStreams
from .websocket import WebSocket, upgrade
from .wire import Headers, Request, ResponseParser

STDIN, STDOUT, STDERR, RESULT = 0, 1, 2, 3
_EXEC_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
#: What each channel of an exec is called when it is a SPDY stream.
_EXEC_STREAMS = {RESULT: {"streamType": "error"}, STDOUT: {"streamType": "stdout"}, STDERR: {"streamType": "stderr"}}
_STDIN_STREAM = {STDIN: {"streamType": "stdin"}}
#: Bytes of one message to a command; what the server reads is limited.
_PIECE = 32 * 1024
#: Refusals of a WebSocket that SPDY may get past: no `get`, or a proxy that knows no WebSocket.
_TRY_SPDY = (400, 403, 405, 426, 501, 502)


@dataclass(frozen=True)
class Endpoint:
    """A streaming subresource of a pod; `doing` is what a refusal says could not be done.

    `protocols` are asked for over WebSocket and `spdy_protocol` over SPDY, where `streams` are opened (number:
    headers); the end of those in `ends` is the end.
    """

    namespace: str
    pod: str
    subresource: str
    query: tuple[tuple[str, str], ...]
    doing: str
    protocols: tuple[str, ...]
    spdy_protocol: str
    streams: Mapping[int, Mapping[str, str]]
    writes: tuple[int, ...]
    ends: tuple[int, ...]
    greeted: bool = False

    @property
    def path(self) -> str:
        words = (quote(word, safe="") for word in (self.namespace, self.pod))
        return "/api/v1/namespaces/{}/pods/{}/{}".format(*words, self.subresource)

    @property
    def can_i(self) -> str:
        return f"create pods/{self.subresource} -n {self.namespace}"


class Streams(Protocol):
    """Numbered byte streams over one connection; `recv` returns None at the end."""

    def send(self, number: int, data: bytes, patience: Patience) -> None: ...
    def recv(self, patience: Patience) -> tuple[int, bytes] | None: ...
    def stale(self) -> bool: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...


class WebSocketStreams:
    """Numbered streams over a WebSocket.

    `greeted`: the first message of each channel is a greeting (the port's number).
    """

    def __init__(self, socket: WebSocket, greeted: bool) -> None:
        self._socket = socket
        self._silent: set[int] | None = set() if greeted else None

    def send(self, number: int, data: bytes, patience: Patience) -> None:
        self._socket.send(bytes([number]) + data, patience)

    def recv(self, patience: Patience) -> tuple[int, bytes] | None:
        while (message := self._socket.recv(patience)) is not None:
            if not message:
                continue
            number, data = message[0], message[1:]
            if self._silent is not None and number not in self._silent:
                self._silent.add(number)
                data = data[2:]
            if data:
                return number, data
        return None

    def stale(self) -> bool:
        return self._socket.stale()

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()


def open_streams(client: Client, endpoint: Endpoint, patience: Patience) -> Streams:
    """Connect to a subresource of a pod. Raises `ClusterError` when it is refused."""
    if endpoint.subresource not in client.spdy_only:
        try:
            return _by_websocket(client, endpoint, patience)
        except ClusterError as error:
            if error.status not in _TRY_SPDY:
                raise
            streams = _by_spdy(client, endpoint, patience)
            client.spdy_only.add(endpoint.subresource)
            return streams
    return _by_spdy(client, endpoint, patience)


#: Sends the upgrade on a new channel: the answer's head, and the bytes that came behind it.
_Ask = Callable[[Channel, Headers], tuple[ResponseParser, bytes]]


def _upgraded(client: Client, endpoint: Endpoint, method: str, ask: _Ask, patience: Patience) -> tuple[Channel, bytes]:
    """A channel that speaks another protocol from here on, and its first bytes."""
    opened: list[tuple[Channel, bytes]] = []

    def send(proof: Proof) -> Response:
        # The port-forward handler refuses a client that would have JSON.
        headers = client.headers(proof, {"Accept": "*/*"})
        channel = client.dial(patience)
        try:
            parser, first = ask(channel, headers)
        except BaseException:
            channel.close()
            raise
        done = parser.status == 101
        if done:
            opened.append((channel, parser.rest))
        return Response(channel, parser, first, patience, lambda _: channel.close(), keep_open=done)

    words = {"method": method, "path": endpoint.path, "doing": endpoint.doing, "can_i": endpoint.can_i}
    client.upgrade_or_stream(send, (101,), **words)
    return opened[0]


def _by_websocket(client: Client, endpoint: Endpoint, patience: Patience) -> Streams:
    target = client.target(endpoint.path, endpoint.query)

    def ask(channel: Channel, headers: Headers) -> tuple[ResponseParser, bytes]:
        return upgrade(channel, target, headers, endpoint.protocols, patience)

    channel, first = _upgraded(client, endpoint, "GET", ask, patience)
    return WebSocketStreams(WebSocket(channel, first), endpoint.greeted)


def _by_spdy(client: Client, endpoint: Endpoint, patience: Patience) -> Streams:
    words = {
        "Connection": "Upgrade",
        "Upgrade": "SPDY/3.1",
        "X-Stream-Protocol-Version": endpoint.spdy_protocol,
        "Content-Length": "0",
    }
    # Over SPDY the ports are said by the streams.
    query = tuple(pair for pair in endpoint.query if pair[0] != "ports")
    target = client.target(endpoint.path, query)

    def ask(channel: Channel, headers: Headers) -> tuple[ResponseParser, bytes]:
        return exchange(channel, Request("POST", target, {**headers, **words}), patience)

    channel, first = _upgraded(client, endpoint, "POST", ask, patience)
    try:
        streams = SpdyStreams(channel, first, endpoint.ends)
        for number, headers in endpoint.streams.items():
            streams.open(number, headers, patience, half=number not in endpoint.writes)
        return streams
    except OSError as error:
        channel.close()
        raise errors.lost(client.access.server, endpoint.doing, error) from error


def run_command(
    client: Client, namespace: str, pod: str, command: Sequence[str], *, container: str | None, timeout: float,
    stdin: bytes = b"",
) -> tuple[int, bytes, bytes]:  # fmt: skip
    """Exit code, stdout and stderr of a command in a pod, which is given `stdin`.

    The end of its input is not told to the command (`v4.channel.k8s.io` cannot): it has to know how much it gets. Raises
    `ClusterError`, also when it takes longer than `timeout` seconds (the command may go on).
    """
    doing = errors.describe("exec in", "pods", pod, namespace)
    query = [("command", word) for word in command] + [("stdout", "1"), ("stderr", "1")]
    query += [("stdin", "1")] if stdin else []
    query += [("container", container)] if container else []
    endpoint = Endpoint(
        namespace,
        pod,
        "exec",
        tuple(query),
        doing,
        protocols=_EXEC_PROTOCOLS,
        spdy_protocol="v4.channel.k8s.io",
        streams={**_EXEC_STREAMS, **(_STDIN_STREAM if stdin else {})},
        writes=(STDIN,) if stdin else (),
        ends=tuple(_EXEC_STREAMS),
    )
    patience = Patience(timeout)
    collected: dict[int, list[bytes]] = {STDOUT: [], STDERR: [], RESULT: []}
    streams = open_streams(client, endpoint, patience)
    try:
        for start in range(0, len(stdin), _PIECE):
            streams.send(STDIN, stdin[start : start + _PIECE], patience)
        while (message := streams.recv(patience)) is not None:
            if message[0] in collected:
                collected[message[0]].append(message[1])
    except TimeoutError:
        raise ClusterError(f"cannot {doing}: the command took longer than {timeout:g} s", reason="Timeout") from None
    except OSError as error:
        raise errors.lost(client.access.server, doing, error) from error
    finally:
        streams.close()
    return exit_code(b"".join(collected[RESULT]), doing), b"".join(collected[STDOUT]), b"".join(collected[STDERR])


def exit_code(result: bytes, doing: str) -> int:
    """The exit code in the Status that ends an exec stream.

    Raises `ClusterError` when the command could not be run, or how it ended is unknown.
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
    said = errors.clean(str(status.get("message") or "failed"))
    raise ClusterError(f"cannot {doing}: {said}", reason=str(status.get("reason") or ""))
