"""A proxy between a client and the API server that does harm on demand and is invisible otherwise.

It ends TLS on both sides, since a cut within TLS looks different to a client than one within plain HTTP. Watches, logs
and upgraded connections (exec, port-forward) pass as they arrive. Clients speak HTTP/1.1 here; Go clients adapt.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import shutil
import socket
import ssl
import struct
import tempfile
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from waiting import PATIENCE

from . import certificates
from .fault_upstream import Upstream
from .faults import Faults, Rule
from .http_framing import PIECE, Head, body, has_body, read_head
from .state import State, free_port

_T = TypeVar("_T")
_OWN_TOKEN = "through-the-fault-proxy"


@dataclass(frozen=True)
class Seen:
    """A request that came by, and the status of its answer (0 when it was cut before one)."""

    method: str
    target: str
    status: int


class FaultProxy(Faults):
    """A running proxy; use it as a context manager. Faults are set by the methods here and of `Faults`.

    `kubeconfig` is the path of one that leads through the proxy with the same rights; a client that sends a bearer
    token of its own keeps that identity.
    """

    def __init__(self, kubeconfig: str | Path) -> None:
        super().__init__()
        self._directory = Path(tempfile.mkdtemp(prefix="fault-proxy-"))
        self._upstream = Upstream(Path(kubeconfig), self._directory)
        self._place = _taken_place()
        self._port = int(self._place.getsockname()[1])
        state = State(self._directory, "proxy")
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(*certificates.server(state, "proxy", ["127.0.0.1", "localhost"]))
        self._tls.set_alpn_protocols(["http/1.1"])
        self.kubeconfig = self._write_kubeconfig(certificates.authority(state))
        self.seen: list[Seen] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._gates: dict[asyncio.StreamWriter, asyncio.Event] = {}  # of each client's connection
        self._server: asyncio.Server | None = None
        self._allowing: asyncio.TimerHandle | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        self._call(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        self._place.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def cut(self) -> int:
        """Reset all connections that are open now and return how many clients that were."""
        return self._call(self._cut())

    def refuse(self, seconds: float | None = None) -> None:
        """Refuse new connections for that long, or until `allow`; open ones stay (cut them as well for an outage)."""
        self._call(self._refuse(seconds))

    def allow(self) -> None:
        """Accept connections again, and let bytes pass again."""
        self._call(self._allow())

    def freeze(self) -> None:
        """Let no byte pass on the connections that are open now, without a word, as a firewall that forgot them does.

        New connections work; the frozen ones stay so until they are cut, or until `allow`.
        """
        self._call(self._freeze())

    def open_connections(self) -> int:
        """Return how many connections are open, to clients and to the API server together."""
        return len(self._writers)

    async def _listen(self) -> None:
        limit = 4 * 1024 * 1024  # the longest head or line
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self._port, ssl=self._tls, limit=limit, reuse_address=True, reuse_port=True
        )

    async def _freeze(self) -> None:
        for gate in self._gates.values():
            gate.clear()

    async def _refuse(self, seconds: float | None) -> None:
        await self._stop_listening()
        if seconds is not None:
            self._allowing = self._loop.call_later(seconds, lambda: self._loop.create_task(self._allow()))

    async def _allow(self) -> None:
        for gate in self._gates.values():
            gate.set()
        if not self._server or not self._server.is_serving():
            await self._listen()

    async def _cut(self) -> int:
        writers = list(self._writers)
        for writer in writers:
            _reset(writer)
        # A connection that its peer has closed has no address any more.
        return sum((writer.get_extra_info("sockname") or (None, None))[1] == self._port for writer in writers)

    async def _close(self) -> None:
        if self._allowing:
            self._allowing.cancel()
        await self._stop_listening()
        await self._cut()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await _turns()  # what they ended is closed one step later

    async def _stop_listening(self) -> None:
        """Close the listening socket, and lose none of those accepted: asyncio drops them open when its server is closed
        before their first step."""
        assert self._server
        for listening in self._server.sockets:
            self._loop.remove_reader(listening.fileno())
        await _turns()
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        gate = self._gates[writer] = asyncio.Event()
        gate.set()
        passing = _Passing(self, reader, writer, gate)
        # A client that leaves must end its watch at the API server too, though nothing arrives that could fail.
        left = self._loop.create_task(_when_closed(writer, passing.drop_upstream))
        try:
            while await passing.one_request():
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ssl.SSLError):
            _reset(writer)  # the other side went away within a message; say so in the same way
        except asyncio.CancelledError:
            pass  # the proxy ends; streams of Python 3.11 would report a task that ended so as a fault
        finally:
            passing.drop_upstream()
            self._writers.discard(writer)
            del self._gates[writer]
            writer.close()
            left.cancel()

    def _write_kubeconfig(self, authority: Path) -> Path:
        ca = base64.b64encode(authority.read_bytes()).decode()
        server = {"server": f"https://127.0.0.1:{self._port}", "certificate-authority-data": ca}
        context = {"cluster": "proxy", "user": "proxy", "namespace": self._upstream.namespace}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": server}],
            "users": [{"name": "proxy", "user": {"token": _OWN_TOKEN}}],
            "contexts": [{"name": "proxy", "context": context}],
        }
        path = self._directory / "kubeconfig"
        path.write_text(json.dumps(config))
        return path

    def _call(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)


class _Passing:
    """One client's connection: its requests in turn, each passed on or answered with a fault."""

    def __init__(
        self, proxy: FaultProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event
    ) -> None:
        self._proxy, self._reader, self._writer, self._gate = proxy, reader, writer, gate
        self._up: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._identified = True

    def drop_upstream(self) -> None:
        """End the connection to the API server."""
        if self._up:
            self._proxy._writers.discard(self._up[1])
            self._up[1].transport.abort()
            self._up = None

    async def one_request(self) -> bool:
        """Serve one request; False when the connection is over."""
        request = await read_head(self._reader)
        if request is None:
            return False
        await self._gate.wait()
        method, target, _ = request.words
        rules = self._proxy.meet(method, target)
        await asyncio.sleep(sum(rule.delay for rule in rules))
        for rule in rules:
            if rule.status is not None:
                return await self._answer(rule, request)
        return await self._pass(request, next((rule for rule in rules if rule.cut_after is not None), None))

    async def _answer(self, rule: Rule, request: Head) -> bool:
        if has_body(request):
            async for _ in body(self._reader, request):
                pass
        self._note(request, rule.status or 0)
        self._writer.write(rule.answer())
        await self._writer.drain()
        return True

    async def _pass(self, request: Head, cut: Rule | None) -> bool:
        up_reader, up_writer = await self._connected(request)
        up_writer.write(self._with_credentials(request).encode())
        if has_body(request):
            async for piece in body(self._reader, request):
                up_writer.write(piece)
                await up_writer.drain()
        response = await read_head(up_reader)
        while response and response.words[1] == "100":
            self._writer.write(response.encode())
            response = await read_head(up_reader)
        if response is None:
            raise ConnectionResetError("the API server closed the connection")
        self._note(request, int(response.words[1]))
        cut_after = cut.cut_after if cut else None
        head = response.encode()
        if cut and cut.whole:
            await _copy(_one(head), self._writer, cut.cut_after, self._gate)
            cut_after = (cut.cut_after or 0) - len(head)
        else:
            self._writer.write(head)
            await self._writer.drain()
        if response.words[1] == "101":
            await self._tunnel(up_reader, up_writer, cut_after)
            return False
        if has_body(request, response):
            await _copy(body(up_reader, response), self._writer, cut_after, self._gate)
        return "close" not in (request.get("Connection").lower(), response.get("Connection").lower())

    async def _connected(self, request: Head) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        identified = request.get("Authorization") in ("", f"Bearer {_OWN_TOKEN}")
        if self._up and (self._identified != identified or self._up[0].at_eof()):
            self.drop_upstream()
        if not self._up:
            self._up = await self._proxy._upstream.connect(identified)
            self._identified = identified
            self._proxy._writers.add(self._up[1])
        return self._up

    def _with_credentials(self, request: Head) -> Head:
        if not self._identified:
            return request
        bare = request.without("Authorization")
        token = self._proxy._upstream.token
        return Head(bare.first, [*bare.headers, *([("Authorization", f"Bearer {token}")] if token else [])])

    async def _tunnel(
        self, up_reader: asyncio.StreamReader, up_writer: asyncio.StreamWriter, cut_after: int | None
    ) -> None:
        ways = [
            asyncio.ensure_future(_copy(_pieces(self._reader), up_writer, None, self._gate)),
            asyncio.ensure_future(_copy(_pieces(up_reader), self._writer, cut_after, self._gate)),
        ]
        done, running = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in running:
            way.cancel()
        for way in done:
            way.result()

    def _note(self, request: Head, status: int) -> None:
        self._proxy.seen.append(Seen(request.words[0], request.words[1], status))


