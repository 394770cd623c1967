"""What `status` answers: a line for each of several, everything about a single one; as text and as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from .. import panel
from ..cells import cut, printable, width, wrap
from ..rayjob_state import span
from .status_item import Item
from .table import table

if TYPE_CHECKING:
    from ..reasons import Snapshot
    from .local_list import LocalList

#: Columns of the words before a value.
_LABEL = 11
#: Jobs of one cluster that are named; of more the number is told.
JOBS = 10
#: Seconds that KubeRay and Kubernetes may take over what is due to go.
GOING = 60.0


@dataclass(frozen=True)
class Status:
    """`items` are the cluster's, `here` this machine's. `asked`: they were named, so that each is told in full after the lines.

    `where` and `whose` say which columns tell items apart; `columns` is the terminal's width (None: no terminal, nothing is cut).
    """

    items: Sequence[Item]
    here: LocalList
    now: datetime
    place: str = ""
    asked: bool = False
    where: bool = False
    whose: bool = False
    columns: int | None = None

    schema = "status"

    def text(self) -> str:
        parts = []
        if self.items and not (self.asked and len(self.items) == 1):
            parts.append("\n".join(self._table()))
        if self.asked:
            parts += [detail(item, self.now, self.columns) for item in self._told_in_full()]
        if self.here.records:
            parts.append(self.here.text())
        return "\n\n".join(parts) if parts else self._nothing()

    def current(self) -> Status:
        """The same without what is over and holds nothing, unless it was asked for."""
        items = [item for item in self.items if self.asked or not item.final or item.gpus]
        return replace(self, items=items)

    def _told_in_full(self) -> Sequence[Item]:
        """One that was named; of a recipe's many, those that are not over, else the newest."""
        if len(self.items) == 1:
            return self.items
        return [item for item in self.items if not item.final] or self.items[:1]

    def _nothing(self) -> str:
        if not self.place:
            return self.here.text()
        return f"nothing{'' if self.whose else ' of yours'} runs in {self.place}, nor on this machine"

    def _table(self) -> Iterator[str]:
        """A line for each; on a terminal its trouble stands below where it does not fit beside."""
        rows = [self._row(item) for item in self.items]
        whole = table(rows).splitlines()
        if self.columns is None or all(width(line) <= self.columns for line in whole):
            yield from whole
            return
        header, *lines = table([{**row, "TROUBLE": ""} for row in rows]).splitlines()
        yield cut(header, self.columns)
        for line, row in zip(lines, rows, strict=True):
            yield cut(line, self.columns)
            yield from (f"  {part}" for part in wrap(row["TROUBLE"], self.columns - 2) if part)

    def _row(self, item: Item) -> Mapping[str, str]:
        ready, total = item.ready
        age = (self.now - item.created).total_seconds() if item.created else None
        troubles = item.snapshot.troubles
        more = f" (and {len(troubles) - 1} more)" if len(troubles) > 1 else ""
        return {
            "NAME": item.title,
            "NAMESPACE": item.namespace if self.where else "",
            "OWNER": (item.owner or "-") if self.whose else "",
            "STATE": item.state,
            "PODS": f"{ready}/{total}" if total else "-",
            "GPUS": "?" if item.blind else str(item.gpus),
            "AGE": span(age),
            "TROUBLE": printable(troubles[0].line) + more if troubles else "",
        }

    def data(self) -> dict[str, Any]:
        return {"items": [item.data(self.now) for item in self.items], "local": self.here.data()}


def detail(item: Item, now: datetime, columns: int | None = None) -> str:
    """Everything about one, as lines that are wrapped to a terminal's width."""
    wide = max(columns or 10_000, 40)
    lines = [f"{item.title}: {printable(_state(item))}"]
    for label, value in _facts(item, now):
        lines += _wrapped(label, value, wide)
    lines += _pods(item.snapshot, wide)
    for at, daemon in enumerate(item.daemons):
        lines += _wrapped("" if at else "daemons" if len(item.daemons) > 1 else "daemon", daemon.words, wide)
    for at, (label, words) in enumerate(_jobs(item, now)):
        lines += _wrapped("" if at and label == "jobs" else label, words, wide)
    # Paths, URLs and commands are copied from a terminal: never broken.
    lines += [f"  {label:<{_LABEL}}{value}" for label, value in _places(item)]
    return "\n".join(lines)


def _jobs(item: Item, now: datetime) -> Iterator[tuple[str, str]]:
    """What runs on a long-lived cluster besides daemons, and the run that was asked for, each with its label."""
    if item.jobs is not None and not item.jobs:
        yield "jobs", "none"
    for job in (item.jobs or ())[:JOBS]:
        whose = f"of {job.owner}" if job.owner else "" if job.submission_id else "started by hand"
        age = span(job.seconds(now)) if job.started else ""
        yield "jobs", ", ".join(part for part in (f"{job.id}: {job.state}", age, whose) if part)
    if len(item.jobs or ()) > JOBS:
        yield "jobs", f"and {len(item.jobs or ()) - JOBS} more: kubectl nrl job list -n {item.namespace}"
    if item.ran is not None:
        ran = item.ran
        took = f" after {span(ran.seconds(now))}" if ran.final and ran.ended else ""
        # Ray's own message of these two says no more than the state.
        why = f"; {ran.message}" if ran.message and ran.state not in ("SUCCEEDED", "RUNNING") else ""
        yield "run", f"{ran.run.id}: {ran.words}{took}{why}"


