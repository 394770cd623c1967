"""Build each piece once per machine: a cache by content key, with locks and atomic renames.

An entry exists only when it is complete (it is renamed into place last), so a killed build leaves nothing to mistrust.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import CannotRunHere


def cache_dir() -> Path:
    """Return `${XDG_CACHE_HOME:-~/.cache}/kubectl-nrl-tests`, made if absent."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    path = Path(base) / "kubectl-nrl-tests"
    path.mkdir(parents=True, exist_ok=True)
    return path


def content_key(*parts: str | Path) -> str:
    """Hash texts, files and trees (by relative name, mode and content, never by time) into 12 hex digits."""
    digest = hashlib.sha256()
    for part in parts:
        for name, mode, data in _pieces(part):
            digest.update(f"{len(name)}:{name}:{mode:o}:{len(data)}:".encode() + data)
    return digest.hexdigest()[:12]


def _pieces(part: str | Path) -> Iterator[tuple[str, int, bytes]]:
    if isinstance(part, str):
        yield "", 0, part.encode()
    elif part.is_dir():
        for path in sorted(p for p in part.rglob("*") if p.is_file() and "__pycache__" not in p.parts):
            yield path.relative_to(part).as_posix(), path.stat().st_mode & 0o111, path.read_bytes()
    else:
        yield part.name, part.stat().st_mode & 0o111, part.read_bytes()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path` (a file, made if absent); waits for another holder and says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process that holds {path}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def cached(name: str, key: str, build: Callable[[Path], None], about: str = "") -> Path:
    """Return the cache entry `name-key`, built first if absent.

    `build` gets a path that does not exist yet and makes a file or a directory there. `about` says what a first
    build costs ("7 min"). Other keys of the same name are left alone: a second checkout may be using them.
    """
    target = cache_dir() / f"{name}-{key}"
    if target.exists():
        return target
    if about and os.environ.get("NRL_CLUSTER_NO_BUILD"):
        raise CannotRunHere(f"{name} is not built yet (about {about}, once)")
    with locked(cache_dir() / ".locks" / name):
        if target.exists():
            return target
        say(f"building {name}" + (f" (once, about {about})" if about else ""))
        started = time.monotonic()
        scratch = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=cache_dir()))
        try:
            build(scratch / "new")
            os.rename(scratch / "new", target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        say(f"built {target.name} in {time.monotonic() - started:.0f} s")
    return target


def say(text: str) -> None:
    """Print one line of progress on stderr; stdout is kept for what scripts print to be read by programs."""
    print(f"cluster: {text}", file=sys.stderr, flush=True)
