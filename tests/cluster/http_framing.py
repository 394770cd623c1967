"""HTTP/1.1 messages as a proxy needs them: heads that can be read and changed, bodies that pass as they arrive.

Bodies are passed in their own framing, byte for byte; it is read only to know where the message ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

PIECE = 64 * 1024


@dataclass
class Head:
    """The first line of a message and its headers, in order."""

    first: str
    headers: list[tuple[str, str]]

    def get(self, name: str) -> str:
        """Return a header's value, empty when absent."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")

    def without(self, name: str) -> Head:
        """Return this head without a header."""
        return Head(self.first, [(key, value) for key, value in self.headers if key.lower() != name.lower()])

    @property
    def words(self) -> list[str]:
        """Method, target and version of a request; version, status and reason of a response."""
        return self.first.split(" ", 2)

    def encode(self) -> bytes:
        """Return the head as it is sent, the empty line included."""
        lines = [self.first, *(f"{key}: {value}" for key, value in self.headers), "", ""]
        return "\r\n".join(lines).encode("latin-1")


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """Read a head; None when the connection ended before one began."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as err:
        if err.partial:
            raise
        return None
    first, *lines = raw.decode("latin-1").split("\r\n")[:-2]
    pairs = (line.partition(":") for line in lines)
    return Head(first, [(key, value.strip()) for key, _, value in pairs])


def has_body(request: Head, response: Head | None = None) -> bool:
    """Tell whether a body follows the request, or the response when one is given."""
    if response is None:
        return "chunked" in request.get("Transfer-Encoding") or request.get("Content-Length") not in ("", "0")
    return request.words[0] != "HEAD" and response.words[1] not in ("204", "304") and response.words[1][0] != "1"


async def body(reader: asyncio.StreamReader, head: Head) -> AsyncIterator[bytes]:
    """Yield a body in pieces as they arrive, framing included.

    Raises asyncio.IncompleteReadError when the connection ends within it.
    """
    if "chunked" in head.get("Transfer-Encoding").lower():
        async for piece in _chunks(reader):
            yield piece
    elif head.get("Content-Length"):
        async for piece in _exactly(reader, int(head.get("Content-Length"))):
            yield piece
    else:  # a response that lasts until its connection does
        while piece := await reader.read(PIECE):
            yield piece


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        line = await reader.readuntil(b"\n")
        yield line
        size = int(line.split(b";")[0], 16)
        if size == 0:
            break
        async for piece in _exactly(reader, size + 2):  # and the line end after it
            yield piece
    while line not in (b"\r\n", b"\n"):  # trailers
        line = await reader.readuntil(b"\n")
        yield line


async def _exactly(reader: asyncio.StreamReader, size: int) -> AsyncIterator[bytes]:
    while size:
        piece = await reader.read(min(size, PIECE))
        if not piece:
            raise asyncio.IncompleteReadError(b"", size)
        size -= len(piece)
        yield piece
