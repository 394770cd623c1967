"""Finds and ends the processes of a run: by its mark in their environment, by their open files, by descent.

The mark is the run's directory, which ends in its id.

Never by command line, which other people's Rays share. A process that cleared its environment is still found while it has a
file of the session open, or descends from the supervisor, which adopts every orphan (Linux: a child subreaper).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

#: The variable that marks a process as a run's.
MARK = "KUBECTL_NRL_LOCAL"

_PROC = Path("/proc")
_LINUX = sys.platform.startswith("linux")


def of_run(mark: str, session: str) -> set[int]:
    """Living processes of this user whose environment holds the mark or that have a file of the session open."""
    me = os.getpid()
    if not _LINUX:
        return {pid for pid in _marked_by_ps(mark) if pid != me}
    wanted = f"{MARK}={mark}".encode()
    inside = session.rstrip("/") + "/" if session else ""
    return {
        pid for pid in _pids() if pid != me and (wanted in _environment(pid) or (inside and _has_open(pid, inside)))
    }


def descendants(pid: int) -> set[int]:
    """All living descendants of a process."""
    if not _LINUX:
        return set()
    children: dict[int, list[int]] = {}
    for found in _pids():
        parent, state = _stat(found)
        if state not in ("Z", "X", ""):
            children.setdefault(parent, []).append(found)
    below: set[int] = set()
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            below.add(child)
            waiting.append(child)
    return below


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends (Linux; elsewhere nothing)."""
    if not _LINUX:
        return
    import ctypes

    pr_set_child_subreaper = 36  # linux/prctl.h
    ctypes.CDLL(None, use_errno=True).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


def reap(known: set[int]) -> None:
    """Take leave of adopted children that have ended; `known` are children that somebody else waits for."""
    if not _LINUX:
        return
    me = os.getpid()
    for pid in _pids():
        if pid not in known and _stat(pid) == (me, "Z"):
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue


def end(find: Callable[[], set[int]], *, grace: float = 2.0, within: float = 10.0) -> set[int]:
    """End everything that `find` finds: asked first, killed after `grace` seconds; what is left after `within` more."""
    asked: set[int] = set()
    deadline = time.monotonic() + grace
    while found := find():
        _send(found - asked, signal.SIGTERM)
        asked |= found
        if time.monotonic() >= deadline:
            break
        time.sleep(0.05)
    deadline = time.monotonic() + within
    while found := find():
        _send(found, signal.SIGKILL)
        if time.monotonic() >= deadline:
            return found
        time.sleep(0.05)
    return set()


def _send(pids: set[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def _pids() -> Iterator[int]:
    uid = os.getuid()
    for entry in os.scandir(_PROC):
        if entry.name.isdecimal():
            try:
                if entry.stat(follow_symlinks=False).st_uid == uid:
                    yield int(entry.name)
            except OSError:
                continue


def _environment(pid: int) -> list[bytes]:
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _has_open(pid: int, inside: str) -> bool:
    folder = f"{_PROC}/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    for name in names:
        try:
            if os.readlink(f"{folder}/{name}").startswith(inside):
                return True
        except OSError:
            continue
    return False


def _stat(pid: int) -> tuple[int, str]:
    """Parent and state (`Z`: ended, not waited for); (0, "") for a process that is gone."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0, ""
    state, parent, *_ = text.rpartition(")")[2].split()
    return int(parent), state


def _marked_by_ps(mark: str) -> Iterator[int]:
    """macOS has no /proc; its ps shows the environment of one's own processes."""
    words = ["ps", "-E", "-ww", "-x", "-o", "pid=,command="]
    lines = subprocess.run(words, capture_output=True, check=False, stdin=subprocess.DEVNULL).stdout.splitlines()
    wanted = f"{MARK}={mark}".encode()
    for line in lines:
        pid, _, rest = line.strip().partition(b" ")
        if wanted + b" " in rest + b" ":
            yield int(pid)
