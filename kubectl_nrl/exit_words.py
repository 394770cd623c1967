"""An exit status in words, for a person."""

from __future__ import annotations

import signal


def status_words(status: int) -> str:
    """What a driver's exit status means; a negative one is that of a signal."""
    if status < 0:
        return f"the driver was ended by {_signal_name(-status)}"
    if status > 128:
        return f"the driver ended with exit status {status} ({_signal_name(status - 128)}?)"
    return f"the driver ended with exit status {status}"


def _signal_name(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
    return f"{name}, perhaps by the system, out of memory" if name == "SIGKILL" else name
