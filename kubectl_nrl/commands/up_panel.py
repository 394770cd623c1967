"""RayClusters and Deployments that come up together, as one picture on a terminal; elsewhere as a line per change.

The picture gives way to a line when all of them are up. What is up from the start is never drawn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING

from .session import Session

if TYPE_CHECKING:
    from ..live import Line
    from ..reasons import Snapshot
    from ..units_panel import UnitView


class UpPanel:
    """The picture of the units with these titles, by key. It is told from the threads in which each is waited for."""

    def __init__(self, session: Session, titles: Mapping[str, str]) -> None:
        from ..reasons import Snapshot
        from ..units_panel import UnitView
        from ..watch import Connection

        self._session = session
        self._panel = session.output.panel()
        self._began = monotonic()
        unknown = Snapshot("", "looking at it", None, (), (), 0)
        self._units = {key: UnitView(title, unknown) for key, title in titles.items()}
        self._lock = threading.Lock()
        self._drawn = False
        self._warned: set[str] = set()
        self.connection = Connection(session.output.progress)

    @property
    def shown(self) -> bool:
        """Whether a person sees the picture, and needs no line for what it shows."""
        return self._drawn and self._panel.live

    def place(self, key: str) -> Place:
        """The unit's place in the picture."""
        return Place(self, key)

    def close(self, *, keep: bool = False) -> None:
        """Take the picture away, all being up; with `keep` leave it: what was waited for in vain is worth keeping."""
        if keep:
            self._panel.close(keep=True)
        else:
            self._panel.give_way()

    def view(self, key: str, change: Callable[[UnitView], UnitView], *, waits: bool) -> None:
        """Draw the unit as it is now. Nothing is drawn before one of them `waits`."""
        with self._lock:
            self._units[key] = change(self._units[key])
            self._drawn = self._drawn or waits
            if self._drawn:
                self._panel.draw(self._lines, self._last_words)

    def warn(self, text: str) -> None:
        """Once, whichever of them it concerns."""
        with self._lock:
            known, self._warned = text in self._warned, self._warned | {text}
        if not known:
            self._session.output.warn(text)

    def say(self, text: str) -> None:
        """A line of what the picture shows as well."""
        if not self.shown:
            self._session.output.progress(text)

    def _lines(self, columns: int, rows: int) -> Sequence[Line]:
        from .. import units_panel

        return units_panel.lines(list(self._units.values()), monotonic() - self._began, columns, rows)

    def _last_words(self) -> Sequence[str]:
        from .. import units_panel

        units = list(self._units.values())
        if not all(unit.up for unit in units):
            return ()
        return [units_panel.last_words(units, monotonic() - self._began)]


class Place:
    """One unit's place in the picture (`watch.Onlooker` while it comes up)."""

    def __init__(self, panel: UpPanel, key: str) -> None:
        self._panel, self._key = panel, key
        self._ready, self._told = "", set[str]()
        self.connection = panel.connection

    def view(self, picture: Snapshot) -> None:
        """A new picture of it."""
        self._panel.view(self._key, lambda unit: replace(unit, snapshot=picture), waits=True)

    def ready(self, picture: Snapshot) -> None:
        """The last picture of its pods."""
        self._ready = picture.description
        self._panel.view(self._key, lambda unit: replace(unit, snapshot=picture), waits=False)

    def say(self, text: str) -> None:
        """A line of what the picture shows as well."""
        self._panel.say(text)

    def warn(self, text: str) -> None:
        """What cannot be looked at."""
        self._panel.warn(text)

    def doing(self, text: str) -> None:
        """What it still waits for, its pods being ready; the same is said once, however often it comes and goes."""
        self._panel.view(self._key, lambda unit: _described(unit, f"{self._ready}; {text}"), waits=True)
        if text not in self._told:
            self._told.add(text)
            self._panel.say(text)

    def up(self, text: str = "") -> None:
        """Nothing of it is waited for any more; `text` says so where there is no picture."""
        self._panel.view(self._key, lambda unit: replace(_described(unit, self._ready), up=True), waits=False)
        if text:
            self._panel.say(text)


def _described(unit: UnitView, words: str) -> UnitView:
    return replace(unit, snapshot=replace(unit.snapshot, description=words))
