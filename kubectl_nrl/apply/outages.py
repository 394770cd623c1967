"""Looks at what goes away, or is being made, through outages of the API server: it does so whether anybody can look or not."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from ..errors import ClusterError
from ..ray_jobs import passing

T = TypeVar("T")

#: Seconds between two tries.
PAUSE = 0.5


class Outages:
    """Asks until `deadline` (of the monotonic clock); each outage is said once, by `say`, and its end."""

    def __init__(self, deadline: float, say: Callable[[str], None]) -> None:
        self._deadline, self._say = deadline, say
        self._away = False

    def ask(self, question: Callable[[], T]) -> T:
        """The answer to a question that changes nothing by being asked twice. Raises `ClusterError` when refused, or too late."""
        while True:
            try:
                answer = question()
            except ClusterError as error:
                if not passing(error) or time.monotonic() >= self._deadline:
                    raise
                if not self._away:
                    self._say(f"{error.message}; waiting")
                self._away = True
                time.sleep(PAUSE)
                continue
            if self._away:
                self._say("connection to the API server is back")
            self._away = False
            return answer
