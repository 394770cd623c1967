"""`status -w`: the same answer for as long as somebody looks; one run ends it with its own end.

On a terminal it is one picture in one place; piped, a line per change. One run is watched, several are asked for again and
again: a handful of requests every few seconds, however many runs there are.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ..cells import cut
from ..errors import ClusterError, ExitCode, UsageError
from .connecting import open_cluster, paste
from .run_deleted import see_deleted
from .run_panel import RunPanel
from .session import Session
from .status import Question, look, say_what_to_do

if TYPE_CHECKING:
    from ..live import Line
    from .status_item import Item
    from .status_screen import Status

#: Seconds between two looks at several, and without an answer after which looking is given up.
PAUSE, PATIENCE = 2.0, 900.0


def watch(question: Question, session: Session) -> ExitCode:
    """Go on showing the answer. Raises as `look` does, for the first one."""
    status = look(question, session, over=True)
    run = status.items[0] if question.word and len(status.items) == 1 and status.items[0].run is not None else None
    if run is None:
        if session.output.format != "text":
            raise UsageError(
                f"-w with -o {session.output.format} needs one run: its last state is printed when it ends",
                "kubectl nrl status ID -w -o json",
            )
        return _Several(question, session).go_on(status)
    if not run.final:
        code = _to_the_end(session, run)
        if code:
            return code
        status = look(question, session, over=True)
    session.output.result(status)
    say_what_to_do(session, status)
    return ExitCode.OK


def _to_the_end(session: Session, item: Item) -> ExitCode:
    """Watch one run; 0 when it is over."""
    from ..watch import Follow, RunTarget
    from .waiting import asked

    assert item.run is not None
    run, output = item.run, session.output
    say = output.line if output.format == "text" else output.progress
    picture = RunPanel(session, item.title, say, stdout=output.format == "text")
    cluster = open_cluster(session)
    follow = Follow(
        cluster, RunTarget(run.namespace, run.name, run.uid, run.id), say=picture.say, warn=output.warn,
        view=picture.view, shown=lambda: picture.shown, providers=asked(session),
    )  # fmt: skip
    try:
        picture.view(item.snapshot)
        end = follow.until_final()
    except KeyboardInterrupt:
        picture.close(keep=True)
        return ExitCode.INTERRUPTED
    finally:
        picture.close()
        follow.close()
    if end.how == "final":
        return ExitCode.OK
    if end.how == "deleted":
        return see_deleted(session, cluster, run.namespace, end.message, follow.ray_cluster, rayjob=run.name).exit_code
    output.error(f"{item.title}: {end.message}", paste(session, run.namespace, "status", run.id))
    return ExitCode.UNKNOWN


class _Several:
    """Runs and clusters, looked at again and again."""

    def __init__(self, question: Question, session: Session) -> None:
        self._question, self._session = question, session
        self._panel = session.output.panel()
        if session.output.columns() is None:
            self._panel.close()
        self._said: dict[str, str] = {}
        self._status: Any = None
        self._lost_since: float | None = None

    def go_on(self, status: Status) -> ExitCode:
        """Until Ctrl-C, or until what was named is over or gone. Raises `ClusterError` when the API server refuses, or stays away."""
        try:
            self._show(status)
            while not self._over(status):
                time.sleep(PAUSE)
                status = self._again() or status
                self._show(status)
            return ExitCode.OK
        except UsageError:  # what was named was there at first
            self._panel.close()
            self._session.output.line(f"{self._question.word}: gone")
            return ExitCode.OK
        except KeyboardInterrupt:
            self._panel.close(keep=True)
            return ExitCode.INTERRUPTED
        finally:
            self._panel.close(keep=True)

    def _over(self, status: Status) -> bool:
        """Whether one run was named, of this machine or of a long-lived cluster, and is over."""
        if status.items and all(item.ran is not None and item.ran.final for item in status.items):
            return True
        records = status.here.records
        return bool(self._question.word and records and not status.items) and all(
            record.orphaned or (record.final and record.torn_down) for record in records
        )

    def _again(self) -> Status | None:
        try:
            status = look(self._question, self._session, over=True, quiet=True)
        except ClusterError as error:
            now = time.monotonic()
            if error.status in (401, 403) or now - (self._lost_since or now) > PATIENCE:
                raise
            if self._lost_since is None:
                self._lost_since = now
                self._session.output.progress(f"connection to the API server lost ({error.message}); looking again")
            return None
        if self._lost_since is not None:
            self._lost_since = None
            self._session.output.progress("connection to the API server is back")
        return status

    def _show(self, status: Status) -> None:
        if self._panel.live:
            self._status = status.current()
            self._panel.draw(self._lines)
            return
        rows = {item.title: item for item in status.items if not item.final or item.title in self._said or item.gpus}
        for title, item in rows.items():
            self._tell(title, item.line)
        for record in status.here.records:
            self._tell(
                record.id,
                f"{record.id}: {record.shown_state}{f' ({record.phase})' if record.phase else ''}, this machine",
            )
        gone = [title for title in self._said if title not in rows and title not in {r.id for r in status.here.records}]
        for title in gone:
            del self._said[title]
            self._session.output.line(f"{title}: gone")
        if not self._said and self._status is None:
            self._session.output.line(status.text())
        self._status = status

    def _tell(self, name: str, line: str) -> None:
        if self._said.get(name) != line:
            self._said[name] = line
            self._session.output.line(line)

    def _lines(self, columns: int, rows: int) -> list[Line]:
        """The answer as far as it fits."""
        lines: list[Line] = [[(cut(line, columns - 1), "")] for line in self._status.text().splitlines()]
        if len(lines) < rows:
            return lines
        return [*lines[: rows - 2], [(f"and {len(lines) - rows + 2} more lines", "dim")]]
