"""A role's daemon that runs on this machine: whether it answers, and what is wrong when it does not."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from ..exit_words import status_words
from .driver import Driver
from .requests import Daemon


@dataclass
class RunningDaemon:
    """A started daemon; `log` gets what it says."""

    daemon: Daemon
    driver: Driver
    log: Path
    began: float = field(default_factory=time.monotonic)
    _asked: float = 0.0
    _healthy: bool = False

    def healthy(self) -> bool:
        """Whether it is ready: its URL has answered once, or it has none. Asks at most once a second."""
        now = time.monotonic()
        if not self._healthy and now - self._asked >= 1.0:
            self._asked = now
            self._healthy = not self.daemon.health or _answers(self.daemon.health)
        return self._healthy

    def fault(self) -> str:
        """Why the run cannot go on with it, empty when it can."""
        status = self.driver.status
        if status is not None:
            words = status_words(status).replace("the driver", "it")
            return f"the daemon of {self.daemon.role} has ended: {words} ({self.log})"
        if not self._healthy and time.monotonic() - self.began > self.daemon.timeout:
            return f"the daemon of {self.daemon.role}: {self.daemon.health} has not answered within {self.daemon.timeout} s"
        return ""


def _answers(url: str) -> bool:
    # Without the environment's proxy: the daemon is on this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=2) as answer:
            return bool(answer.status < 400)
    except (OSError, urllib.error.URLError, ValueError):
        return False
