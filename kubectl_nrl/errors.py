"""Errors of the program, the places they point at, and the exit codes they end in.

A problem found in a person's file is data (`Problem`), because all of them are reported at once; only the
sum of them is raised, as a `ConfigError`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

Severity = Literal["error", "warning", "note"]


class ExitCode(IntEnum):
    """What the process's exit status means; the same for every verb."""

    OK = 0
    FAILED = 1
    USAGE = 2
    CLUSTER = 3
    GAVE_UP = 4
    STOPPED = 5
    UNKNOWN = 6
    BUG = 70
    INTERRUPTED = 130


@dataclass(frozen=True)
class Origin:
    """Where a value was written: `file:line:column`, or the words of a command line.

    `line` and `column` count from 1 and are 0 where there is no position (a command line, a built-in default).
    """

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}:{self.column}" if self.column else f"{self.file}:{self.line}"

    @property
    def short(self) -> str:
        """`file:line` with the file's base name, as `check --explain` prints it."""
        name = self.file.rsplit("/", 1)[-1] if self.line else self.file
        return f"{name}:{self.line}" if self.line else name


@dataclass(frozen=True)
class Problem:
    """One thing wrong (or worth a word) in what a person wrote; rendered as one line, with its hint below."""

    message: str
    origin: Origin | None = None
    hint: str = ""
    severity: Severity = "error"

    def __str__(self) -> str:
        place = f"{self.origin}: " if self.origin else ""
        return f"{place}{self.severity}: {self.message}"


class NrlError(Exception):
    """An end of the program that a person can act on: what happened, a hint to paste, an exit code."""

    exit_code: ExitCode = ExitCode.USAGE

    def __init__(self, message: str, hint: str = "", *, exit_code: ExitCode | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if exit_code is not None:
            self.exit_code = exit_code


class UsageError(NrlError):
    """Wrong words on the command line; nothing was sent."""


class ConfigError(NrlError):
    """A recipe or infra file that cannot run: every problem found, in one error; nothing was sent."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        errors = [p for p in self.problems if p.severity == "error"]
        super().__init__("; ".join(str(p) for p in errors) or "no problem")


class PluginError(NrlError):
    """A plugin that raises, returns rubbish or patches what it may not; the message names it."""


class ClusterError(NrlError):
    """The cluster refused, or could not be reached.

    `status` is the HTTP status (0 when there was no answer) and `reason` Kubernetes' own word for it
    (`NotFound`, `AlreadyExists`, ...), from the Status object's field of that name.
    """

    exit_code = ExitCode.CLUSTER

    def __init__(self, message: str, hint: str = "", *, status: int = 0, reason: str = "") -> None:
        super().__init__(message, hint)
        self.status = status
        self.reason = reason
