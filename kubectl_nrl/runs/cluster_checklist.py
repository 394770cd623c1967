"""What is special to the end of a run on a long-lived cluster: the cluster stays, and only what the run itself started has to be gone.

Pure judging of what `cluster_evidence` and Ray told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..raycluster_state import (
    CREATED,
    READY,
    STARTING,
    SUSPENDED,
    SUSPENDING,
    TERMINATING,
    describe,
    whole,
)
from . import holds
from .checklist import UNKNOWN, Commands, Item, JobSeen, listed, names
from .cluster_evidence import Standing
from .cluster_jobs import ENDS
from .cluster_run import ClusterRun
from .clusters import ClusterRecord

#: States in which somebody changes a cluster, or a queue does: neither as expected nor wrong.
_ON_ITS_WAY = (CREATED, STARTING, SUSPENDED, SUSPENDING, TERMINATING)


@dataclass(frozen=True)
class Told:
    """What Ray, or the driver's directory on the head, says of the run.

    `state` is Ray's word; empty when nobody could be asked, and `why` says why, `UNKNOWN` when the head does not know the run any
    more. `live` are jobs and drivers of the run that Ray still has running, `left` is what its driver started and that outlives it, and
    `end` the command that ends that; `looked`: the processes of the head were looked at.
    """

    state: str = ""
    why: str = ""
    live: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    end: str = ""
    looked: bool = False


@dataclass(frozen=True)
class DaemonSeen:
    """A daemon of the clusters that a run uses: `ok` None when its health is not known."""

    words: str
    ok: bool | None


def job(run: ClusterRun, told: Told) -> JobSeen:
    """How it stands: as Ray says while it goes on, then as its record has it, else as Ray remembers it."""
    if told.state and told.state not in ENDS and told.state != UNKNOWN:
        return JobSeen(told.state, False, ": ".join(part for part in (told.state, told.why) if part))
    if run.state in ENDS:
        return JobSeen(run.state, True, ": ".join(part for part in (run.reason, run.message) if part))
    if told.state in ENDS:
        return JobSeen(told.state, True, told.why)
    return JobSeen(UNKNOWN, True if told.state == UNKNOWN else None, told.why)


def objects(run: ClusterRun, seen: Standing, daemons: Sequence[DaemonSeen], commands: Commands) -> Iterator[Item]:
    """Whether the cluster of the run, and what came up with it, is as it should be."""
    yield _clusters(run, seen, commands)
    if daemons:
        bad = [daemon.words for daemon in daemons if daemon.ok is False]
        unsure = [daemon.words for daemon in daemons if daemon.ok is None]
        ok = False if bad else None if unsure else True
        words = bad or unsure or [daemon.words for daemon in daemons]
        yield Item("daemons", ok, "; ".join(words), commands.status if ok is False else "")


def teardown(run: ClusterRun, seen: Standing, job: JobSeen, told: Told, commands: Commands) -> Iterator[Item]:
    """Whether anything of the run itself goes on; its cluster is meant to stay, until somebody takes it down."""
    title, name = "teardown", f"raycluster/{run.ray_cluster}"
    if seen.own is None and "own" not in seen.unseen:
        yield _taken_down(name, seen, commands)
        return
    still = [*(f"job {found}" for found in told.live), *told.left]
    if job.over is False:
        yield Item(title, None, "the run is not over")
    elif still:
        yield Item(
            title,
            False,
            f"still running on {name}: {listed(still)}",
            told.end or commands.stop,
        )
    elif not told.state and seen.pods != ():
        yield Item(title, None, f"whether anything of it still runs is not known: {told.why}")
    else:
        stays = f"{name} stays up{_held(seen)}" if seen.pods != () else f"{name} has no pods"
        nothing = (
            "nothing of the run goes on" if told.looked or seen.pods == () else "Ray runs nothing of the run any more"
        )
        yield Item(title, True, f"{nothing}; {stays}", commands.down)


def _clusters(run: ClusterRun, seen: Standing, commands: Commands) -> Item:
    title = "objects"
    if "own" in seen.unseen:
        return Item(title, None, seen.unseen["own"])
    if seen.own is None:
        became = "was made anew since, with another uid" if seen.namesake else "was taken down since"
        return Item(title, None, f"raycluster/{run.ray_cluster} of the run {became}")
    judged = [*((f"raycluster/{c.name}", *_state(c)) for c in seen.clusters), *map(_deployment, seen.deployments)]
    bad = [f"{name}: {words}" for name, ok, words in judged if ok is False]
    unsure = [f"{name}: {words}" for name, ok, words in judged if ok is None]
    if bad or unsure:
        return Item(title, False if bad else None, "; ".join(bad or unsure), commands.status)
    blind = [seen.unseen[field] for field in ("beside", "deployments") if field in seen.unseen]
    up = ", ".join(f"{name} ({words})" for name, _, words in judged)
    return Item(title, True, "; not looked at: ".join([up, *blind]))


def _state(cluster: ClusterRecord) -> tuple[bool | None, str]:
    """Whether a RayCluster is as it should be, and what to say of it."""
    ready, wanted = cluster.pods
    count = f"{ready}/{wanted} pods ready"
    if cluster.state == READY:
        return True, count
    reason = f", {cluster.reason}" if cluster.reason else ""
    return None if cluster.state in _ON_ITS_WAY else False, f"{describe(cluster.state)} ({count}){reason}"


def _deployment(found: Mapping[str, Any]) -> tuple[str, bool | None, str]:
    wanted = (found.get("spec") or {}).get("replicas")
    wanted, ready = 1 if wanted is None else whole(wanted), whole((found.get("status") or {}).get("availableReplicas"))
    return f"deployment/{found['metadata']['name']}", ready >= wanted, f"{ready}/{wanted} available"


def _taken_down(name: str, seen: Standing, commands: Commands) -> Item:
    if seen.pods is None:
        return Item("teardown", None, seen.unseen["pods"])
    if seen.pods:
        words = f"{name} is gone, and its pods are still there: {names(seen.pods)} ({holds.held(seen.pods).words})"
        return Item("teardown", False, words, commands.clean)
    beside = ", ".join(f"raycluster/{found.name}" for found in seen.beside)
    gone = f"{name} of the run is gone (another has its name now)" if seen.namesake else f"{name} is gone"
    return Item("teardown", True, f"{gone}, and no pod of it is left{f'; {beside} stays up' if beside else ''}")


def _held(seen: Standing) -> str:
    """What its own cluster holds."""
    held = holds.held(seen.pods or ()).words
    return f", with its {held}" if held else ""
