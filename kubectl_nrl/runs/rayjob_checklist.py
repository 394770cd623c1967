"""What is special to the end of a RayJob: the objects that it owns, and what is left of its Ray clusters; pure judging."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from ..labels import RAY_NODE_TYPE, labels_of
from .checklist import Commands, Item, JobSeen, names
from .evidence import Seen
from .holds import held_gpus
from .lifetimes import lifetimes
from .record import RunRecord


def job(run: RunRecord) -> JobSeen:
    """How it stands, as KubeRay tells it."""
    return JobSeen(run.state, run.final, run.reason if run.final else run.description)


def objects(run: RunRecord, seen: Seen, commands: Commands) -> Iterator[Item]:
    """Whether what bears its name or its id is there, and its own."""
    title = "objects"
    if seen.rayclusters is None:
        yield Item(title, None, seen.unseen["RayCluster"])
        return
    there = {c["metadata"]["name"] for c in seen.rayclusters}
    if not run.final and run.ray_cluster and run.ray_cluster not in there and not run.borrows:
        yield Item(title, False, f"the Ray cluster {run.ray_cluster} of a run that goes on is gone", commands.status)
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
        yield Item(title, False, words, commands.clean)
        return
    count = len(seen.rayclusters) + len(seen.children)
    rest = f"and {count} object{'' if count == 1 else 's'} that it owns" if count else "which owns no other object now"
    yield Item(title, True, f"rayjob/{run.name}, {rest}")


def teardown(run: RunRecord, seen: Seen, commands: Commands, now: datetime) -> Iterator[Item]:
    """What is left of it, and whether that is meant to be."""
    if not run.final:
        yield Item("teardown", None, "the run is not over")
        return
    yield _pods(run, seen, commands, now)
    if seen.claims is None:
        yield Item("claims", None, seen.unseen["ResourceClaim"])
    elif seen.claims:
        # A claim goes with its pod: where pods are left, the item above says what that means.
        yield Item("claims", None if seen.pods else False, f"left: {names(seen.claims)}", commands.stop)
    else:
        yield Item("claims", True, "none is left")


def _pods(run: RunRecord, seen: Seen, commands: Commands, now: datetime) -> Item:
    if seen.pods is None:
        return Item("teardown", None, seen.unseen["Pod"])
    workers = [pod for pod in seen.pods if labels_of(pod).get(RAY_NODE_TYPE) != "head"]
    heads = [pod for pod in seen.pods if labels_of(pod).get(RAY_NODE_TYPE) == "head"]
    gpus = sum(held_gpus(seen.pods).values())
    if not seen.pods:
        stays = f"; raycluster/{run.ray_cluster}, which it used, is not its own" if run.borrows else ""
        return Item("teardown", True, f"no pod is left, no GPU is held{stays}")
    due = lifetimes(run.rayjob)
    held = f"{names(seen.pods)} ({gpus} GPUs)"
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
