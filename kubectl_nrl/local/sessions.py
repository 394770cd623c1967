"""Session directories: one per run under `/tmp/nrl-<uid>`, removed with it.

Always `/tmp`, whatever TMPDIR says: Ray's socket paths end at 107 bytes, 67 of which are its own, and TMPDIR of macOS is
longer than the rest.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from pathlib import Path

from ..errors import ExitCode, NrlError

#: The file in a session directory that says whose it is: the run's directory.
OWNER = "owner"

BASE = Path("/tmp")


def root(base: Path | None = None) -> Path:
    """This user's directory of sessions, under `base` or /tmp."""
    return (base or BASE) / f"nrl-{os.getuid()}"


def make(short: str, owner: Path, base: Path | None = None) -> Path:
    """A new session directory for the run whose directory is `owner`; `short` is the piece of its id in the name.

    Raises `NrlError` when the place belongs to somebody else or cannot be written.
    """
    parent = root(base)
    try:
        made = _make_new(parent, short)
        (made / OWNER).write_text(str(owner), encoding="utf-8")
        (made / "tmp").mkdir()
    except OSError as error:
        raise NrlError(
            f"no session directory can be made under {parent}: {error.strerror or error}", exit_code=ExitCode.CLUSTER
        ) from error
    return made


def owner_of(session: Path) -> Path | None:
    """The run's directory that a session belongs to; None when it does not say."""
    try:
        text = (session / OWNER).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    return Path(text) if text.startswith("/") and "\0" not in text else None


def owned(session: str, owner: Path) -> str:
    """The session if it is still that run's, else empty: a name that has gone free may be another run's by now."""
    return session if session and owner_of(Path(session)) == owner else ""


def existing(base: Path | None = None) -> list[Path]:
    """All session directories of this user; none where somebody else has made the place for them, and may have put anything there."""
    parent = root(base)
    try:
        _refuse_foreign(parent)
        return sorted(p for p in parent.iterdir() if p.is_dir() and not p.is_symlink())
    except OSError:
        return []


def remove(session: Path) -> None:
    """Remove a session directory, and the user's own when it was the last. What cannot be removed stays, silently."""
    if session.parent.name != f"nrl-{os.getuid()}":
        return
    shutil.rmtree(session, ignore_errors=True)
    with contextlib.suppress(OSError):  # another session is there, or was made just now
        session.parent.rmdir()


def _make_new(parent: Path, short: str) -> Path:
    for number in range(1000):
        path = parent / (short if not number else f"{short}{number}")
        # Each time, and after each step: the last session of another run may take the parent with it.
        try:
            parent.mkdir(mode=0o700, exist_ok=True)
            _refuse_foreign(parent)
            path.mkdir(mode=0o700)
        except FileNotFoundError:
            continue
        except FileExistsError:
            if parent.exists() and not parent.is_dir():
                raise  # a file is in the way, and stays
            continue
        return path
    raise FileExistsError(f"{parent / short} and 999 more")


def _refuse_foreign(parent: Path) -> None:
    found = parent.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(0, "it belongs to another user")
    if found.st_mode & 0o077:
        parent.chmod(0o700)
