"""The checks of `doctor` that concern this machine: Python, libraries, Ray, plugins, and what PATH holds.

kubectl looks for plugins by the longest name: for `kubectl nrl run x` it tries `kubectl-nrl-run-x`, then
`kubectl-nrl-run`, then `kubectl-nrl` (kubectl's pkg/cmd/plugin.go). A file of the first two kinds takes the verb away.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from .doctor_finding import Finding
from .session import Session

PROGRAM = "kubectl-nrl"
COMPLETION = "kubectl_complete-nrl"

#: Import name -> what to install: setup.cfg's install_requires.
LIBRARIES: Mapping[str, str] = {
    "pluggy": "pluggy",
    "yaml": "PyYAML",
    "omegaconf": "omegaconf<2.4",
    "hydra": "hydra-core==1.3.2",
    "jsonschema": "jsonschema",
    "kubernetes": "kubernetes",
    "rich": "rich",
    "pathspec": "pathspec",
}


def pip(*requirements: str) -> str:
    """The command that installs into this program's own environment."""
    return shlex.join([sys.executable, "-m", "pip", "install", *requirements])


def python(version: tuple[int, ...] = sys.version_info[:3]) -> Iterator[Finding]:
    """Whether this interpreter is new enough (setup.cfg: python_requires)."""
    shown = ".".join(map(str, version))
    if version >= (3, 10):
        yield Finding("python", "ok", f"{shown} ({sys.executable})")
    else:
        message = f"{shown} ({sys.executable}) is too old: 3.10 or newer is needed"
        yield Finding("python", "failed", message, "./install.sh --python FILE   # in the checkout")


def libraries(wanted: Mapping[str, str] = LIBRARIES) -> Iterator[Finding]:
    """Whether what the program imports is installed; nothing is imported for that."""
    from importlib.util import find_spec

    missing = [need for module, need in wanted.items() if find_spec(module) is None]
    if missing:
        yield Finding("libraries", "failed", f"missing: {', '.join(missing)}", pip(*missing))
    else:
        yield Finding("libraries", "ok", f"{len(wanted)} of {len(wanted)} are there")


