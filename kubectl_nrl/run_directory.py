"""Where this machine remembers runs: one directory each, with the log, whatever ran it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

#: The record in the directory of a run or cluster of this machine, and where its long-lived clusters have theirs.
LOCAL_RECORD, CLUSTERS = "local.json", "clusters"

#: Longest name of a Kubernetes object; file systems take as much.
NAME_MAX = 253


#: Where nothing can be: what is made of it fails with an error that says why.
_NOWHERE = Path(os.devnull) / "HOME is not set"


def state_home(env: Mapping[str, str]) -> Path:
    """`$XDG_STATE_HOME`, else `~/.local/state` (a relative value is ignored, as the XDG specification says).

    A user of a pod may have neither HOME nor an entry in /etc/passwd: then nothing is kept, and never in the working directory.
    """
    named, home = env.get("XDG_STATE_HOME", ""), env.get("HOME") or os.path.expanduser("~")
    if named.startswith("/"):
        base = Path(named)
    else:
        base = Path(home) / ".local" / "state" if home.startswith("/") else _NOWHERE
    return base / "kubectl-nrl" / "runs"


def directory(run_id: str, env: Mapping[str, str]) -> Path:
    """Where a run's copy lives. `run_id` is a checked run id or a Kubernetes name: neither can leave the directory."""
    if not run_id or run_id.startswith(".") or "/" in run_id or "\0" in run_id or len(run_id) > NAME_MAX:
        raise ValueError(f"not a run id: {run_id!r}")
    return state_home(env) / run_id


def any_local(env: Mapping[str, str]) -> bool:
    """Whether this machine has runs or clusters of its own, told without loading what reads them."""
    home = state_home(env)
    return _any_record(home) or _any_record(home.parent / CLUSTERS)


def _any_record(home: Path) -> bool:
    """Whether a directory in it holds a record; not where it may not be looked at."""
    try:
        return any(os.path.exists(folder / LOCAL_RECORD) for folder in home.iterdir())
    except OSError:
        return False
