"""HTTP/1.1 on the wire: a request as bytes, and a response parsed from whatever pieces arrive.

The standard client reads from a socket it owns; here one parser serves sockets, watches that must notice a stop, and
the byte channels of a port-forward.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

MAX_HEAD = 256 * 1024
MAX_CHUNK_LINE = 8 * 1024


#: Headers of a request by name; several values are sent as several lines.
Headers = Mapping[str, str | tuple[str, ...]]


class WireError(OSError):
    """Not the rest of an HTTP/1.1 response: the peer went away in the middle, or speaks something else."""


class Pieces(Protocol):
    """A body too large to hold: its length in bytes, and its bytes from the start for each iteration."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[bytes]: ...


@dataclass(frozen=True)
class Request:
    """What is sent: `target` is the path with its query, already quoted."""

    method: str
    target: str
    headers: Headers = field(default_factory=dict)
    body: bytes | Pieces = b""


def request_head(request: Request) -> bytes:
    """The request line and headers. Raises ValueError when a word could break out of its line."""
    method, target = request.method, request.target
    lines = [f"{method} {target} HTTP/1.1"]
    for name, value in request.headers.items():
        lines += [f"{name}: {one}" for one in ((value,) if isinstance(value, str) else value)]
    if any("\r" in line or "\n" in line for line in lines) or " " in target or " " in method:
        raise ValueError(f"line break or space in an HTTP request for {target!r}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class ResponseParser:
    """Feed it bytes as they come; it gives back body bytes.

    `status` is 0 until the head is complete; `headers` have lower-case names (repeated ones joined by a comma).
    `done` says the body is complete, `reusable` that the connection may carry another request.
    """

    def __init__(self, method: str = "GET") -> None:
        self.status = 0
        self.phrase = ""
        self.headers: dict[str, str] = {}
        self.done = False
        self.reusable = False
        self.rest = b""
        self._method = method
        self._buffer = bytearray()
        self._left: int | None = None
        self._chunked = False
        self._state = "head"

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes of the connection and return the body bytes in them. Raises `WireError`."""
        self._buffer += data
        if self._state == "head" and not self._read_head():
            return b""
        if self.done:
            return b""
        return self._read_chunks() if self._chunked else self._read_plain()

    def eof(self) -> None:
        """The peer closed the connection. Raises `WireError` when the response was not complete."""
        if self.done:
            return
        if self._state == "body" and not self._chunked and self._left is None:
            self.done = True
            return
        raise WireError(
            "connection closed before the answer was complete" if self.status else "connection closed without an answer"
        )

    def _read_head(self) -> bool:
        while True:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > MAX_HEAD:
                    raise WireError("headers of the answer never end")
                return False
            lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
            del self._buffer[: end + 4]
            status, phrase, version = _status_line(lines[0])
            if status < 200 and status != 101:
                continue
            self.status, self.phrase = status, phrase
            for line in lines[1:]:
                name, colon, value = line.partition(":")
                if not colon:
                    raise WireError("not an HTTP header in the answer")
                key = name.strip().lower()
                self.headers[key] = f"{self.headers[key]}, {value.strip()}" if key in self.headers else value.strip()
            self._begin_body(version)
            return True

    def _begin_body(self, version: str) -> None:
        self._state = "body"
        connection = self.headers.get("connection", "").lower()
        keeps = "close" not in connection and (version != "HTTP/1.0" or "keep-alive" in connection)
        if self.status == 101:
            self._finish(False)
        elif self._method == "HEAD" or self.status in (204, 304):
            self._finish(keeps)
        elif "chunked" in self.headers.get("transfer-encoding", "").lower():
            self._chunked = True
            self.reusable = keeps
            self._left = -1
        elif "content-length" in self.headers:
            length = self.headers["content-length"].split(",")[0].strip()
            if not length.isdecimal():
                raise WireError(f"content-length {length!r} of the answer is no number")
            self._left = int(length)
            self.reusable = keeps
            if self._left == 0:
                self._finish(keeps)

    def _finish(self, reusable: bool) -> None:
        self.done, self.reusable = True, reusable
        self.rest = bytes(self._buffer)
        self._buffer.clear()

    def _read_plain(self) -> bytes:
        if self._left is None:
            out = bytes(self._buffer)
            self._buffer.clear()
            return out
        out = bytes(self._buffer[: self._left])
        del self._buffer[: self._left]
        self._left -= len(out)
        if self._left == 0:
            self._finish(self.reusable)
        return out

    def _read_chunks(self) -> bytes:
        """`_left`: -1 at a size line, -2 at the line end after a chunk, -3 in the trailers, else bytes of a chunk."""
        out = []
        while not self.done:
            if self._left is not None and self._left > 0:
                piece = bytes(self._buffer[: self._left])
                if not piece:
                    break
                del self._buffer[: len(piece)]
                self._left -= len(piece)
                out.append(piece)
                if self._left == 0:
                    self._left = -2
                continue
            end = self._buffer.find(b"\r\n")
            if end < 0:
                if len(self._buffer) > MAX_CHUNK_LINE:
                    raise WireError("a chunk of the answer has no size")
                break
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 2]
            self._chunk_line(line)
        return b"".join(out)

    def _chunk_line(self, line: bytes) -> None:
        if self._left == -3:
            if not line:
                self._finish(self.reusable)
        elif self._left == -2:
            if line:
                raise WireError("a chunk of the answer is longer than it said")
            self._left = -1
        else:
            size = line.split(b";", 1)[0].strip()
            try:
                self._left = int(size, 16) if size[:1] not in (b"+", b"-") else -1
            except ValueError:
                raise WireError("a chunk of the answer has no size") from None
            if self._left < 0:
                raise WireError("a chunk of the answer has no size")
            if self._left == 0:
                self._left = -3


def _status_line(line: str) -> tuple[int, str, str]:
    parts = line.split(" ", 2)
    if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or not (parts[1].isdecimal() and len(parts[1]) == 3):
        raise WireError("the answer is not HTTP/1.1")
    return int(parts[1]), parts[2] if len(parts) > 2 else "", parts[0]
