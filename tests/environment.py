"""Make the Python environment of tests/run, or with `--bin` print where its programs are.

Two layers: the dependencies, shared by all checkouts that ask for the same ones, and a thin environment for this
checkout that sees them. So a second clone costs seconds, not another download, and never imports the first one's code.
"""

from __future__ import annotations

import configparser
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from cluster.packages import kubectl

CHECKOUT = Path(__file__).resolve().parents[1]

QUIET = ("--quiet", "--disable-pip-version-check", "--root-user-action=ignore")


def requirements() -> list[str]:
    """What setup.cfg asks for, with the dev extra."""
    config = configparser.ConfigParser()
    config.read(CHECKOUT / "setup.cfg")
    lists = config["options"]["install_requires"], config["options.extras_require"]["dev"]
    return [line.strip() for text in lists for line in text.splitlines() if line.strip()]


def cache() -> Path:
    """Where both layers are kept: `${XDG_CACHE_HOME:-~/.cache}/kubectl-nrl-tests`."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "kubectl-nrl-tests"


def _key(*parts: str) -> str:
    return hashlib.sha256("\n".join((sys.executable, platform.python_version(), *parts)).encode()).hexdigest()[:12]


def dependencies() -> Path:
    """The shared environment's directory; its name says what is in it."""
    return cache() / f"venv-{_key(*requirements())}"


def of_checkout() -> Path:
    """This checkout's environment."""
    return cache() / f"venv-{CHECKOUT.name}-{_key(str(CHECKOUT), dependencies().name)}"


def _run(*words: str | Path) -> None:
    subprocess.run([str(word) for word in words], check=True, stdin=subprocess.DEVNULL, cwd=CHECKOUT)


def _new(path: Path, *options: str) -> Path:
    """An empty virtual environment in place of what is there; its interpreter."""
    shutil.rmtree(path, ignore_errors=True)
    try:
        _run(sys.executable, "-m", "venv", *options, path)
    except subprocess.CalledProcessError:
        sys.exit(f"{sys.executable} makes no virtual environments (on Debian: apt-get install python3-venv)")
    return path / "bin" / "python"


def make() -> None:
    """Make what is missing. A file written last says what a layer was made from: nothing to mistrust after a kill."""
    shared, own = dependencies(), of_checkout()
    if not (shared / "complete").exists():
        python = _new(shared)
        _run(python, "-m", "pip", "install", *QUIET, *requirements())
        (shared / "complete").touch()
    complete, wanted = own / "complete", (CHECKOUT / "setup.cfg").read_text()
    if complete.exists() and complete.read_text() == wanted:
        return
    python = _new(own, "--without-pip")
    site = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    (own / site / "dependencies.pth").write_text(f"{shared / site}\n")
    _run(python, "-m", "pip", "install", *QUIET, "--no-deps", "--no-build-isolation", "--editable", CHECKOUT)
    (own / "bin" / "ruff").symlink_to(shared / "bin" / "ruff")
    for tool in ("lint-imports", "mypy", "pytest"):
        script = own / "bin" / tool
        script.write_text((shared / "bin" / tool).read_text().replace(str(shared), str(own)))
        script.chmod(0o755)
    if not shutil.which("kubectl"):
        (own / "bin" / "kubectl").symlink_to(kubectl())
    complete.write_text(wanted)


if __name__ == "__main__":
    if sys.argv[1:] == ["--bin"]:
        print(of_checkout() / "bin")
        sys.exit()
    cache().mkdir(parents=True, exist_ok=True)
    with open(cache() / ".venv.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            make()
        except subprocess.CalledProcessError as error:
            sys.exit(f"`{' '.join(error.cmd)}` ended with {error.returncode}")
