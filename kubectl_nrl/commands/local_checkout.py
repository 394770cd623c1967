"""The checkout around a directory of this machine, as git tells it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..checkout import Checkout

#: Seconds that git may take for an answer; then a run starts without a comparison.
PATIENCE = 3

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def read_checkout(directory: Path, env: Mapping[str, str]) -> Checkout | None:
    """What is checked out around `directory`; None where there is no git, no commit, or no origin to know the repository by."""
    from ..checkout import Checkout, repository_path

    directory = directory.resolve()
    if not any((folder / ".git").exists() for folder in (directory, *directory.parents)):
        return None
    repository = repository_path(_git(directory, env, "config", "--get", "remote.origin.url"))
    if not repository:
        return None
    # A submodule counts by its commit alone: to look for changes inside each takes long in a large checkout.
    found = _git(
        directory, env, "status", "--porcelain=v2", "--branch", "--untracked-files=no", "--ignore-submodules=dirty"
    )
    lines = found.splitlines()
    commits = [line.split()[-1] for line in lines if line.startswith("# branch.oid ")]
    commit = commits[0] if commits else _git(directory, env, "rev-parse", "HEAD")
    if not _COMMIT.fullmatch(commit):
        return None
    return Checkout(commit, repository, any(not line.startswith("#") for line in lines))


#: What a checkout's own configuration may name to be run when its files are looked at: nothing of it is, whoever wrote it.
UNHOOKED = ("-c", "core.fsmonitor=false")


def _git(directory: Path, env: Mapping[str, str], *words: str) -> str:
    """What git prints, stripped; empty when it fails, asks, or takes too long."""
    import subprocess

    quiet = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), *UNHOOKED, *words],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE,
            check=False,
            env={**env, **quiet},
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return "" if done.returncode else os.fsdecode(done.stdout).strip()
