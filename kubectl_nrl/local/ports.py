"""Ports of a Ray on this machine: from 20000 up, below the range from which systems hand out ports of their own.

Worker ports are left to the system. Two runs choose one after the other, under a lock, and a port counts as taken as soon
as a session's directory says so, since Ray binds its ports seconds after they were chosen.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import ExitCode, NrlError
from . import sessions

FIRST, LAST = 20000, 32767

#: What each port is for, by the flag of `ray start`.
NAMES = (
    "port",
    "dashboard-port",
    "dashboard-agent-listen-port",
    "dashboard-agent-grpc-port",
    "runtime-env-agent-port",
    "metrics-export-port",
    "ray-client-server-port",
)

_FILE = "ports.json"


def claim(session: Path, roles: Iterable[str]) -> dict[str, dict[str, int]]:
    """Ports for each role of a session, written into its directory. Raises `NrlError` when there are not enough."""
    with _lock(session.parent):
        taken = {port for other in sessions.existing(session.parent.parent) for port in _claimed(other)}
        free = free_ports(lambda port: port in taken or is_used(port))
        try:
            chosen = {role: {name: next(free) for name in NAMES} for role in roles}
        except RuntimeError:
            raise NrlError(
                f"no free ports are left between {FIRST} and {LAST}",
                "kubectl nrl cluster list   (each Ray of this machine takes 7)",
                exit_code=ExitCode.CLUSTER,
            ) from None
        (session / _FILE).write_text(json.dumps(chosen), encoding="utf-8")
    return chosen


def free_ports(used: Callable[[int], bool]) -> Iterator[int]:
    """Ports that are not used, lowest first."""
    for port in range(FIRST, LAST + 1):
        if not used(port):
            yield port
    raise RuntimeError("no ports left")


def is_used(port: int) -> bool:
    """Whether anything on this machine has the port, on any address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As Ray binds: a port whose last connections linger in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return True
    return False


def _claimed(session: Path) -> list[int]:
    try:
        roles = json.loads((session / _FILE).read_text(encoding="utf-8"))
        return [int(port) for role in roles.values() for port in role.values()]
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return []


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
