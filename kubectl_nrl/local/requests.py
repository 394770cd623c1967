"""What a supervisor is asked to run, and how it is started: in a session of its own, holding its run's lock from birth."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import ClusterError, ExitCode, NrlError, UsageError
from . import memory, record, sessions
from .processes import MARK
from .ray_process import TOKEN
from .record import LocalRecord

SPEC = "spec.json"

#: Locks of what this process has prepared and not yet handed to a supervisor.
_held: dict[Path, int] = {}

#: What the supervisor's interpreter runs: the package from where this one was loaded, whatever else is installed.
_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from kubectl_nrl.local.supervisor import main; main(sys.argv[2:])"


@dataclass(frozen=True)
class Daemon:
    """A script that runs as long as its role's Ray; ready when `health` (a URL, may be empty) answers within `timeout` s."""

    role: str
    submission_id: str
    script: str
    health: str = ""
    timeout: int = 300


@dataclass(frozen=True)
class Request:
    """A run, a cluster or a job, before it starts. `record` says what it is; `gpus` of each role, None for what Ray finds.

    `script` is the launch script, empty for a cluster. `cluster` is the directory of the cluster that a job runs on.
    """

    record: LocalRecord
    script: str = ""
    gpus: Mapping[str, int | None] = field(default_factory=dict)
    daemons: tuple[Daemon, ...] = ()
    cluster: str = ""

    def data(self) -> dict[str, Any]:
        data = asdict(self)
        data.pop("record")
        return data

    @classmethod
    def of(cls, folder: Path) -> Request:
        """What a directory's supervisor was asked. Raises OSError, ValueError."""
        data = json.loads((folder / SPEC).read_text(encoding="utf-8"))
        found = record.read(folder)
        if found is None:
            raise ValueError(f"{folder / record.FILE} cannot be read")
        daemons = tuple(Daemon(**daemon) for daemon in data.pop("daemons"))
        return cls(record=found, daemons=daemons, **data)


def prepare(request: Request, short: str) -> LocalRecord:
    """Make the run's directory and session, and write down what is to run; nothing is started yet.

    Raises `NrlError` when Ray is missing, the id is taken, or this machine has no room.
    """
    wanted = request.record
    if wanted.form != "job":
        require_ray()
        memory.require(len(request.gpus))
    folder = wanted.folder
    try:
        folder.mkdir(parents=True, mode=0o700)
    except FileExistsError:
        raise UsageError(f'"{wanted.id}" is known on this machine already', f"kubectl nrl status {wanted.id}") from None
    except OSError as error:
        raise NrlError(f"{folder} cannot be made: {error.strerror}", exit_code=ExitCode.CLUSTER) from error
    try:
        return _write_down(request, folder, short)
    except BaseException as error:
        _let_go(folder)
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise NrlError(f"{folder} cannot be written: {error.strerror}", exit_code=ExitCode.CLUSTER) from error
        raise


def _write_down(request: Request, folder: Path, short: str) -> LocalRecord:
    # From here to the supervisor's end somebody holds the lock: what is half made is never taken for an orphan.
    _held[folder] = _lock(folder)
    session = sessions.make(short, folder)
    try:
        write_private(session / TOKEN, secrets.token_urlsafe(32))
        write_private(folder / SPEC, json.dumps(request.data()))
        made = replace(
            request.record,
            session=str(session),
            created=record.now(),
            phase="starting" if request.record.form == "job" else "starting Ray",
            supervised=True,
        )
        record.write(made)
    except BaseException:
        sessions.remove(session)
        raise
    return made


@contextmanager
def prepared(request: Request, short: str) -> Iterator[LocalRecord]:
    """`prepare` for a block that starts its supervisor: when the block ends before one was, whatever ends it, nothing stays.

    An interrupt that finds a supervisor there already leaves the run to it, and `find` says so.
    """
    made = prepare(request, short)
    try:
        yield made
    except BaseException:
        _withdraw(made)
        raise


def _withdraw(made: LocalRecord) -> None:
    """Remove what was prepared, unless a supervisor has, or had, taken it: it holds the lock, or has written itself down."""
    _let_go(made.folder)
    try:
        lock = _lock(made.folder)
    except OSError:
        return
    try:
        found = record.read(made.folder)
        if found is not None and not found.supervisor:
            sessions.remove(Path(made.session))
            shutil.rmtree(made.folder, ignore_errors=True)
    finally:
        os.close(lock)


def spawn(folder: Path, env: Mapping[str, str]) -> None:
    """Start the supervisor of a prepared directory; it lives on when this process ends. Raises `ClusterError`."""
    try:
        if folder not in _held:
            _held[folder] = _lock(folder)
        try:
            _start(folder, _held[folder], env)
        finally:
            _let_go(folder)
    except OSError as error:
        raise ClusterError(f"the run's supervisor cannot be started: {error.strerror or error}") from error


def _start(folder: Path, lock: int, env: Mapping[str, str]) -> None:
    package = str(Path(__file__).resolve().parent.parent.parent)
    with open(folder / "supervisor.log", "ab") as out:
        child = subprocess.Popen(
            [sys.executable, "-c", _BOOT, package, str(folder), str(lock)],
            env={name: value for name, value in env.items() if name != MARK},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            pass_fds=(lock,),
        )
    # It outlives this process, and nobody here waits for it: not worth the warning that a forgotten child gets.
    child.returncode = 0


def _lock(folder: Path) -> int:
    """The lock that says a supervisor lives, held by this process; raises BlockingIOError when another holds it."""
    handle = os.open(folder / record.LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _let_go(folder: Path) -> None:
    if folder in _held:
        os.close(_held.pop(folder))


def require_ray() -> None:
    """Raises `NrlError` where this program's Python has no Ray."""
    from importlib.util import find_spec

    if find_spec("ray") is None:
        raise NrlError(
            f"Ray is not installed for {sys.executable}, and a local run needs it",
            shlex.join([sys.executable, "-m", "pip", "install", "ray[default]>=2.44"]),
        )


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user can read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
