"""Whether this machine has the memory that a Ray takes before any of it is used for training.

Ray that runs out of memory while it starts fails in many ways and names none of them.
"""

from __future__ import annotations

from pathlib import Path

from ..errors import ExitCode, NrlError

#: What one idle local Ray holds, in bytes (measured: about 18 processes, 0.9 GB, a part of it shared).
PER_RAY = 700 * 2**20


def require(rays: int) -> None:
    """Raises `NrlError` when less is free than that many Rays take; where it cannot be told, it is enough."""
    free = available()
    if free is not None and free < rays * PER_RAY:
        raise NrlError(
            f"{free // 2**20} MiB of memory are free on this machine; "
            f"{'a Ray takes' if rays == 1 else f'{rays} Rays take'} about {rays * PER_RAY // 2**20}",
            "kubectl nrl status   (what runs here), or close other programs",
            exit_code=ExitCode.CLUSTER,
        )


def available(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes that can still be used, by the system and by this container's limit; None where neither says."""
    found = [n for n in (_of_system(proc / "meminfo"), _of_container(cgroup)) if n is not None]
    return min(found) if found else None


def _of_system(meminfo: Path) -> int | None:
    try:
        for line in meminfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _of_container(cgroup: Path) -> int | None:
    """The limit less what is in use; pages of files count as free, since the kernel gives them back (cgroup v2)."""
    try:
        limit = int((cgroup / "memory.max").read_text(encoding="utf-8"))
        used = int((cgroup / "memory.current").read_text(encoding="utf-8"))
        stat = dict(line.split() for line in (cgroup / "memory.stat").read_text(encoding="utf-8").splitlines())
        return max(0, limit - used + int(stat.get("inactive_file", 0)))
    except (OSError, ValueError):
        return None
