"""A machine to install on: an empty home, a PATH of its own without kubectl, and a copy of the checkout.

A quick machine's Python makes environments that see the libraries of the one that runs the tests, so that an install
costs seconds: script, environment and pip are real, only downloads are spared. One test installs from the index itself.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pluggy

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SOURCES = ("install.sh", "setup.cfg", "pyproject.toml", "LICENSE", "README.md", "kubectl_nrl", "plugins", "schemas")
#: Where the libraries of the tests' own environment are.
LIBRARIES = Path(pluggy.__file__).parents[1]
#: The interpreter itself, not the environment that runs the tests.
PYTHON = os.path.realpath(sys.executable)
#: Not linked into a machine's PATH: kubectl, other Pythons, and rustc, which pip asks for its version.
_HIDDEN = ("kubectl", "python", "pip", "rustc", "cargo")

_QUICK = f"""\
{PYTHON} "$@" || exit
if [ "$1 $2" = "-m venv" ]; then
    echo '{LIBRARIES}' >"$3/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages/libraries.pth"
fi
"""


def cache() -> Path:
    """Where pip keeps what the tests download, from run to run."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "kubectl-nrl-tests" / "pip"


def system_tools(directory: Path) -> Path:
    """A directory with the system's programs but for those that a fresh machine lacks."""
    directory.mkdir()
    for source in ("/usr/bin", "/bin"):
        for entry in os.scandir(source):
            target = directory / entry.name
            if not entry.name.startswith(_HIDDEN) and not os.path.lexists(target):
                target.symlink_to(entry.path)
    return directory


@dataclass
class Machine:
    """`home` is the user's, `tools` comes first on PATH, `checkout` holds what is installed."""

    root: Path
    system: Path
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home = self.root / "my home"  # a space, as on many a Mac
        self.tools = self.root / "tools"
        self.checkout = self.root / "checkout"
        self.bin = self.home / ".local" / "bin"
        self.data = self.home / ".local" / "share" / "kubectl-nrl"
        for directory in (self.home, self.tools, self.checkout):
            directory.mkdir(parents=True)
        for name in SOURCES:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, self.checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.exists():
                shutil.copy(source, self.checkout / name)
        self.put("python3", _QUICK)
        self.put("kubectl", "echo '{}'\n")
        # Without isolation, and with the libraries in sight, pip needs no index.
        self.env = {
            **{name: value for name, value in os.environ.items() if name.startswith("PIP_")},
            "HOME": str(self.home),
            "PATH": f"{self.tools}:{self.system}",
            "USER": "rl-user",
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.root),
            "PIP_CACHE_DIR": str(cache()),
            "PIP_NO_BUILD_ISOLATION": "false",
            **self.env,
        }

    def put(self, name: str, script: str) -> Path:
        """A program on PATH."""
        file = self.tools / name
        file.write_text(f"#!/bin/sh\n{script}")
        file.chmod(0o755)
        return file

    def without_help(self) -> None:
        """A machine as it comes: an environment is empty, and what goes into it is asked of the index."""
        self.put("python3", f'exec {PYTHON} "$@"\n')
        (self.tools / "kubectl").unlink()
        del self.env["PIP_NO_BUILD_ISOLATION"]

    def start(self, *words: str, env: Mapping[str, str] | None = None, **how: object) -> subprocess.Popen[str]:
        """Start install.sh; its stderr is a pipe of lines."""
        return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
            [str(self.checkout / "install.sh"), *words], env={**self.env, **(env or {})}, cwd=self.root, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **how,
        )  # fmt: skip

    def install(self, *words: str, env: Mapping[str, str] | None = None) -> str:
        """Run install.sh without Ray to its good end; what it said."""
        code, said = self.attempt("--no-ray", *words, env=env)
        assert code == 0, said
        return said

    def attempt(self, *words: str, env: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Run install.sh; its exit code and what it said."""
        process = self.start(*words, env=env)
        said = process.communicate(timeout=600)[1]
        return process.returncode, said

    def run(self, program: str, *words: str, env: Mapping[str, str] | None = None) -> str:
        """Run a program as the user would after putting the directory on PATH; its stdout."""
        environment = {**self.env, "PATH": f"{self.bin}:{self.env['PATH']}", **(env or {})}
        file = shutil.which(program, path=environment["PATH"])
        assert file, f"no {program} on PATH"
        done = subprocess.run(
            [file, *words], env=environment, cwd=self.root, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, f"{program} {words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def environments(self) -> list[str]:
        """Names of the installations that lie there, linked or not."""
        return sorted(os.listdir(self.data / "venvs")) if (self.data / "venvs").exists() else []

    def left(self) -> list[str]:
        """Everything in the home."""
        return sorted(str(path.relative_to(self.home)) for path in self.home.rglob("*"))
