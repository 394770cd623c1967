"""A run's driver log as kept on this machine, which outlives the head pod, and whose length is where reading goes on.

One directory a run, one `driver.log` an attempt: when KubeRay retries in a new Ray cluster, or the head is replaced, the old file
becomes `driver.log.1`, so that two logs' bytes never mix and the offset always belongs to the cluster and the head's life named
in `run.json`.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from .log_place import OVERLAP, Place

#: Bytes that are read at once.
PIECE = 1024 * 1024


class LogCopy:
    """The copy, open for appending by this process alone.

    `open` gives None when another process of this machine is writing it already; that one's copy will be whole, and
    two writers would double every line.
    """

    def __init__(self, folder: Path, lock: IO[bytes]) -> None:
        self.folder = folder
        self.path = folder / "driver.log"
        self._lock = lock
        self._file: io.FileIO | None = None
        self.record = read_record(folder)

    @classmethod
    def open(cls, folder: Path) -> LogCopy | None:
        """Raises OSError when the directory cannot be made or written."""
        import fcntl

        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.fdopen(os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600), "r+b")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return None
        return cls(folder, lock)

    def attempt(self, cluster_uid: str) -> Place:
        """Continue with the log of that Ray cluster: the place at which to read on. Raises OSError."""
        self._stop_writing()
        if self.record.get("cluster_uid") != cluster_uid:
            self.put_aside(cluster_uid=cluster_uid, life="")
        size = self.size()
        if not size:
            return Place()
        with self.path.open("rb") as file:
            file.seek(max(0, size - OVERLAP))
            return Place(size, file.read(OVERLAP))

    def size(self) -> int:
        """Bytes that are kept. Raises OSError."""
        return self.path.stat().st_size if self.path.exists() else 0

    def append(self, data: bytes) -> None:
        """Raises OSError when not all of it could be written; nothing may be appended after that, it would leave a hole."""
        if self._file is None:
            self._file = io.FileIO(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]

    def put_aside(self, **values: Any) -> None:
        """Begin anew with the log of another life, keeping the old one under a number; `values` as for `note`. Raises OSError."""
        self._stop_writing()
        if self.size():
            number = 1
            while (self.folder / f"driver.log.{number}").exists():
                number += 1
            self.path.rename(self.folder / f"driver.log.{number}")
        self.note(complete=False, **values)

    def note(self, **values: Any) -> None:
        """Add to the copy's record: whose log it is, whether it is complete. Raises OSError."""
        self.record = {**self.record, **values}
        fresh = self.folder / "run.json.new"
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(self.record, file)
        fresh.replace(self.folder / "run.json")

    def close(self) -> None:
        self._stop_writing()
        self._lock.close()

    def _stop_writing(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def pieces(path: Path) -> Iterator[bytes]:
    """A file's bytes, a piece at a time; none when it is not there. Raises OSError."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        while piece := file.read(PIECE):
            yield piece


def read_record(folder: Path) -> dict[str, Any]:
    """What is known of a copy; empty when there is none, or when its record is damaged."""
    try:
        record = json.loads((folder / "run.json").read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}
