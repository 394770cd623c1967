"""What this machine knows of a local run or cluster: one JSON file in its directory, replaced whole at every change."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

from ..errors import ExitCode
from ..rayjob_state import parse_time
from ..run_directory import LOCAL_RECORD

FILE = LOCAL_RECORD
LOG = "driver.log"
LOCK = "supervisor.lock"
#: A file whose presence asks the supervisor to stop what it runs.
STOP = "stop"

FINAL = ("SUCCEEDED", "FAILED", "STOPPED")

#: `run`: Rays and a driver of one life; `cluster`: Rays that stay; `job`: a driver on such a cluster.
Form = Literal["run", "cluster", "job"]


@dataclass(frozen=True)
class Role:
    """One Ray: its address for `ray.init`, its dashboard's URL, and the ports that were chosen for it."""

    address: str = ""
    dashboard: str = ""
    ports: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class LocalRecord:
    """A local run or cluster.

    `state` is Ray's word (`PENDING`, `RUNNING`, `SUCCEEDED`, `FAILED`, `STOPPED`), or `READY` for a cluster that is up;
    `phase` says what is being done. Times are RFC 3339 in UTC. `session` is its directory under /tmp, `cluster` the
    long-lived cluster's name for its members. `gpus` is what --gpus said. `results` are places that the recipe names, `expects` what the
    end of the run is to show (`runs.evidence.Launched.words`).
    """

    id: str
    form: Form
    user: str = ""
    state: str = "PENDING"
    phase: str = ""
    reason: str = ""
    message: str = ""
    exit_status: int | None = None
    torn_down: bool = False
    created: str = ""
    started: str = ""
    ended: str = ""
    supervisor: int = 0
    session: str = ""
    cluster: str = ""
    directory: str = ""
    recipe: str = ""
    infra: str = ""
    entrypoint: str = ""
    gpus: int | None = None
    roles: Mapping[str, Role] = field(default_factory=dict)
    results: Mapping[str, str] = field(default_factory=dict)
    expects: Mapping[str, str] = field(default_factory=dict)
    left: tuple[int, ...] = ()
    folder: Path = field(default=Path(), compare=False)
    #: Whether the supervisor lived when this was read. Looked at before the file is, so that the last words of a
    #: supervisor that has just ended are never taken for an orphan's.
    supervised: bool = field(default=False, compare=False)

    @property
    def final(self) -> bool:
        return self.state in FINAL

    @property
    def log(self) -> Path:
        return self.folder / LOG

    @property
    def alive(self) -> bool:
        """Whether its supervisor lives."""
        return is_alive(self.folder)

    @property
    def orphaned(self) -> bool:
        """The supervisor went before it had cleared up: Ray, the driver and the session may be left."""
        return not self.torn_down and not self.supervised

    @property
    def shown_state(self) -> str:
        return "ORPHANED" if self.orphaned else self.state

    @property
    def exit_code(self) -> ExitCode:
        """What a command that waited for the run ends with; only of meaning when it is over."""
        codes = {"SUCCEEDED": ExitCode.OK, "STOPPED": ExitCode.STOPPED, "FAILED": ExitCode.FAILED}
        return codes.get(self.state, ExitCode.UNKNOWN)

    def seconds(self, now: datetime) -> float | None:
        """Seconds from the driver's start to its end, or to now; None before it started."""
        start = _time(self.started)
        if start is None:
            return None
        return max(0.0, ((_time(self.ended) or now) - start).total_seconds())

    def age(self, now: datetime) -> float | None:
        created = _time(self.created)
        return None if created is None else max(0.0, (now - created).total_seconds())


def now() -> str:
    """The time as records hold it."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def write(record: LocalRecord) -> None:
    """Replace the record's file. Raises OSError."""
    data = asdict(record)
    del data["folder"], data["supervised"]
    text = json.dumps(data).encode()
    fresh = record.folder / f"{FILE}.{os.getpid()}"
    try:
        _make(fresh, text)
        fresh.replace(record.folder / FILE)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _overwrite(record.folder / FILE, text)


def _make(path: Path, text: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(text)


def _overwrite(path: Path, text: bytes) -> None:
    """Put a text in the place that a file has already: a run that filled the disk must not end without its end written down.

    In one piece, and with blanks for what was longer, so that a reader at that moment hardly finds half of it.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        there = os.fstat(handle)
        if len(text) > there.st_blocks * 512:  # in the disk's blocks, which are the file's already
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.pwrite(handle, text.ljust(there.st_size), 0)
    finally:
        os.close(handle)


def read(folder: Path) -> LocalRecord | None:
    """The record of a directory; None where there is none, or it is damaged."""
    supervised = is_alive(folder)
    try:
        data = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return _parse(data, folder, supervised)
    except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return None


def change(folder: Path, **values: Any) -> LocalRecord | None:
    """Write some fields anew, for a run without a supervisor that would do it."""
    record = read(folder)
    if record is not None:
        record = replace(record, **values)
        write(record)
    return record


def is_alive(folder: Path) -> bool:
    """Whether a supervisor holds the directory's lock."""
    try:
        handle = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # Shared: two commands that ask at once must not take one another for the supervisor.
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _parse(data: Mapping[str, Any], folder: Path, supervised: bool) -> LocalRecord:
    known = {f.name: f for f in fields(LocalRecord)}
    values = {key: value for key, value in data.items() if key in known and key not in ("folder", "supervised")}
    roles = {name: Role(r["address"], r["dashboard"], r["ports"]) for name, r in values.pop("roles", {}).items()}
    values["left"] = tuple(map(int, values.get("left") or ()))
    values["expects"] = dict(values.get("expects") or {})
    found = LocalRecord(**values, roles=roles, folder=folder, supervised=supervised)
    _require_types(found)
    return found


def _require_types(found: LocalRecord) -> None:
    """Raises TypeError for a file that somebody else wrote: what reads a record trusts its types."""
    texts = [getattr(found, f.name) for f in fields(found) if f.type in ("str", "Form")]
    texts += [text for role in found.roles.values() for text in (role.address, role.dashboard)]
    texts += [*found.results, *found.results.values(), *found.expects, *found.expects.values()]
    numbers = [
        found.exit_status or 0,
        found.gpus or 0,
        found.supervisor,
        *(p for r in found.roles.values() for p in r.ports.values()),
    ]
    if not (
        all(isinstance(text, str) and "\0" not in text for text in texts) and all(isinstance(n, int) for n in numbers)
    ):
        raise TypeError("not a record")


def _time(text: str) -> datetime | None:
    return parse_time(text)
