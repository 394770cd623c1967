"""Requests over channels: one exchange, and a pool that keeps idle connections for the next.

A pool works over anything that can be dialled, so the API server and a port-forwarded pod are reached by the same code.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Iterator

from .patience import Patience
from .sockets import Channel, DialError
from .wire import Headers, Pieces, Request, ResponseParser, WireError, request_head

#: Seconds after which an idle connection is not trusted any more, and how many are kept.
IDLE_SECONDS = 60.0
KEPT = 8
#: Seconds of silence after which a connection that was used before counts as one that a firewall forgot without a word.
REUSED_SILENCE = 10.0


class Response:
    """An answer whose body is read as it comes. Use it as a context manager, or read it to its end."""

    #: Makes another error of one that breaks the body; set by whoever hands the response on.
    translate: Callable[[OSError], Exception] | None = None

    def __init__(
        self,
        channel: Channel,
        parser: ResponseParser,
        first: bytes,
        patience: Patience,
        release: Callable[[Channel], None],
        *,
        keep_open: bool = False,
    ) -> None:
        self._channel: Channel | None = channel
        self._parser = parser
        self._first = first
        self._patience = patience
        self._release = release
        self.status = parser.status
        self.headers = parser.headers
        if keep_open:
            # Upgraded: the connection belongs to another protocol from here on.
            self._channel, self._first = None, b""
        self._finish_if_done()

    def chunks(self, patience: Patience | None = None) -> Iterator[bytes]:
        """Body bytes as they arrive (as sent: not decompressed). Raises `WireError`, `TimeoutError` or `Cancelled`."""
        if self._first:
            first, self._first = self._first, b""
            yield first
        while self._channel is not None:
            try:
                data = self._channel.recv((patience or self._patience).renewed())
                piece = self._parser.feed(data) if data else b""
                if not data:
                    self._parser.eof()
            except OSError as error:
                self.close()
                if self.translate is not None:
                    raise self.translate(error) from error
                raise
            except BaseException:
                self.close()
                raise
            self._finish_if_done()
            if piece:
                yield piece

    def read(self) -> bytes:
        """The whole body, decompressed."""
        body = b"".join(self.chunks())
        if not body or self.headers.get("content-encoding") != "gzip":
            return body
        try:
            return zlib.decompress(body, 47)
        except zlib.error as error:
            raise WireError(f"the answer cannot be unpacked ({error})") from error

    def _finish_if_done(self) -> None:
        if self._parser.done and self._channel is not None:
            channel, self._channel = self._channel, None
            if self._parser.reusable and not self._parser.rest:
                self._release(channel)
            else:
                channel.close()

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def __enter__(self) -> Response:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def exchange(channel: Channel, request: Request, patience: Patience) -> tuple[ResponseParser, bytes]:
    """Send a request and read up to the head of its answer; returns the parser and the body bytes that came with it.

    A server that answers before it read the whole body (413) is heard although sending broke.
    """
    parser, body = ResponseParser(request.method), request.body
    broken: OSError | None = None
    try:
        head = request_head(request)
        if isinstance(body, bytes) and len(body) < 65536:
            channel.send(head + body, patience)
        else:
            channel.send(head, patience)
            for piece in (body,) if isinstance(body, bytes) else body:
                channel.send(piece, patience.renewed())
            patience = patience.renewed()
    except TimeoutError:
        raise
    except OSError as error:
        broken = error
    first = b""
    while not parser.status:
        try:
            data = channel.recv(patience)
        except (TimeoutError, DialError):
            raise
        except OSError as error:
            raise WireError(f"connection lost: {(broken or error).strerror or error}") from error
        if not data:
            if broken:
                raise WireError(f"connection lost: {broken.strerror or broken}") from broken
            parser.eof()
        first = parser.feed(data)
    return parser, first


class Pool:
    """Requests over dialled connections; idle ones are used again. Safe for use by several threads."""

    def __init__(self, dial: Callable[[Patience], Channel], connect_timeout: float = 10.0) -> None:
        self._dial = dial
        self._connect_timeout = connect_timeout
        self._idle: list[tuple[float, Channel]] = []
        self._lock = threading.Lock()
        self._closed = False

    def request(
        self,
        method: str,
        target: str,
        headers: Headers,
        body: bytes | Pieces = b"",
        *,
        timeout: float = 60.0,
        cancelled: Callable[[], bool] | None = None,
    ) -> Response:
        """Send one request; a body in pieces is sent as it is read. `timeout` is the longest silence in seconds, not the whole.

        Raises `DialError` when nothing was sent, `WireError` / `TimeoutError` when the outcome is unknown. A
        connection that was closed, or forgotten on the way, while it was idle is replaced without a word when that is safe: a
        GET, or nothing sent yet.
        """
        length = {"Content-Length": str(len(body))} if body or method in ("POST", "PUT", "PATCH") else {}
        request = Request(method, target, {**headers, **length}, body)
        fresh = False
        while True:
            channel, reused = (self._new(cancelled), False) if fresh else self._take(cancelled)
            patience = Patience(timeout, cancelled)
            again = reused and method in ("GET", "HEAD")
            doubting = again and timeout > REUSED_SILENCE
            try:
                parser, first = exchange(channel, request, patience.within(REUSED_SILENCE) if doubting else patience)
            except WireError:
                channel.close()
                if again:
                    continue
                raise
            except TimeoutError:
                channel.close()
                if not doubting:
                    raise
                self._drop_idle()  # what forgot one connection has forgotten the others
                fresh = True
                continue
            except BaseException:
                channel.close()
                raise
            return Response(channel, parser, first, patience, self._keep)

    def _take(self, cancelled: Callable[[], bool] | None) -> tuple[Channel, bool]:
        while True:
            with self._lock:
                if self._closed:
                    raise DialError("the connection was closed")
                if not self._idle:
                    break
                since, channel = self._idle.pop()
            if time.monotonic() - since < IDLE_SECONDS and not channel.stale():
                return channel, True
            channel.close()
        return self._new(cancelled), False

    def _new(self, cancelled: Callable[[], bool] | None) -> Channel:
        return self._dial(Patience(self._connect_timeout, cancelled))

    def _keep(self, channel: Channel) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < KEPT:
                self._idle.append((time.monotonic(), channel))
                return
        channel.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close what is idle; connections in use are closed when their answers were read."""
        self._closed = True
        self._drop_idle()

    def _drop_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for _, channel in idle:
            channel.close()
