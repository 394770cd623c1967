"""Files that git tracks and `.rayignore` leaves out: mostly a pattern that says more than was meant."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

from .ignore import NAME
from .selection import Selection


def tracked_but_ignored(selection: Selection, env: Mapping[str, str]) -> list[str]:
    """Their names below the root; empty where there is no git, no repository, or no answer within five seconds."""
    if not selection.excluded:
        return []
    words = [
        "git",
        "-C",
        selection.root,
        *("-c", "core.fsmonitor=false"),  # a program that the checkout's configuration may name
        "ls-files",
        "-z",
        "--cached",
        "--ignored",
        f"--exclude-per-directory={NAME}",
        "--",
    ]
    try:
        done = subprocess.run(
            [*words, *(f":(literal){path}" if path != "." else "." for path in selection.paths)],
            capture_output=True,
            timeout=5,
            check=False,
            env={**env, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return []
    if done.returncode:
        return []
    return [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]
