"""A run's driver log as kept on this machine, which outlives the head pod, and whose length is where reading goes on.

One directory a run, one `driver.log` an attempt: when KubeRay retries in a new Ray cluster the old file becomes
`driver.log.1`, so that two attempts' bytes never mix and the offset always belongs to the cluster named in
`run.json`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import IO, Any


class LogCopy:
    """The copy, open for appending by this process alone.

    `open` gives None when another process of this machine is writing it already; that one's copy will be whole, and
    two writers would double every line.
    """

    def __init__(self, folder: Path, lock: IO[bytes]) -> None:
        self.folder = folder
        self.path = folder / "driver.log"
        self._lock = lock
        self._file: IO[bytes] | None = None
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

    def attempt(self, cluster_uid: str) -> int:
        """Continue with the log of that Ray cluster: the offset at which to read on, 0 for one not seen before."""
        if self._file is not None:
            self._file.close()
        if self.record.get("cluster_uid") != cluster_uid:
            self._put_aside()
            self.note(cluster_uid=cluster_uid, complete=False)
        self._file = os.fdopen(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab", buffering=0)
        return self.path.stat().st_size

    def append(self, data: bytes) -> None:
        if self._file is not None:
            self._file.write(data)

    def note(self, **values: Any) -> None:
        """Add to the copy's record: whose log it is, whether it is complete, the wandb page."""
        self.record = {**self.record, **values}
        fresh = self.folder / "run.json.new"
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(self.record, file)
        fresh.replace(self.folder / "run.json")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        self._lock.close()

    def _put_aside(self) -> None:
        if not self.path.exists() or not self.path.stat().st_size:
            return
        number = 1
        while (self.folder / f"driver.log.{number}").exists():
            number += 1
        self.path.rename(self.folder / f"driver.log.{number}")


def read_record(folder: Path) -> dict[str, Any]:
    """What is known of a copy; empty when there is none, or when its record is damaged."""
    try:
        record = json.loads((folder / "run.json").read_text())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}
