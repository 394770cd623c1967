"""What is special to the end of a run on this machine: processes, ports and the session directory; pure judging."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .checklist import Commands, Item, JobSeen, listed


@dataclass(frozen=True)
class LeftHere:
    """What this machine still has of a run.

    `pids` are its processes, `session` its directory (empty: gone), `ports` those of its Rays that are in use; `cluster` the
    long-lived cluster that it ran on, which stays (empty: it had Rays of its own).
    """

    pids: Sequence[int] = ()
    session: str = ""
    ports: Sequence[int] = ()
    cluster: str = ""


def teardown(job: JobSeen, clearing: bool, left: LeftHere, commands: Commands) -> Iterator[Item]:
    """Whether the run has left nothing; `clearing`: its supervisor is still at it."""
    if job.over is False:
        yield Item("teardown", None, "the run is not over")
    elif clearing:
        yield Item("teardown", None, "the run is over, and is being cleared up")
    elif left.pids or left.session:
        yield Item("teardown", False, f"still there: {_words(left)}", commands.clean)
    elif left.ports:
        ports = listed([f"port {port}" for port in left.ports])
        words = f"no process and no session directory is left; in use again, by another program: {ports}"
        yield Item("teardown", None, words)
    else:
        stays = f"; cluster {left.cluster}, on which it ran, stays up" if left.cluster else ""
        what = "no process and no session directory" if left.cluster else "no process, no port and no session directory"
        yield Item("teardown", True, f"{what} is left{stays}", commands.down)


def _words(left: LeftHere) -> str:
    pids = listed([str(pid) for pid in left.pids])
    parts = [f"process {pids}" if len(left.pids) == 1 else f"{len(left.pids)} processes ({pids})"] if left.pids else []
    parts += [f"port {port}" for port in left.ports]
    return ", ".join([*parts, *([left.session] if left.session else [])])
