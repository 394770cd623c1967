"""Says each trouble once per change: a cause that comes and goes, or whose count keeps changing, must not fill a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..reasons import Trouble

#: Seconds before one and the same trouble is said again after it had gone, or concerns another number of pods; twice as
#: long after each time.
AGAIN = 60.0
#: Seconds between two counts of ready pods after one that fell: at first, and at most.
FELL, FELL_LONGEST = 15.0, 600.0


@dataclass
class _Said:
    who: str
    at: float
    quiet: float = AGAIN
    gone: bool = False


class Telling:
    """`say` gets the troubles that are news. `clock` gives seconds that nobody sets."""

    def __init__(self, say: Callable[[Trouble], None], clock: Callable[[], float]) -> None:
        self._say, self._clock = say, clock
        self._said: dict[tuple[str, ...], _Said] = {}

    def tell(self, troubles: Iterable[Trouble]) -> None:
        """Say what is new among the troubles of now."""
        now, present = self._clock(), set()
        for trouble in troubles:
            present.add(trouble.key)
            known = self._said.get(trouble.key)
            if known is None:
                self._said[trouble.key] = _Said(trouble.who, now)
                self._say(trouble)
            elif (known.gone or known.who != trouble.who) and now - known.at >= known.quiet:
                self._said[trouble.key] = _Said(trouble.who, now, 2 * known.quiet)
                self._say(trouble)
        for key, known in self._said.items():
            known.gone = known.gone or key not in present


class Readiness:
    """`2/3 pods ready`, each time it changes; ever more seldom when pods come and go, and then as it is at that time."""

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._say, self._clock = say, clock
        self._said = (-1, -1)
        self._at = self._quiet = 0.0

    def tell(self, ready: int, total: int) -> None:
        now = self._clock()
        if (ready, total) == self._said or now - self._at < self._quiet:
            return
        if ready < self._said[0]:
            self._quiet = min(max(2 * self._quiet, FELL), FELL_LONGEST)
        self._said, self._at = (ready, total), now
        self._say(f"{ready}/{total} pods ready")
