"""The API server's clock, from the Date of its latest answer: ages are judged by it, since a laptop's clock may be wrong or jump."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone


class Answered:
    """When the server last answered, by its clock and by one here that nobody sets. Any thread may tell and ask."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._latest: tuple[str, float] | None = None

    def at(self, date: str) -> None:
        """An answer has come; `date` is its header of that name (RFC 9110, 5.6.7), empty where it had none."""
        if date:
            self._latest = date, self._monotonic()

    def now(self) -> datetime | None:
        """The server's time, to the second; None before an answer told it. A machine that slept is late until the next answer."""
        from email.utils import parsedate_to_datetime

        if self._latest is None:
            return None
        date, here = self._latest
        try:
            then = parsedate_to_datetime(date)
        except ValueError:
            return None
        then = then if then.tzinfo else then.replace(tzinfo=timezone.utc)
        return then + timedelta(seconds=self._monotonic() - here)
