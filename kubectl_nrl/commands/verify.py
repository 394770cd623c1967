"""`kubectl nrl verify`: whether a run ended as it should have, item by item; 1 when an item fails.

What cannot be looked at (forbidden, or a log that went with its head) is a note and no failure: only what was seen to be
wrong is called wrong.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import ExitCode, UsageError
from ..parser import PROG
from .connecting import paste, ray_connector
from .job_target import look_up, not_found
from .session import Session
from .targets import Words, add_recipe_arguments, tell_apart

if TYPE_CHECKING:
    from ..runs import RunRecord
    from ..runs.checklist import Item, LogFound

EXAMPLES = """
kubectl nrl verify 20261130-120000-abcd
kubectl nrl verify rayjob/grpo-a -n rl -o json
kubectl nrl verify recipe.yaml --infra infra.yaml
"""

#: Seconds without an answer after which a head's log counts as out of reach.
HEAD_PATIENCE = 10.0

_MARKS = {True: "ok", False: "FAILED", None: "-"}


@dataclass(frozen=True)
class Verified:
    """The checklist of one run."""

    run: RunRecord
    items: Sequence[Item]

    schema = "verify"

    @property
    def failed(self) -> int:
        return sum(item.ok is False for item in self.items)

    def text(self) -> str:
        width = max(len(item.title) for item in self.items)
        lines = [f"rayjob/{self.run.name}, run {self.run.id}"]
        for item in self.items:
            lines.append(f"{_MARKS[item.ok]:<6}  {item.title:<{width}}  {item.detail}")
            if item.ok is False and item.fix:
                lines.append(f"{'':<6}  {'':<{width}}  see: {item.fix}")
        return "\n".join([*lines, f"{self.failed} failed" if self.failed else "nothing is wrong"])

    def data(self) -> dict[str, Any]:
        items = [{"title": i.title, "ok": i.ok, "detail": i.detail, "fix": i.fix} for i in self.items]
        return {
            "id": self.run.id,
            "rayjob": self.run.name,
            "namespace": self.run.namespace,
            "state": self.run.state,
            "failed": self.failed,
            "items": items,
        }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_recipe_arguments(parser, "RUN", "a run's id, its RayJob's name, rayjob/NAME, or a recipe (its newest run)")
    parser.set_defaults(role="training")


def handle(args: argparse.Namespace, session: Session) -> ExitCode:
    from ..runs import RunRecord, checklist, evidence

    words = tell_apart(args.words, session, f"{PROG} verify")
    if not words.what:
        raise UsageError("a run's ID is missing", f"{PROG} runs")
    _refuse_local(session, words)
    place = look_up(args, session, words)
    if place.job is None:
        raise not_found(words, place.namespace)
    if not isinstance(place.job, RunRecord):
        raise UsageError(
            f"job {place.job.id} is on the long-lived cluster {place.job.cluster.name}: there is no teardown to verify",
            paste(session, place.namespace, "job", "logs", place.job.id),
        )
    run = place.job
    commands = checklist.Commands(
        paste(session, run.namespace, "job", "logs", run.id), paste(session, run.namespace, "job", "stop", run.id)
    )
    found = evidence.seen(place.cluster, run)
    launched = evidence.launched(place.cluster, run, session.env)
    log = _read_log(session, place.cluster, run)
    result = Verified(run, checklist.checklist(run, found, launched, log, commands, session.now()))
    session.output.result(result)
    return ExitCode.FAILED if result.failed else ExitCode.OK


def _refuse_local(session: Session, words: Words) -> None:
    from . import local_job

    here = local_job.find(session, words.name) if words.name else None
    if here is not None:
        raise UsageError(
            f"run {here.id} is on this machine: status and logs tell all of it", f"{PROG} status {here.id}"
        )


def _read_log(session: Session, cluster: Any, run: RunRecord) -> LogFound:
    """Read the driver's log once, in passing: from this machine's copy when that is whole, else from the head."""
    from ..runs.checklist import LogFound
    from ..runs.evidence import LogLines
    from ..watch import DriverLog, Source, directory, read_record

    lines, pages = LogLines(), [run.wandb]
    copy = directory(run.id, session.env)
    record = read_record(copy)
    of_run = str(record.get("cluster_uid", "")).rstrip("+") == run.ray_cluster
    if of_run and record.get("complete") and os.path.isfile(copy / "driver.log"):
        return _of_copy(copy / "driver.log", lines, run.wandb, complete=True)
    if not run.ray_cluster or not run.status.get("jobStatus"):
        return LogFound(run.wandb, "", False, "there was no driver" if run.final else "there is no driver yet")
    reader = DriverLog(ray_connector(cluster, run.namespace), lines.feed, wandb=pages.append)
    reader.follow(Source(run.ray_cluster, run.ray_cluster, run.submission_id))
    reader.finish(HEAD_PATIENCE)
    end = None
    while end is None:
        end = reader.join(1.0)
    if not end.bytes and of_run and os.path.isfile(copy / "driver.log"):
        return _of_copy(copy / "driver.log", lines, run.wandb, complete=False, why=f"{end.why}; a copy was read")
    lines.end()
    why = "" if end.complete and run.final else end.why or "the run goes on"
    return LogFound(pages[-1], lines.generated, end.complete and run.final, why)


def _of_copy(path: Any, lines: Any, wandb: str, *, complete: bool, why: str = "") -> LogFound:
    from ..runs.checklist import LogFound
    from ..watch import WandbPage, pieces

    page = WandbPage()
    try:
        for piece in pieces(path):
            lines.feed(piece)
            page.feed(piece)
    except OSError as error:
        complete, why = False, f"the copy {path} cannot be read: {error.strerror or error}"
    lines.end()
    return LogFound(page.url or wandb, lines.generated, complete, why)
