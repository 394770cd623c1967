"""The end of a run, item by item: pure judging of what was found, the same whatever ran it.

What a RayJob, a long-lived cluster and this machine have of their own, their objects and what they leave, is judged beside
this (`rayjob_checklist`, `cluster_checklist`, `local_checklist`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..rayjob_state import SUCCEEDED
from .evidence import Launched, LogFound

#: The state of a job of which nobody can say how it ended, or whether it has.
UNKNOWN = "UNKNOWN"


@dataclass(frozen=True)
class Item:
    """One line of the list. `ok` None: it could not be looked at, or does not apply; `fix` is a command to paste."""

    title: str
    ok: bool | None
    detail: str
    fix: str = ""


@dataclass(frozen=True)
class JobSeen:
    """How the job of a run stands, and in words `why`; `over` None: whether it is cannot be told."""

    state: str
    over: bool | None
    why: str = ""

    @property
    def known(self) -> bool:
        return self.state != UNKNOWN


@dataclass(frozen=True)
class Commands:
    """Lines to paste, for the items that ask for something; `down` takes down the cluster that a run leaves up."""

    logs: str
    stop: str
    status: str
    clean: str
    down: str = ""


def checklist(
    objects: Iterable[Item],
    job: JobSeen,
    launched: Launched,
    log: LogFound,
    commands: Commands,
    teardown: Iterable[Item],
) -> list[Item]:
    """Every item, in the order of a run's life; `objects` and `teardown` are judged by who knows what ran it."""
    return [
        *objects,
        _job(job, commands),
        Item("log", True, "read to its end") if log.complete else Item("log", None, log.why or "it goes on"),
        *_wandb(launched, log, commands),
        *_generation(launched, log, commands),
        *teardown,
    ]


def _job(job: JobSeen, commands: Commands) -> Item:
    if not job.known:
        what = "how it ended is not known" if job.over else "whether it is over is not known"
        return Item("job", None, f"{what}: {job.why}" if job.why else what)
    if not job.over:
        return Item("job", False, f"it is not over: {job.why or job.state}", f"{commands.logs} -f")
    if job.state == SUCCEEDED:
        return Item("job", True, SUCCEEDED)
    return Item("job", False, f"{job.state}{f' ({job.why})' if job.why else ''}", commands.logs)


def _wandb(launched: Launched, log: LogFound, commands: Commands) -> Iterator[Item]:
    if log.wandb:
        yield Item("wandb", True, log.wandb)
    elif launched.wandb is None:
        yield Item("wandb", None, "whether it is on cannot be told from what was launched (logger.wandb_enabled)")
    elif not launched.wandb:
        yield Item("wandb", None, "off in the recipe (logger.wandb_enabled)")
    elif launched.offline:
        yield Item("wandb", None, f"on, and WANDB_MODE is {launched.offline}: there is no page")
    else:
        yield _absent("wandb", "it is on in the recipe, and the log names no page", log, commands)


def _generation(launched: Launched, log: LogFound, commands: Commands) -> Iterator[Item]:
    if log.generated:
        yield Item("generation", True, log.generated)
    elif launched.backend == "vllm":
        yield _absent("generation", "the backend is vllm, and the log has no finished generation", log, commands)
    elif launched.backend:
        yield Item("generation", None, f"the backend is {launched.backend}: nothing is known of its lines")


def _absent(title: str, words: str, log: LogFound, commands: Commands) -> Item:
    """What a log lacks is a failure only when all of the log was read."""
    if log.complete:
        return Item(title, False, words, commands.logs)
    return Item(title, None, f"{words} as far as it can be read")


def listed(words: Sequence[str]) -> str:
    """The first five, and how many more."""
    return ", ".join(words[:5]) + (f" and {len(words) - 5} more" if len(words) > 5 else "")


def names(objects: Iterable[Mapping[str, Any]]) -> str:
    """Objects by name."""
    return listed([str(thing["metadata"]["name"]) for thing in objects])
