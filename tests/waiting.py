"""How tests wait: for what they need to be so, and never for a time that should be enough."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")

#: Seconds after which something on a busy two-core machine has surely hung.
PATIENCE = 420.0
#: Seconds between two looks: few at first, for what takes no time, more later, for what costs a process to look at.
FIRST, LONGEST = 0.01, 0.3


def wait_until(
    condition: Callable[[], object], what: str | Callable[[], object] = "it", seconds: float = PATIENCE
) -> None:
    """Until the condition is true; `what` is waited for, or says what there is instead."""
    wait_for(condition, what, seconds)


def wait_for(look: Callable[[], _T], what: str | Callable[[], object] = "it", seconds: float = PATIENCE) -> _T:
    """Look until something is there, and return that: it may be gone, or be another, at the next look."""
    deadline, pause = time.monotonic() + seconds, FIRST
    while not (found := look()):
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {what() if callable(what) else what}"
        time.sleep(pause)
        pause = min(2 * pause, LONGEST)
    return found
