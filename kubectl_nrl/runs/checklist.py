"""The end of a run, item by item: pure judging of what `evidence` found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..labels import RAY_NODE_TYPE, labels_of
from ..rayjob_state import SUCCEEDED
from . import held_gpus
from .evidence import Launched, Seen
from .lifetimes import lifetimes
from .record import RunRecord


@dataclass(frozen=True)
class Item:
    """One line of the list. `ok` None: it could not be looked at, or does not apply; `fix` is a command to paste."""

    title: str
    ok: bool | None
    detail: str
    fix: str = ""


@dataclass(frozen=True)
class LogFound:
    """What was found in the log. `complete`: all of it was read; `why` it was not."""

    wandb: str
    generated: str
    complete: bool
    why: str = ""


@dataclass(frozen=True)
class Commands:
    """Lines to paste, for the items that fail."""

    logs: str
    stop: str


def checklist(
    run: RunRecord, seen: Seen, launched: Launched, log: LogFound, commands: Commands, now: datetime
) -> list[Item]:
    """Every item, in the order of a run's life."""
    return [
        *_objects(run, seen),
        _state(run, commands),
        _log(log, commands),
        *_wandb(run, launched, log, commands),
        *_generation(launched, log, commands),
        *_teardown(run, seen, commands, now),
    ]


def _objects(run: RunRecord, seen: Seen) -> Iterator[Item]:
    title = "objects"
    if seen.rayclusters is None:
        yield Item(title, None, seen.unseen["RayCluster"])
        return
    if not run.final and run.ray_cluster and run.ray_cluster not in {c["metadata"]["name"] for c in seen.rayclusters}:
        yield Item(
            title, False, f"the Ray cluster {run.ray_cluster} of a run that goes on is gone", "kubectl nrl cluster list"
        )
        return
    strangers = [
        f"{thing['kind'].lower()}/{thing['metadata']['name']}"
        for thing in (*seen.rayclusters, *seen.children)
        if not any(ref.get("uid") == run.uid for ref in thing["metadata"].get("ownerReferences") or ())
    ]
    if strangers:
        words = (
            f"not owned by rayjob/{run.name} (uid {run.uid}), so nothing removes them with it: {', '.join(strangers)}"
        )
        yield Item(title, False, words, "kubectl nrl clean")
        return
    count = len(seen.rayclusters) + len(seen.children)
    yield Item(title, True, f"rayjob/{run.name}, and {count} object{'' if count == 1 else 's'} that it owns")


def _state(run: RunRecord, commands: Commands) -> Item:
    if not run.final:
        return Item("job", False, f"it is not over: {run.description}", f"{commands.logs} -f")
    if run.state == SUCCEEDED:
        return Item("job", True, SUCCEEDED)
    return Item("job", False, f"{run.state}{f' ({run.reason})' if run.reason else ''}", commands.logs)


def _log(log: LogFound, commands: Commands) -> Item:
    return Item("log", True, "read to its end") if log.complete else Item("log", None, log.why or "it goes on")


def _wandb(run: RunRecord, launched: Launched, log: LogFound, commands: Commands) -> Iterator[Item]:
    page = log.wandb or run.wandb
    if page:
        yield Item("wandb", True, page)
    elif launched.wandb is None:
        yield Item("wandb", None, "whether it is on cannot be told from what was launched")
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


def _teardown(run: RunRecord, seen: Seen, commands: Commands, now: datetime) -> Iterator[Item]:
    if not run.final:
        yield Item("teardown", None, "the run is not over")
        return
    yield _pods(run, seen, commands, now)
    if seen.claims is None:
        yield Item("claims", None, seen.unseen["ResourceClaim"])
    elif seen.claims:
        # A claim goes with its pod: where pods are left, the item above says what that means.
        yield Item("claims", None if seen.pods else False, f"left: {_names(seen.claims)}", commands.stop)
    else:
        yield Item("claims", True, "none is left")


def _pods(run: RunRecord, seen: Seen, commands: Commands, now: datetime) -> Item:
    if seen.pods is None:
        return Item("teardown", None, seen.unseen["Pod"])
    workers = [pod for pod in seen.pods if labels_of(pod).get(RAY_NODE_TYPE) != "head"]
    heads = [pod for pod in seen.pods if labels_of(pod).get(RAY_NODE_TYPE) == "head"]
    gpus = sum(held_gpus(seen.pods).values())
    if not seen.pods:
        return Item("teardown", True, "no pod is left, no GPU is held")
    due = lifetimes(run.rayjob)
    held = f"{_names(seen.pods)} ({gpus} GPUs)"
    if due.kept:
        return Item("teardown", None, f"kept on purpose (--no-shutdown): {held}", commands.stop)
    if workers and due.workers is not None and due.workers > now:
        return Item(
            "teardown", None, f"held on purpose until {due.workers:%Y-%m-%d %H:%M:%S} UTC: {held}", commands.stop
        )
    if workers or gpus or due.head is None or (heads and due.head <= now):
        return Item("teardown", False, f"still there: {held}", commands.stop)
    return Item(
        "teardown", True, f"the workers are gone, no GPU is held; the head stays until {due.head:%Y-%m-%d %H:%M:%S} UTC"
    )


def _names(objects: Sequence[Mapping[str, Any]]) -> str:
    shown = [str(thing["metadata"]["name"]) for thing in objects[:5]]
    return ", ".join(shown) + (f" and {len(objects) - 5} more" if len(objects) > 5 else "")
