"""A head's container for tests of drivers by exec: commands are really run, by a chosen shell with chosen programs and no others."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kubectl_nrl.errors import ClusterError
from kubectl_nrl.exec_jobs import Answer, HeadDriver

#: What driver.sh and the staging need; `sh` is chosen, and python3 stands for Ray's.
PROGRAMS = (
    "cat", "date", "dd", "env", "grep", "head", "ln", "ls", "mkdir", "mktemp", "mv", "readlink", "rm", "setsid", "sha256sum",
    "sleep", "tail", "true", "wc",
)  # fmt: skip

LOST = ClusterError("the connection broke", reason="ConnectionLost")


def shells() -> list[str]:
    """The shells of this machine that a container may have as its sh."""
    return [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]


@dataclass
class HeadShell:
    """Runs commands as exec would.

    `cuts` are bytes after which the next commands' input ends, `lost` the number of answers to lose; `full`: no room on the disk.
    """

    folder: Path
    shell: str = "sh"
    without: tuple[str, ...] = ()
    cuts: list[int] = field(default_factory=list)
    lost: int = 0
    full: bool = False
    commands: list[Sequence[str]] = field(default_factory=list)
    drivers: list[HeadDriver] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.programs = self.folder / "programs"
        self.programs.mkdir(parents=True)
        (self.programs / "sh").symlink_to(str(shutil.which(self.shell)))
        for name in PROGRAMS:
            if name not in self.without:
                (self.programs / name).symlink_to(str(shutil.which(name)))

    def run(self, command: Sequence[str], stdin: bytes = b"", timeout: float = 30.0) -> tuple[int, bytes, bytes]:
        self.commands.append(command)
        if stdin and self.cuts:
            stdin = stdin[: self.cuts.pop(0)]
        words = [str(self.programs / command[0]), *command[1:]]
        if self.full:
            # Files end at 1 KiB, and a program that writes on is told so instead of being killed.
            words = ["/bin/sh", "-c", "trap '' XFSZ; ulimit -f 2; exec \"$@\"", "sh", *words]
        child = subprocess.Popen(
            words, env={"PATH": str(self.programs)}, cwd=self.folder, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        out, err = child.communicate(stdin, timeout)
        # Nothing of what the command started may need its session.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        if self.lost:
            self.lost -= 1
            raise LOST
        return child.returncode, out, err

    def add_python(self) -> None:
        """Ray's own, which no head is without."""
        (self.programs / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        (self.programs / "python3").chmod(0o755)

    def driver(self, name: str = "run-1") -> HeadDriver:
        made = HeadDriver(self.run, str(self.folder / "a 'b' [c]" / "nrl-jdoe" / name))
        self.drivers.append(made)
        return made

    def close(self) -> None:
        self.cuts, self.lost, self.full = [], 0, False
        for made in self.drivers:
            made.stop(grace=0)


def until(driver: HeadDriver, true: Callable[[Answer], bool]) -> Answer:
    """Ask until it is true."""
    while not true(answer := driver.look()):
        pass
    return answer


def ended(driver: HeadDriver) -> Answer:
    return until(driver, lambda answer: not answer.live)


def whole_log(driver: HeadDriver) -> bytes:
    log = b""
    while chunk := driver.read(len(log)).log:
        log += chunk
    return log
