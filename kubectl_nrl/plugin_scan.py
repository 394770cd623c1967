"""Find plugins without importing them: installed entry points, files and modules that were named.

`*.dist-info/entry_points.txt` is read by hand: importlib.metadata costs more than the rest of `--help` together.
Nothing is ever found by lying beside a recipe: only what is installed or named is run.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from . import PROJECT
from .errors import UsageError

#: Environment variable with files or modules, separated as PATH is.
ENV_VARIABLE = "KUBECTL_NRL_PLUGINS"

Origin = Literal["builtin", "entry point", "file", "module"]


@dataclass(frozen=True)
class Candidate:
    """A plugin that may be loaded. `target` is `module`, `module:attribute` or a file's path."""

    name: str
    origin: Origin
    target: str
    version: str = ""
    dist: str = ""

    @property
    def label(self) -> str:
        """How messages name it: `builtin:scheduler_kai`, `acme-nrl 1.2`, `./acme.py`."""
        if self.origin == "builtin":
            return f"builtin:{self.name}"
        if self.origin == "entry point":
            return f"{self.dist} {self.version}".strip()
        return self.target

    @property
    def source(self) -> str:
        """Where it comes from, for `kubectl nrl plugins`."""
        if self.origin == "entry point":
            return f"{self.dist} ({self.target})"
        return "built in" if self.origin == "builtin" else self.target

    def named(self, name: str) -> bool:
        """Whether `-p no:NAME` means this plugin."""
        return name in (self.name, self.label, self.dist)


def blocked(words: Iterable[str]) -> list[str]:
    """The NAMEs of `no:NAME` words."""
    return [w[3:] for w in words if w.startswith("no:")]


def external(words: Sequence[str], env: Mapping[str, str], path: Sequence[str] | None = None) -> list[Candidate]:
    """Candidates that are not built in: installed ones, then `KUBECTL_NRL_PLUGINS`, then the words of -p."""
    found = list(installed(sys.path if path is None else path))
    named = [w for w in env.get(ENV_VARIABLE, "").split(os.pathsep) if w]
    for word in [*named, *words]:
        if not word.startswith("no:"):
            found.append(_named(word))
    return found


def check_files(words: Iterable[str]) -> None:
    """A file named by -p that is not there is a usage error: nothing was meant to run without it."""
    for word in words:
        if not word.startswith("no:") and not os.path.isfile(word):
            raise UsageError(
                f'no plugin file "{word}"', "-p takes a Python file, or no:NAME to keep a plugin from loading"
            )


def installed(path: Sequence[str]) -> Iterator[Candidate]:
    """Entry points of the group `kubectl_nrl` on a module search path; of a distribution, the first copy."""
    seen: set[str] = set()
    for directory in path:
        if not directory:
            continue
        try:
            entries = [e for e in os.scandir(directory) if e.name.endswith((".dist-info", ".egg-info"))]
        except OSError:
            continue
        for entry in sorted(entries, key=lambda e: e.name):
            dist = re.sub(r"[-_.]+", "-", entry.name.rsplit(".", 1)[0].split("-", 1)[0]).lower()
            if dist not in seen:
                points = list(_entry_points(entry.path))
                seen.add(dist)
                for name, target in points:
                    real, version = _metadata(entry.path, dist)
                    yield Candidate(name, "entry point", target, version, real)


def _entry_points(directory: str) -> Iterator[tuple[str, str]]:
    try:
        with open(os.path.join(directory, "entry_points.txt"), encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError):
        return
    if PROJECT not in text:
        return
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = line.strip("[] ")
        elif section == PROJECT and "=" in line and not line.startswith(("#", ";")):
            name, target = line.split("=", 1)
            yield name.strip(), target.split("[", 1)[0].strip()


def _metadata(directory: str, dist: str) -> tuple[str, str]:
    """(name, version) as the distribution spells them, else as its directory does."""
    values = {"Name": dist, "Version": ""}
    for file_name in ("METADATA", "PKG-INFO"):
        try:
            with open(os.path.join(directory, file_name), encoding="utf-8", errors="replace") as file:
                for line in file:
                    key, _, value = line.partition(":")
                    if key in values:
                        values[key] = value.strip()
                    elif not line.strip():
                        break
        except OSError:
            continue
    return values["Name"], values["Version"]


def _named(word: str) -> Candidate:
    """A file when it ends in .py or has a directory, else a module."""
    if word.endswith(".py") or os.sep in word:
        stem = os.path.basename(word).removesuffix(".py")
        return Candidate(stem, "file", word)
    return Candidate(word.split(":", 1)[0].rsplit(".", 1)[-1], "module", word)