def ray(seconds: float, interpreter: str = sys.executable) -> Iterator[Finding]:
    """Ray is imported in a process of its own: it takes a second, and a broken one may end the interpreter."""
    from importlib.util import find_spec

    if find_spec("ray") is None:
        why = "not installed: runs on this machine and code upload need it, all else works without"
        yield Finding("ray", "note", why, pip("ray[default]>=2.44"))
        return
    words = [interpreter, "-c", "import ray; print(ray.__version__)"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        yield Finding("ray", "ok", f"{_installed('ray')}, whose import takes longer than {seconds:g} s here")
        return
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        yield Finding("ray", "failed", f"cannot be imported: {said}", pip("--force-reinstall", "ray[default]>=2.44"))
    else:
        yield Finding("ray", "ok", done.stdout.strip())


def _installed(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return "of unknown version"


def plugins(session: Session) -> Iterator[Finding]:
    """Each plugin that cannot be used, or how many are loaded."""
    from ..manager import Manager

    infos = Manager.load(session.plugins, session.env).infos
    for info in infos:
        if info.broken:
            message = f'plugin "{info.name}" ({info.source}) is broken: {info.broken}'
            yield Finding("plugins", "failed", message, f"kubectl nrl -p no:{info.name} plugins   # or repair it")
    broken = sum(1 for info in infos if info.broken)
    if not broken:
        yield Finding("plugins", "ok", f"{len(infos)} loaded")


def user(session: Session) -> Iterator[Finding]:
    """Whether the name that marks objects as mine tells me from my colleagues."""
    from ..config.user import generic_warning

    who = session.user
    warning = generic_warning(who)
    if warning:
        yield Finding("user", "warning", warning.message, warning.hint)
    else:
        yield Finding("user", "ok", who.name)


def program(env: Mapping[str, str], own: Path | None = None, called: str | None = None) -> Iterator[Finding]:
    """Whether kubectl finds this program, and no other copy of it. `own` is this installation's script."""
    own = own or _own_script()
    called = sys.argv[0] if called is None else called
    found = _on_path(env, PROGRAM)
    if not found:
        directory = os.path.dirname(os.path.abspath(called)) if os.path.basename(called) == PROGRAM else str(own.parent)
        yield Finding("path", "failed", f"kubectl does not find {PROGRAM}: {directory} is not on PATH",
                      path_line(directory, env))  # fmt: skip
        return
    first, real = found[0], os.path.realpath(own)
    if own.exists() and os.path.realpath(first) != real:
        yield Finding("path", "failed", f"PATH finds another {PROGRAM} first: {first}; this one is {own}",
                      f"rm {shlex.quote(first)}   # or put {own.parent} before it on PATH")  # fmt: skip
        return
    others = [file for file in found[1:] if os.path.realpath(file) != os.path.realpath(first)]
    if others:
        yield Finding("path", "warning", f"{first} is used; there are other copies on PATH: {', '.join(others)}",
                      f"rm {shlex.join(others)}")  # fmt: skip
    else:
        yield Finding("path", "ok", first)
    if not _on_path(env, COMPLETION):
        yield Finding("completion", "note", f"no {COMPLETION} on PATH: kubectl cannot complete `kubectl nrl <TAB>`",
                      f"ln -s {shlex.quote(str(own.with_name(COMPLETION)))} {shlex.quote(os.path.dirname(first))}/")  # fmt: skip


def shadows(env: Mapping[str, str], verbs: Iterable[str]) -> Iterator[Finding]:
    """Files on PATH that kubectl runs instead of this program's verbs."""
    known = "|".join(re.escape(verb) for verb in sorted(verbs))
    pattern = re.compile(rf"{PROGRAM}-({known})(-.+)?")
    found = 0
    for file in _programs(env, f"{PROGRAM}-"):
        match = pattern.fullmatch(os.path.basename(file))
        if match:
            found += 1
            words = f"{match[1]}{(match[2] or '').replace('-', ' ')}"
            yield Finding("shadows", "failed", f"kubectl runs {file} for `kubectl nrl {words}`, not this program",
                          f"rm {shlex.quote(file)}   # or rename it; `kubectl-nrl {words}` is not affected")  # fmt: skip
    if not found:
        yield Finding("shadows", "ok", "no file on PATH takes a verb away")


def path_line(directory: str, env: Mapping[str, str]) -> str:
    """The line that puts a directory on PATH for good, in this user's shell."""
    shell = os.path.basename(env.get("SHELL", ""))
    if shell == "fish":
        return f"fish_add_path {shlex.quote(directory)}"
    profile = "~/.zshrc" if shell == "zsh" else "~/.bash_profile" if sys.platform == "darwin" else "~/.bashrc"
    line = f'export PATH="{directory}:$PATH"'
    return f"echo {shlex.quote(line)} >> {profile} && {line}"


def _own_script() -> Path:
    import sysconfig

    return Path(sysconfig.get_path("scripts")) / PROGRAM


def _on_path(env: Mapping[str, str], name: str) -> list[str]:
    """Every executable of that name on PATH, in order, each directory once."""
    found = (shutil.which(name, path=directory) for directory in _directories(env))
    return [file for file in found if file]


def _programs(env: Mapping[str, str], prefix: str) -> Iterator[str]:
    for directory in _directories(env):
        try:
            names = sorted(entry.name for entry in os.scandir(directory) if entry.name.startswith(prefix))
        except OSError:
            continue
        for name in names:
            file = os.path.join(directory, name)
            if os.path.isfile(file) and os.access(file, os.X_OK):
                yield file


def _directories(env: Mapping[str, str]) -> Sequence[str]:
    return list(dict.fromkeys(word for word in env.get("PATH", os.defpath).split(os.pathsep) if word))
