"""Reads a run's log once, in passing, for what its end is judged by: this machine's copy when that is whole, else the head's."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .log_reading import HEAD_PATIENCE

if TYPE_CHECKING:
    from ..runs.evidence import LogFound
    from ..watch import JobsApi, Source
    from .session import Session


@dataclass(frozen=True)
class LogPlace:
    """Where the log of a run is: `source` and `connect` for its head, None where `why` nobody can ask it.

    `over`: the driver has ended, so that what is there is all of it; `wandb` is the page that is known already.
    """

    run_id: str
    uid: str
    wandb: str
    over: bool
    source: Source | None
    connect: Callable[[str], JobsApi] | None = None
    why: str = ""


def read(session: Session, place: LogPlace) -> LogFound:
    """Read it, from wherever it can be had."""
    from ..runs.evidence import LogFound, LogLines
    from ..watch import DriverLog, directory, read_record

    folder = directory(place.run_id, session.env)
    record = read_record(folder)
    copied = record.get("cluster_uid") == place.uid and os.path.isfile(folder / "driver.log")
    if copied and record.get("complete"):
        return of_file(folder / "driver.log", place.wandb, complete=True)
    if place.source is None or place.connect is None:
        return _the_copy(folder, place, place.why) if copied else LogFound(place.wandb, "", False, place.why)
    lines, pages = LogLines(), [place.wandb]
    reader = DriverLog(place.connect, lines.feed, wandb=pages.append)
    reader.follow(place.source)
    reader.finish(HEAD_PATIENCE)
    end = reader.to_the_end()
    if not end.bytes and not end.complete and copied:
        return _the_copy(folder, place, end.why)
    lines.end()
    whole = end.complete and place.over
    return LogFound(pages[-1], lines.generated, whole, "" if whole else end.why or "the run goes on")


def _the_copy(folder: Path, place: LogPlace, why: str) -> LogFound:
    return of_file(folder / "driver.log", place.wandb, complete=False, why=f"{why}; the copy on this machine was read")


def of_file(path: Path, wandb: str, *, complete: bool, why: str = "") -> LogFound:
    """What a log on this machine says."""
    from ..runs.evidence import LogFound, LogLines
    from ..watch import WandbPage, pieces

    lines, page = LogLines(), WandbPage()
    try:
        for piece in pieces(path):
            lines.feed(piece)
            page.feed(piece)
    except OSError as error:
        complete, why = False, f"the copy {path} cannot be read: {error.strerror or error}"
    lines.end()
    return LogFound(page.url or wandb, lines.generated, complete, why)