def _state(item: Item) -> str:
    if item.run is None or not item.run.final:
        return item.snapshot.description
    return f"{item.run.state} ({item.run.reason})" if item.run.reason else item.run.state


def _facts(item: Item, now: datetime) -> Iterator[tuple[str, str]]:
    run = item.run
    owner = item.owner or "nobody (no owner label)"
    who = f'owner {owner}, namespace "{item.namespace}"'
    yield ("run", f"{run.id}, {who}") if run is not None else ("cluster", who)
    age = span((now - item.created).total_seconds()) if item.created else "-"
    if run is None:
        yield "created", f"{age} ago"
        return
    ended = item.run.status.get("endTime") if item.run else None
    if run.final:
        took = f", after {span(run.seconds(now))}" if ended and run.status.get("startTime") else ""
        yield "ended", f"{_stamp(ended)}{took}" if ended else f"created {age} ago"
    else:
        yield "created", f"{age} ago"
    if run.ray_cluster and not (run.final and not item.pods):
        yield "cluster", f"raycluster/{run.ray_cluster}"
    elif not run.final:
        yield "cluster", "its Ray cluster is not created yet"
    message = _message(item)
    if message:
        yield "message", message
    if run.final:
        yield "holds", holding(item, now)


def _message(item: Item) -> str:
    from ..rayjob_state import outcome

    end = outcome(item.run.status) if item.run is not None else None
    return printable(end.message) if end is not None and end.exit_code else ""


def holding(item: Item, now: datetime) -> str:
    """What a finished run still has, and until when."""
    from ..reasons import is_worker

    if not item.pods:
        return "not known: its pods may not be listed" if item.blind else "nothing"
    workers = sum(map(is_worker, item.pods))
    what = f"{len(item.pods)} pod{'s' if len(item.pods) != 1 else ''}" if workers else "its head, for the log"
    gpus = f"{item.gpus} GPUs in {what}" if item.gpus else what
    due = item.due
    when = None if due is None else (due.workers if workers else None) or due.head
    if when is not None:
        left = (when - now).total_seconds()
        if -GOING < left <= 0:
            return f"{gpus}, which go now"
        late = f"due to go {span(-left)} ago" if left < 0 else f"{span(left)} left"
        return f"{gpus}, until {when:%Y-%m-%d %H:%M:%S} UTC ({late})"
    kept = due is not None and due.kept
    why = "it was told to keep everything" if kept else f"no deletion rule of KubeRay matches {item.state}"
    return f"{gpus}, for good: {why}"


def _pods(snapshot: Snapshot, columns: int) -> Iterator[str]:
    ready, total = sum(g.ready for g in snapshot.groups), sum(g.total for g in snapshot.groups)
    if snapshot.groups:
        held = f", {snapshot.gpus} GPUs held" if snapshot.gpus else ""
        yield f"  {'pods':<{_LABEL}}{ready}/{total} ready{held}"
        for line in panel.group_lines(snapshot.groups, columns - _LABEL, len(snapshot.groups)):
            yield " " * _LABEL + "".join(text for text, _ in line)
    for at, trouble in enumerate(snapshot.troubles):
        yield from _wrapped("why" if at == 0 else "", trouble.line, columns)
    for note in snapshot.notes:
        yield from _wrapped("note", note, columns)


def _places(item: Item) -> Iterator[tuple[str, str]]:
    from ..reasons.advice import advice

    commands = item.commands or {}
    yield from (("try", words) for words in dict.fromkeys(advice(t, item.namespace) for t in item.snapshot.troubles))
    if item.log is not None:
        yield "log", item.log.path + ("" if item.log.complete or not item.final else " (its end may be missing)")
    wandb = item.run.wandb if item.run is not None else item.ran.run.wandb if item.ran is not None else ""
    if wandb:
        yield "wandb", wandb
    if "logs" in commands:
        yield ("read it" if item.final or "stop" not in commands else "follow it"), commands["logs"]
    if "stop" in commands and (item.pods or item.blind or not item.final):
        yield ("release it" if item.final else "stop it"), commands["stop"]


def _wrapped(label: str, value: str, columns: int) -> list[str]:
    rows = wrap(printable(value), columns - _LABEL - 2)
    return [f"  {label if at == 0 else '':<{_LABEL}}{row}" for at, row in enumerate(rows)]


def _stamp(text: str) -> str:
    return text.replace("T", " ").replace("Z", " UTC")
