"""The copy of a log as its follower uses it: what cannot be written costs the copy, which is said once, and never the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .log_copy import LogCopy, pieces
from .log_place import Place


class Keeping:
    """Keeps what is read; with no copy, or with one that failed, it does nothing. `say` takes a line for a person."""

    def __init__(self, copy: LogCopy | None, say: Callable[[str], None]) -> None:
        self._copy, self._say = copy, say
        self._life = ""
        #: Why the copy is not whole, empty while it is.
        self.lost = ""

    def resume(self, uid: str) -> tuple[Place, str]:
        """Where to go on with the log of that Ray cluster, and which life of its head that log is of ("" for unknown)."""
        try:
            if self._copy is not None:
                place = self._copy.attempt(uid)
                self._life = str(self._copy.record.get("life") or "")
                return place, self._life
        except OSError as error:
            self._lose(error)
        return Place(), ""

    def pieces(self) -> Iterator[bytes]:
        """What is kept of that log, a piece at a time."""
        try:
            if self._copy is not None:
                yield from pieces(self._copy.path)
        except OSError as error:
            self._lose(error)

    def keep(self, data: bytes, start: int, life: str) -> None:
        """Add what was read from byte `start` on; what an earlier life of the head wrote is put aside first."""
        try:
            if self._copy is None:
                return
            if not start and self._copy.size():
                self._copy.put_aside(life=life)
            elif life != self._life or self._copy.record.get("complete"):
                self._copy.note(life=life, complete=False)
            self._life = life
            self._copy.append(data)
        except OSError as error:
            self._lose(error)

    def close(self, *, complete: bool) -> None:
        """The end; `complete` when the last byte of the log was kept."""
        try:
            if self._copy is not None and complete:
                self._copy.note(complete=True)
        except OSError as error:
            self._lose(error)
        if self._copy is not None:
            self._copy.close()

    def _lose(self, error: OSError) -> None:
        copy, self._copy = self._copy, None
        self.lost = error.strerror or str(error)
        where = f" ({copy.folder})" if copy is not None else ""
        self._say(f"driver log: no copy is kept on this machine any more: {self.lost}{where}")
        if copy is not None:
            copy.close()
