"""Where a running cluster keeps what it is made of: certificates, data, logs, pid files.

Each depth is a cluster of its own (its own etcd, API server, ports), so tests of the API never meet an operator that
acts on their objects. State lives under the cache directory, one directory per checkout and depth, not in the checkout:
`git clean` must never meet a live etcd or a mount.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .cache import cache_dir
from .errors import ClusterError

CHECKOUT = Path(__file__).resolve().parents[2]
_MARK = ".kubectl-nrl-tests"
DEPTHS = ("api", "kwok", "node")


@dataclass(frozen=True)
class State:
    """The directory of one cluster. `root` may be absent: the cluster is then down and has left nothing."""

    root: Path
    depth: str

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.root / "admin.kubeconfig"

    @property
    def logs(self) -> Path:
        """One file per process; kept after `down`, for whoever asks why."""
        return self.root / "logs"

    @property
    def pids(self) -> Path:
        """One JSON file per process, see processes.py."""
        return self.root / "pids"

    def claim(self) -> None:
        """Make the directory ours; raises ClusterError for one that holds something else, since `down` empties it."""
        mark = self.root / _MARK
        if self.root.is_dir() and any(self.root.iterdir()) and not mark.exists():
            raise ClusterError(f"{self.root} holds something that is no test cluster; give --state an empty directory")
        self.dir("logs")
        mark.touch()

    def empty(self) -> None:
        """Remove everything but the logs from a directory that is ours."""
        if (self.root / _MARK).exists():
            for path in self.root.iterdir():
                if path.is_dir() and not path.is_symlink():
                    if path != self.logs:
                        shutil.rmtree(path)
                elif path.name != _MARK:
                    path.unlink()

    def dir(self, name: str) -> Path:
        """Return a directory of the state, made when absent."""
        path = self.root / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, name: str, text: str) -> Path:
        """Write a file of the state, whole or not at all."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(path.name + ".draft")
        draft.write_text(text)
        os.rename(draft, path)
        return path

    def facts(self) -> dict[str, Any]:
        """Return what was recorded of the running cluster (ports), empty when nothing was."""
        path = self.root / "facts.json"
        return dict(json.loads(path.read_text())) if path.exists() else {}

    def record(self, **facts: Any) -> None:
        """Add to the recorded facts."""
        self.write("facts.json", json.dumps({**self.facts(), **facts}, indent=1))

    def port(self, name: str) -> int:
        """Return the port of that name: the recorded one, else a free one that is recorded now."""
        ports = self.facts().get("ports", {})
        if name not in ports:
            ports[name] = free_port(set(ports.values()))
            self.record(ports=ports)
        return int(ports[name])


def state_for(depth: str, directory: str | Path | None = None) -> State:
    """Return the state of this checkout's cluster of that depth, or the one in `directory`."""
    if directory is not None:
        return State(Path(directory).absolute(), depth)
    mark = hashlib.sha256(str(CHECKOUT).encode()).hexdigest()[:8]
    return State(cache_dir() / "state" / f"{CHECKOUT.name}-{mark}-{depth}", depth)


def free_port(taken: set[int], low: int = 20000, high: int = 30000) -> int:
    """Return a TCP port that nothing listens on, outside `taken`.

    Chosen below the range that the kernel hands out for outgoing connections (32768 up), or a client could take it
    between this choice and the server's start.
    """
    start = low + os.getpid() * 37 % (high - low)
    for step in range(high - low):
        port = low + (start - low + step) % (high - low)
        if port in taken:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("0.0.0.0", port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port between {low} and {high}")
