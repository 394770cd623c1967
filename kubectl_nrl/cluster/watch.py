"""Everything that happens to a collection, or to one object, for as long as somebody listens.

The API server ends watches, forgets old versions and goes away; a listener is told only of changes, and of an outage
once when it begins and once when it is over.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..errors import ClusterError
from .patience import Cancelled

#: Seconds the server is asked to keep one watch open, and how much longer its end is waited for.
WATCH_SECONDS, GRACE_SECONDS = 240, 30
#: Pauses in seconds before reconnecting during an outage; the last one repeats.
PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0)


@dataclass(frozen=True)
class WatchEvent:
    """A change of an object, or of the connection.

    `ADDED`, `MODIFIED`, `DELETED`: `object` is the object as it is (for DELETED: as it last was). `LOST`: the API
    server cannot be reached or does not answer, `error` says why; what is known may be old. `BACK`: it answers again,
    and the events before this one brought everything up to date.
    """

    type: Literal["ADDED", "MODIFIED", "DELETED", "LOST", "BACK"]
    object: Mapping[str, Any] = field(default_factory=dict)
    error: ClusterError | None = None


class Gone(Exception):
    """The version to watch from is too old (410): the collection must be listed again."""


#: List the collection: items and resourceVersion. Raises `ClusterError` or `Cancelled`.
Lister = Callable[[Callable[[], bool]], tuple[list[dict[str, Any]], str]]
#: Watch from a resourceVersion: pieces of a stream of JSON lines. Raises `ClusterError`, `OSError` or `Cancelled`.
Opener = Callable[[str, int, Callable[[], bool]], Iterator[bytes]]


class Watcher:
    """List and watch over two callables, so that its logic is tested without a server."""

    def __init__(
        self, lister: Lister, opener: Opener, stop: threading.Event | None, pauses: tuple[float, ...] = PAUSES
    ) -> None:
        self._list, self._open = lister, opener
        self._stop = stop or threading.Event()
        self._pauses = pauses
        self._known: dict[tuple[str, str], dict[str, Any]] = {}
        self._version = ""
        self._failures = 0
        self._lost = False

    def events(self) -> Iterator[WatchEvent]:
        """Changes until `stop` is set.

        Raises `ClusterError` when the cluster refuses (401, 403, a kind that is not served).
        """
        while not self._stop.is_set():
            try:
                yield from self._connected()
            except Cancelled:
                return
            except Gone:
                self._version = ""
            except ClusterError as error:
                if _final(error):
                    raise
                if error.status == 410:
                    self._version = ""
                yield from self._outage(error)
            except OSError as error:
                yield from self._outage(
                    ClusterError(f"the watch broke: {error.strerror or error}", reason="ConnectionLost")
                )

    def _connected(self) -> Iterator[WatchEvent]:
        """One list where needed, one watch to its end."""
        if not self._version:
            items, version = self._list(self._stop.is_set)
            yield from self._relisted(items)
            self._version = version
        seconds = WATCH_SECONDS - random.randrange(WATCH_SECONDS // 4)
        lines = _lines(self._open(self._version, seconds, self._stop.is_set))
        if self._lost:
            self._lost = False
            yield WatchEvent("BACK")
        opened = time.monotonic()
        arrived = False
        for line in lines:
            arrived = True
            self._failures = 0
            event = self._take(line)
            if event:
                yield event
        # A server (or a proxy) that ends every watch at once must not be asked in a busy loop.
        if not arrived and time.monotonic() - opened < 1.0:
            self._failures += 1
            self._stop.wait(self._pause())
        else:
            self._failures = 0

    def _outage(self, error: ClusterError) -> Iterator[WatchEvent]:
        """A first failure is tried again at once, without a word; from the second on it is an outage."""
        self._failures += 1
        if self._failures == 1:
            return
        if not self._lost:
            self._lost = True
            yield WatchEvent("LOST", error=error)
        self._stop.wait(self._pause())

    def _pause(self) -> float:
        longest = self._pauses[min(max(self._failures - 1, 0), len(self._pauses) - 1)]
        return longest * (0.75 + random.random() / 4)

    def _relisted(self, items: list[dict[str, Any]]) -> Iterator[WatchEvent]:
        """What changed between what is known and a new list."""
        fresh = {_key(item): item for item in items}
        for key, old in list(self._known.items()):
            if key not in fresh or _meta(fresh[key], "uid") != _meta(old, "uid"):
                del self._known[key]
                yield WatchEvent("DELETED", old)
        for key, item in fresh.items():
            before = self._known.get(key)
            self._known[key] = item
            if before is None:
                yield WatchEvent("ADDED", item)
            elif _meta(before, "resourceVersion") != _meta(item, "resourceVersion"):
                yield WatchEvent("MODIFIED", item)

    def _take(self, line: bytes) -> WatchEvent | None:
        """One line of the stream. Raises `Gone`, or `ClusterError` for any other error the server sends in it."""
        try:
            data = json.loads(line)
            kind, item = data["type"], data["object"]
        except (ValueError, KeyError, TypeError):
            raise OSError("the stream holds something that is no event") from None
        if kind == "ERROR":
            if item.get("code") == 410:
                raise Gone
            raise ClusterError(
                f"the watch was ended: {item.get('message', '')}",
                status=int(item.get("code") or 0),
                reason=str(item.get("reason") or ""),
            )
        version = _meta(item, "resourceVersion")
        if version:
            self._version = version
        if kind == "BOOKMARK":
            return None
        return self._changed(kind, item)

    def _changed(self, kind: str, item: dict[str, Any]) -> WatchEvent | None:
        key = _key(item)
        if kind == "DELETED":
            self._known.pop(key, None)
            return WatchEvent("DELETED", item)
        before = self._known.get(key)
        self._known[key] = item
        return WatchEvent("ADDED" if before is None else "MODIFIED", item)


def _final(error: ClusterError) -> bool:
    return (
        error.status in (401, 403) or error.reason in ("NotServed", "NoConfig", "NotKubernetes") or error.status == 400
    )


def _meta(item: Mapping[str, Any], key: str) -> str:
    return str((item.get("metadata") or {}).get(key) or "")


def _key(item: Mapping[str, Any]) -> tuple[str, str]:
    return _meta(item, "namespace"), _meta(item, "name")


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Complete lines of a stream; a last line without its end is one that broke, and is dropped."""
    buffer = bytearray()
    for piece in pieces:
        buffer += piece
        while (end := buffer.find(b"\n")) >= 0:
            line = bytes(buffer[:end]).strip()
            del buffer[: end + 1]
            if line:
                yield line
