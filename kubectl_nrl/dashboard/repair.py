"""Repairs, in a running head, a dashboard whose files are symlinks.

uv installs packages as symlinks into its cache where it is told to (`UV_LINK_MODE=symlink`). Ray serves its page from a path it knows, but
the page's scripts and styles through aiohttp, which follows no symlink out of their directory: the page stays blank.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ClusterError

#: Runs a command where the dashboard runs: exit code, stdout, stderr. Raises `ClusterError`.
Run = Callable[[Sequence[str]], tuple[int, bytes, bytes]]

#: Finds the dashboard's process (`python -u .../ray/dashboard/dashboard.py --host=...`), whose command line names both the Python and the
#: directory of this very Ray; PATH may lead to another. `[.]` keeps the shell from finding itself.
_SH = r"""
for process in /proc/[0-9]*; do
  words=$({ tr '\000' '\n' <"$process/cmdline"; } 2>/dev/null) || continue
  file=$(printf '%s\n' "$words" | grep '/ray/dashboard/dashboard[.]py$' | head -n 1)
  [ -n "$file" ] || continue
  exec "$(printf '%s\n' "$words" | head -n 1)" -I -c "$1" "$2" "${file%/*}/client/build"
done
echo "no dashboard of Ray runs in this container" >&2
exit 3
"""


@dataclass(frozen=True)
class Links:
    """Symlinks of the dashboard's directory that lead out of it; `problem` says why not all of them were `copied`."""

    folder: str
    links: int
    copied: int
    problem: str

    @classmethod
    def told(cls, data: Mapping[str, Any]) -> Links:
        """From what `copy_links` returns. Raises `KeyError` and `ValueError`."""
        return cls(str(data["folder"]), int(data["links"]), int(data["copied"]), str(data["problem"]))


def repair(run: Run, *, change: bool) -> Links:
    """Count the symlinks among the dashboard's files and, with `change`, put copies in their place.

    Raises `ClusterError`: status 403 where exec is forbidden, reason `Repair` when the command cannot do it.
    """
    source = Path(__file__).with_name("copy_links.py").read_text(encoding="utf-8")
    code, out, err = run(["sh", "-c", _SH, "sh", source, "change" if change else "count"])
    try:
        return Links.told(json.loads(out if code == 0 else b""))
    except (ValueError, KeyError, TypeError):
        said = [line for line in err.decode("utf-8", "replace").splitlines() if line.strip()]
        why = said[-1].strip()[:300] if said else f"exit {code}"
        raise ClusterError(f"the dashboard's files cannot be looked at: {why}", reason="Repair") from None
