"""The test kit: run command lines in this process, in a directory, home and environment of their own, and compare
goldens.

It ships with the program, so that a plugin's tests are written as this program's own are.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import shutil
import sys
import tempfile
import textwrap
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from .app import main

#: What every Project's runs have unless told otherwise.
TIME = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
SUFFIX = "test"
RUN_ID = f"{TIME:%Y%m%d-%H%M%S}-{SUFFIX}"
USER = "rl-user"

#: Set to 1, goldens are written instead of compared.
UPDATE = "NRL_UPDATE_GOLDENS"

Content = str | bytes | Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What a command line did: exit code, stdout and stderr as text, stdout's bytes."""

    command: str
    exit: int
    out: str
    err: str
    raw: bytes

    @property
    def json(self) -> Any:
        """stdout as JSON; an AssertionError that shows both streams when it is none."""
        try:
            return json.loads(self.out)
        except ValueError as error:
            raise AssertionError(f"stdout is no JSON: {error}\n{self}") from None

    @property
    def documents(self) -> list[Any]:
        """stdout as YAML documents."""
        import yaml

        return list(yaml.safe_load_all(self.out))

    def result(self, schema: str) -> Any:
        """stdout as JSON, checked against `schemas/results/<schema>.json`."""
        check_result(schema, self.json)
        return self.json

    def ok(self) -> Outcome:
        """Itself, after asserting that it ended with 0."""
        assert self.exit == 0, str(self)
        return self

    def __str__(self) -> str:
        return f"$ {self.command}\nexit {self.exit}\n--- stdout\n{self.out}--- stderr\n{self.err}"


class Project:
    """Files in a directory of their own, and command lines run there.

    `files` maps names to text (dedented), bytes, or data that is written as YAML. `plugin` is the source of a
    plugin, a module or any object with hook implementations; it is loaded by every run. Without `path` a temporary
    directory is used and removed. `env` is all of the environment beyond the few variables that every run gets.
    """

    def __init__(
        self,
        files: Mapping[str, Content] | None = None,
        *,
        path: Path | None = None,
        env: Mapping[str, str] | None = None,
        plugin: object = None,
        time: datetime = TIME,
        suffix: str = SUFFIX,
    ) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="nrl-project-")).resolve() if path is None else path
        if path is None:
            weakref.finalize(self, shutil.rmtree, self.root, True)
        self.path = self.root / "project"
        self.home = self.root / "home"
        self.path.mkdir(parents=True, exist_ok=True)
        self.home.mkdir(exist_ok=True)
        self.time = time
        self.suffix = suffix
        self.env = {
            "HOME": str(self.home),
            "PATH": os.environ.get("PATH", os.defpath),
            "USER": USER,
            "NRL_K8S_USER": USER,
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "COLUMNS": "100",
            "TMPDIR": str(self.root),
            **(env or {}),
        }
        if plugin is not None:
            self.env["KUBECTL_NRL_PLUGINS"] = self._add_plugin(plugin)
        for name, content in (files or {}).items():
            self.write(name, content)

    def write(self, name: str, content: Content) -> Path:
        """Write one file of the project; its path."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            file.write_bytes(content)
        elif isinstance(content, str):
            file.write_text(textwrap.dedent(content).lstrip("\n"), encoding="utf-8")
        else:
            import yaml

            file.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        return file

    def read(self, name: str) -> str:
        return (self.path / name).read_text(encoding="utf-8")

    def run(self, line: str | Sequence[str], *, env: Mapping[str, str] | None = None, stdin: str = "") -> Outcome:
        """Run one command line, as words or as a shell would split it; a leading `kubectl nrl` is dropped."""
        words = shlex.split(line) if isinstance(line, str) else list(line)
        if words[:2] == ["kubectl", "nrl"]:
            words = words[2:]
        environment = {**self.env, **(env or {})}
        with _streams(stdin) as (out, err), _environment(environment), _directory(self.path):
            code = main(words, env=environment, clock=lambda: self.time, suffix=lambda: self.suffix)
        raw = out.getvalue()
        command = shlex.join(["kubectl", "nrl", *words])
        return Outcome(command, code, raw.decode("utf-8", "backslashreplace"), err.getvalue().decode("utf-8"), raw)

    def _add_plugin(self, plugin: object) -> str:
        if isinstance(plugin, str):
            file = self.root / "test_plugin.py"
            file.write_text(textwrap.dedent(plugin).lstrip("\n"), encoding="utf-8")
            return str(file)
        name = f"nrl_test_plugin_{id(plugin):x}"
        # The import system takes any object that stands in sys.modules.
        sys.modules[name] = plugin  # type: ignore[assignment]
        weakref.finalize(self, sys.modules.pop, name, None)
        return name


def golden(file: Path, text: str) -> None:
    """Assert that `text` is what the file holds; with NRL_UPDATE_GOLDENS=1 write it instead."""
    if os.environ.get(UPDATE) == "1":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return
    import difflib

    wanted = file.read_text(encoding="utf-8") if file.exists() else ""
    if text != wanted:
        diff = difflib.unified_diff(wanted.splitlines(True), text.splitlines(True), str(file), "now", n=2)
        raise AssertionError(f"{''.join(diff)}\nif this is meant: {UPDATE}=1 pytest, then read the diff in git")


def check_result(schema: str, data: Any) -> None:
    """Assert that data is as `schemas/results/<schema>.json` says."""
    import jsonschema
    import nrl_schemas

    file = Path(nrl_schemas.__file__).parent / "results" / f"{schema}.json"
    validator = jsonschema.Draft202012Validator(json.loads(file.read_text(encoding="utf-8")))
    faults = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(data)]
    assert not faults, f"not as {file.name} says: " + "; ".join(faults)


@contextlib.contextmanager
def _streams(stdin: str) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    """The three standard streams as byte buffers under text, as a pipe has them."""
    out, err = io.BytesIO(), io.BytesIO()
    saved = sys.stdin, sys.stdout, sys.stderr
    sys.stdin = io.StringIO(stdin)
    sys.stdout = io.TextIOWrapper(out, "utf-8", write_through=True)
    sys.stderr = io.TextIOWrapper(err, "utf-8", "backslashreplace", write_through=True)
    try:
        yield out, err
    finally:
        wrappers = sys.stdout, sys.stderr
        sys.stdin, sys.stdout, sys.stderr = saved
        for wrapper in wrappers:
            # Detached, so that the buffers outlive them.
            wrapper.flush()
            wrapper.detach()


@contextlib.contextmanager
def _environment(env: Mapping[str, str]) -> Iterator[None]:
    saved = dict(os.environ)
    os.environ.clear()
    os.environ.update(env)
    # tempfile remembers its directory from the first use.
    directory, tempfile.tempdir = tempfile.tempdir, None
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved)
        tempfile.tempdir = directory


@contextlib.contextmanager
def _directory(path: Path) -> Iterator[None]:
    saved = Path.cwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(saved)
