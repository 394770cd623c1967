"""What this machine remembers of a run on a long-lived cluster: a copy of its record, which goes with its RayCluster."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from typing import Any

from ..run_directory import directory
from .cluster_run import ClusterRun

FILE = "record.json"


def remember(run: ClusterRun, server: str, env: Mapping[str, str]) -> None:
    """Keep a copy beside that of the log; `server` is the API server's address. What cannot be written costs only the copy."""
    with contextlib.suppress(OSError, ValueError):
        folder = directory(run.id, env)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = folder / f"{FILE}.{os.getpid()}"
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump({"server": server, "record": run.manifest}, file)
        fresh.replace(folder / FILE)


def remembered(run_id: str, env: Mapping[str, str]) -> tuple[ClusterRun, str] | None:
    """The record of that id, and the server on which it was; None where there is no copy, or it is damaged."""
    try:
        found: Any = json.loads((directory(run_id, env) / FILE).read_text(encoding="utf-8"))
        run = ClusterRun(found["record"])
        whole = run.id == run_id and run.name and run.namespace and run.ray_cluster and run.ray_cluster_uid
        _ = (run.owner, run.raw_user, run.started, run.ended, dict(run.expects))  # what a damaged one has no shape for
        return (run, str(found["server"])) if whole else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
