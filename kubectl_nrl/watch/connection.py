"""The connection to the API server as several watches at once see it: an outage that all of them meet is told once."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Connection:
    """`say` gets the lines. May be told from any thread."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._without: set[str] = set()

    def lost(self, who: str, error: object) -> None:
        """`who` has lost it."""
        with self._lock:
            if not self._without:
                self._say(f"connection to the API server lost ({error}), reconnecting")
            self._without.add(who)

    def back(self, who: str) -> None:
        """`who` has it again; said when nobody is without it any more."""
        with self._lock:
            if self._without == {who}:
                self._say("connection to the API server is back")
            self._without.discard(who)

    def leave(self, who: str) -> None:
        """`who` does not watch any more, with or without it."""
        with self._lock:
            self._without.discard(who)
