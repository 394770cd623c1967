"""When a run that cannot start is given up: what is certain at once, what somebody must mend after a while, a queue never.

The time is how long this program has seen the cause, by a clock that nobody sets and that does not count an outage.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..reasons import Trouble

#: Seconds for a cause that does not heal alone, unless --start-timeout says otherwise.
DEFAULT = 900
#: Seconds that a cause may be away and still be the same one: a pod is made anew, an image is tried again.
GAP = 30.0


class StartLimit:
    """`seconds` for causes that somebody must mend; None never gives up, not even on what is certain."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._since: dict[tuple[str, ...], tuple[float, float]] = {}

    def reset(self) -> None:
        """Another attempt, or the end of the start: no cause has lasted yet."""
        self._since.clear()

    def skip(self, seconds: float) -> None:
        """Do not count that much of the time: nothing could be seen in it."""
        self._since = {key: (first + seconds, last + seconds) for key, (first, last) in self._since.items()}

    def strikes(self, troubles: Iterable[Trouble], now: float) -> tuple[Trouble, float] | None:
        """The trouble on which to give up at `now` (monotonic seconds), and for how long it has lasted."""
        if self._seconds is None:
            return None
        lasting = {t.key: t for t in troubles if t.heals != "alone"}
        known = {key: times for key, times in self._since.items() if key in lasting or now - times[1] < GAP}
        self._since = known | {key: (known[key][0] if key in known else now, now) for key in lasting}
        for key, trouble in lasting.items():
            lasted = now - self._since[key][0]
            if trouble.heals == "never" or lasted >= self._seconds:
                return trouble, lasted
        return None
