"""From a session to a cluster, and back to lines that a person can paste.

A printed command names namespace, context and kubeconfig as they were given, so that it works in another terminal too.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError, UsageError
from ..labels import RAY_API, WANDB
from .session import Session

if TYPE_CHECKING:
    from ..cluster import Cluster
    from ..ray_jobs import RayJobs


def open_cluster(session: Session) -> Cluster:
    """The cluster that flags and kubeconfig name; nothing is sent yet. Raises `ClusterError` when none is named."""
    from ..cluster import Cluster

    cluster = Cluster.connect(
        kubeconfig=session.kubeconfig, context=session.context, trace=session.output.debug, env=session.env
    )
    session.server_clock = cluster.time
    return cluster


def ray_connector(cluster: Any, namespace: str) -> Callable[[str], RayJobs]:
    """Connects to Ray by a RayCluster's name. Raises `ClusterError`, with reason `Gone` when the RayCluster is deleted."""
    from .. import ray_jobs

    def connect(name: str) -> RayJobs:
        live = cluster.get(RAY_API, "RayCluster", name, namespace)
        if live is None:
            raise ClusterError(f"the Ray cluster {name} is gone, and with it the head that held the log", reason="Gone")
        return ray_jobs.connect(cluster, live)

    return connect


def note_wandb(session: Session, cluster: Any, rayjob: Mapping[str, Any], url: str) -> None:
    """Keep a run's wandb page on its record, which other laptops read."""
    meta = rayjob["metadata"]
    try:
        body = {"metadata": {"annotations": {WANDB: url}}}
        cluster.patch(RAY_API, "RayJob", meta["name"], meta["namespace"], body)
    except ClusterError as error:
        session.output.debug(f"wandb page not recorded: {error.message}")


def namespace_of(session: Session, cluster: Cluster) -> str:
    """The flag's namespace, else the context's."""
    return session.namespace or cluster.namespace


def paste(session: Session, namespace: str, *words: str) -> str:
    """A command of this program that does the same from another terminal."""
    given = session.given
    return shlex.join(["kubectl", "nrl", *words, "-n", namespace, *given.connection, *given.loading])


def again(session: Session, namespace: str, *more: str) -> str:
    """The command that was typed, with more flags; what it was typed in (directory, environment) counts as before."""
    argv = list(session.argv)
    end = argv.index("--") if "--" in argv else len(argv)
    flags = [flag for flag in more if flag not in argv[:end]]
    where = [] if session.namespace else ["-n", namespace]
    return shlex.join(["kubectl", "nrl", *argv[:end], *flags, *where, *argv[end:]])


def can_ask() -> bool:
    """Whether a person is there to answer a question."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agree(session: Session, question: str, *, yes: bool, flag: str = "--yes") -> None:
    """Return when the person agrees: by the flag, or by an answer on a terminal. Raises `UsageError` otherwise."""
    if yes:
        return
    if not can_ask():
        raise UsageError(question.rstrip("?").split(";")[0], f"{flag} answers yes where there is no terminal to ask on")
    session.output.plain(f"{question} [y/N]")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("not confirmed; nothing was changed")


def observer(session: Session, run: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], None]:
    """Tells plugins what happens in a run: each event with the run's id, RayJob and namespace, and the time."""

    def tell(event: Mapping[str, Any]) -> None:
        session.manager.observe({**event, **run, "time": session.now().isoformat()})

    return tell


def load_following() -> None:
    """Load what follows a run, before the run exists.

    A Ctrl-C while modules are loaded may end as another error: Python before 3.12 makes a RuntimeError of one that falls
    into the making of a class. Once a run exists, an interrupt has to say how to come back to it.
    """
    from importlib import import_module

    import_module("..watch", __package__)
