"""What goes wrong in the test cluster: an error is a sentence and, where there is one, the command that helps."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

#: A copy, since a test's thread may start kubectl just when the test kit changes this process's environment.
_ENVIRONMENT = dict(os.environ)


class ClusterError(Exception):
    """The cluster cannot be what was asked for; the text says why and what to do."""


class CannotRunHere(ClusterError):
    """This host cannot run that depth at all (no root, no Linux, no Go): tests skip with the reason, CI fails."""


def checked(
    argv: Iterable[object],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: str | None = None,
) -> str:
    """Run a command and return its stdout; a failure raises ClusterError with the command and its last output."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words,
            env=dict(_ENVIRONMENT if env is None else env),
            cwd=cwd,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as err:
        raise ClusterError(f"{words[0]} cannot be started: {err}") from err
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()
        tail = "\n".join(line[:500] for line in lines[-25:])
        raise ClusterError(f"`{' '.join(words)}` ended with {done.returncode}:\n{tail}")
    return done.stdout
