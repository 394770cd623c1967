"""What a check of `doctor` found, and the checks run side by side within a few seconds.

What is late is not waited for: a cluster that does not answer, or a file system that hangs, must not keep the rest from
being said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..errors import NrlError

#: Seconds until what has not answered is reported as such: a credential plugin alone may take three. A program that is started gets
#: less, so that it is ended.
PATIENCE = 8.0
PROGRAM_PATIENCE = 6.0

Status = Literal["ok", "note", "warning", "failed"]


@dataclass(frozen=True)
class Finding:
    """One line of `doctor`. `fix` is a command to paste, empty where nothing is wrong."""

    name: str
    status: Status
    message: str
    fix: str = ""


@dataclass(frozen=True)
class Probe:
    """A check: `look` yields findings as it gets them; `late` is what is said when it does not come to its end.

    `begun` says whether it could begin: what waits for something that is itself late says nothing.
    """

    look: Callable[[], Iterable[Finding]]
    late: Finding
    begun: Callable[[], bool] = lambda: True


@dataclass
class _Run:
    probe: Probe
    found: list[Finding] = field(default_factory=list)
    done: bool = False

    def look(self) -> None:
        try:
            for finding in self.probe.look():
                self.found.append(finding)
        except NrlError as error:
            self.found.append(Finding(self.probe.late.name, "failed", error.message, error.hint))
        except Exception as error:  # a check that breaks is a finding, and the others still count
            message = f"could not be checked: {type(error).__name__}: {error}"
            self.found.append(Finding(self.probe.late.name, "failed", message))
        self.done = True


def examine(probes: Sequence[Probe], seconds: float) -> list[Finding]:
    """The findings of all probes, in the order of the probes, after at most that many seconds."""
    from ..cluster.side_by_side import within

    runs = [_Run(probe) for probe in probes]
    within(seconds, [run.look for run in runs])
    findings: list[Finding] = []
    for run in runs:
        # `done` is read first: what is found after the deadline is no longer waited for, but never lost half-way.
        late = not run.done
        findings += [*run.found, *([run.probe.late] if late and run.probe.begun() else [])]
    return findings
