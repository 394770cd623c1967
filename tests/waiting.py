"""How tests wait: for what they need to be so, and never for a time that should be enough."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Seconds after which something on a busy two-core machine has surely hung.
PATIENCE = 420.0
#: Seconds between two looks: few at first, for what takes no time, more later, for what costs a process to look at.
FIRST, LONGEST = 0.01, 0.3


def wait_until(
    condition: Callable[[], object], what: str | Callable[[], object] = "it", seconds: float = PATIENCE
) -> None:
    """Until the condition is true; `what` is waited for, or says what there is instead."""
    deadline, pause = time.monotonic() + seconds, FIRST
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {what() if callable(what) else what}"
        time.sleep(pause)
        pause = min(2 * pause, LONGEST)