def _taken_place() -> socket.socket:
    """A socket that holds a port and does not listen: until it is closed the port is nobody else's, also while the proxy refuses."""
    place = socket.socket()
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # the proxy's own
    place.bind(("127.0.0.1", free_port(set())))
    return place


async def _pieces(reader: asyncio.StreamReader) -> Any:
    while piece := await reader.read(PIECE):
        yield piece


async def _one(piece: bytes) -> Any:
    yield piece


async def _copy(pieces: Any, writer: asyncio.StreamWriter, cut_after: int | None, gate: asyncio.Event) -> None:
    """Pass pieces on as they come, while the gate is open; after `cut_after` bytes break off as a dying connection does."""
    left = cut_after
    async for piece in pieces:
        await gate.wait()
        writer.write(piece if left is None else piece[:left])
        await writer.drain()
        if left is not None:
            left -= len(piece)
            if left <= 0:
                await asyncio.sleep(0.05)  # a reset overtakes what the kernel has not sent yet
                raise ConnectionResetError("cut on demand")


async def _turns(count: int = 10) -> None:
    """Let what the loop holds ready run, and what that makes ready: a connection is set up and closed in a few such steps."""
    for _ in range(count):
        await asyncio.sleep(0)


async def _when_closed(writer: asyncio.StreamWriter, then: Any) -> None:
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    then()


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with RST instead of a polite close."""
    connection = writer.get_extra_info("socket")
    if connection is not None and connection.fileno() >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
