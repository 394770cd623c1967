"""The end of a failed run in one object: what its log said last, which pods died, what is known to help."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..api import FailurePattern
from .dead_pods import DeadPod
from .log_lines import error_lines, lines
from .matching import Hint, hints

#: Dead pods that are listed; the others are counted.
_PODS = 5


@dataclass(frozen=True)
class Failure:
    """False when nothing was found: a run may fail without a word."""

    lines: tuple[str, ...] = ()
    pods: tuple[DeadPod, ...] = ()
    hints: tuple[Hint, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.lines or self.pods or self.hints)

    def text(self) -> str:
        found = ["last error in its log:", *(f"  {line}" for line in self.lines)] if self.lines else []
        found += [pod.line for pod in self.pods[:_PODS]]
        if len(self.pods) > _PODS:
            found.append(f"and {len(self.pods) - _PODS} more pods died")
        for hint in self.hints:
            # A worker's line may be what counts, far above the driver's last traceback.
            if hint.where == "log" and not any(hint.line.startswith(line.strip()) for line in self.lines):
                found.append(f"in its log: {hint.line}")
            found += [f"likely cause: {hint.summary} ({hint.id})", f"hint: {hint.hint}"]
        return "\n".join(found)

    def data(self) -> dict[str, Any]:
        return {
            "lines": list(self.lines),
            "pods": [pod.data() for pod in self.pods],
            "hints": [hint.data() for hint in self.hints],
        }


def triage(
    log: bytes, *, patterns: Iterable[FailurePattern], pods: Sequence[DeadPod] = (), end: Sequence[str] = ()
) -> Failure:
    """What the end of a run's log, its dead pods and its own end tell. `end`: KubeRay's reason and message, an exit code."""
    found = lines(log)
    texts = {"log": [line.text for line in found], "pod": [pod.line for pod in pods], "end": list(end)}
    known = hints(patterns, texts)
    quoted = error_lines(found) or tuple(dict.fromkeys(hint.line for hint in known if hint.where == "log"))
    return Failure(quoted, tuple(pods), known)
