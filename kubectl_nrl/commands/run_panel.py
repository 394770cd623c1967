"""A run that starts, as a picture on a terminal that stays up to date; elsewhere as a line per change.

The picture ends where the driver's log begins: what scrolls by from then on tells more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..rayjob_state import span
from .session import Session

if TYPE_CHECKING:
    from ..live import Line
    from ..reasons import Snapshot


class RunPanel:
    """The picture of one run. `title` names it; `say` gets the lines of its changes, where nobody sees a picture.

    With `stdout` the picture is for a person who reads stdout: piped, it gets lines although stderr is a terminal.
    """

    def __init__(self, session: Session, title: str, say: Callable[[str], None], *, stdout: bool = False) -> None:
        self._session, self._title, self._say = session, title, say
        self._picture: Snapshot | None = None
        self._panel = session.output.panel()
        if stdout and session.output.columns() is None:
            self._panel.close()

    @property
    def shown(self) -> bool:
        """Whether a person sees the picture (or will in a moment), and needs no line for what it shows."""
        return self._panel.live

    def view(self, picture: Snapshot) -> None:
        """A new picture (the `view` of `watch.Follow`)."""
        self._picture = picture
        self._panel.draw(self._lines, self._last_words)

    def say(self, text: str) -> None:
        """A line of a change that no picture shows, or that the picture cannot be shown for."""
        self._say(text)

    def close(self, *, keep: bool = False) -> None:
        """Take the picture away, or leave it as it is: what a run waited for is worth keeping when waiting was in vain."""
        self._panel.close(keep=keep)

    def _lines(self, columns: int, rows: int) -> Sequence[Line]:
        from .. import panel

        assert self._picture is not None
        return panel.lines(self._title, self._picture, self._session.now(), columns, rows)

    def _last_words(self) -> Sequence[str]:
        """What stays of it above the log: how long the start took."""
        picture = self._picture
        if picture is None or picture.started is None:
            return ()
        ready, total = sum(g.ready for g in picture.groups), sum(g.total for g in picture.groups)
        took = span(max(0.0, (self._session.now() - picture.started).total_seconds()))
        # A picture is drawn when pods have settled, and a driver does not wait for that.
        pods = f", {ready}/{total} pods ready" if total and ready == total else ""
        return [f"{self._title}: its driver's log begins, {took} after its start{pods}"]
