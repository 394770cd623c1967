"""A long-lived Ray cluster on this machine: brought up, used again, taken down."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..errors import ClusterError, NrlError
from .session import Session

if TYPE_CHECKING:
    from ..local import LocalRecord, Request
    from ..plan import Plan

#: Seconds that a cluster may take to go, its running jobs included.
GONE = 30.0


def bring_up(
    session: Session, plan: Plan, gpus: int | None, *, recreate: bool = False, daemons: bool = True, wait: bool = True
) -> LocalRecord:
    """The Plan's cluster, up: the one that is there, else a new one. Raises `NrlError` when it does not start.

    One that differs in roles or GPUs is kept, with a word, unless `recreate` is set.
    """
    from .. import local
    from ..local.requests import spawn

    request = _request(session, plan, gpus, daemons=daemons)
    name, output = request.record.id, session.output
    live = local.find_cluster(name, session.env)
    if live is not None and live.alive and not recreate:
        said = _difference(live, request)
        output.progress(f"cluster {name} is up already" if live.state == "READY" else f"cluster {name} is starting")
        if said:
            output.warn(f"cluster {name} {said}; it is kept (--recreate makes it anew)")
    else:
        if live is not None:
            take_down(session, live)
        with local.prepared(request, plan.run.short) as made:
            spawn(made.folder, session.env)
        output.progress(f"cluster {name} is starting on this machine")
    found = until_ready(session, name) if wait else local.find_cluster(name, session.env)
    assert found is not None
    return found


def until_ready(session: Session, name: str) -> LocalRecord:
    """Wait for a cluster that was started. Raises `NrlError` when it fails."""
    from .. import local

    panel, began, said = session.output.panel(), time.monotonic(), ""
    try:
        while True:
            found = local.find_cluster(name, session.env)
            if found is None or found.final or found.orphaned:
                raise ClusterError(f"cluster {name} did not come up: {found.message if found else 'it is gone'}")
            if found.state == "READY":
                return found
            panel.show(found.phase, time.monotonic() - began)
            if found.phase != said and not panel.live:
                said = found.phase
                session.output.progress(said)
            time.sleep(0.1)
    finally:
        panel.close()


def take_down(session: Session, cluster: LocalRecord) -> None:
    """Stop a cluster with everything on it, and forget it. Raises `NrlError` when something of it stays."""
    from .. import local
    from ..local.connection import stop_and_wait

    ended = stop_and_wait(cluster, GONE)
    if ended.orphaned:
        left = next((item for item in local.leftovers(session.env) if item.folder == str(cluster.folder)), None)
        stubborn = local.clear(left) if left else set()
        if stubborn:
            raise NrlError(
                f"processes of cluster {cluster.id} cannot be ended: {', '.join(map(str, sorted(stubborn)))}"
            )
    elif not ended.torn_down:
        raise NrlError(f"cluster {cluster.id} is still going down", "kubectl nrl cluster list")
    shutil.rmtree(cluster.folder, ignore_errors=True)


def _request(session: Session, plan: Plan, gpus: int | None, *, daemons: bool) -> Request:
    from .. import local
    from ..local.finding import clusters_home
    from .run_local import daemons_of, gpus_of

    name = next((role.cluster for role in plan.roles if role.name == "training"), plan.roles[0].cluster)
    record = local.LocalRecord(
        id=name,
        form="cluster",
        user=plan.run.user.name,
        directory=plan.launch.working_dir or str(session.cwd),
        recipe=str((session.cwd / plan.recipe_path).resolve()),
        infra=str((session.cwd / plan.infra_path).resolve()) if plan.infra_path else "",
        gpus=gpus,
        folder=clusters_home(session.env) / name,
    )
    return local.Request(record, "", gpus_of(plan, gpus), daemons_of(plan) if daemons else ())


def _difference(live: LocalRecord, wanted: Request) -> str:
    """How a cluster that is up differs from the one asked for, empty when it does not."""
    if live.roles and set(live.roles) != set(wanted.gpus):
        return f"has the roles {_names(live.roles)}, not {_names(wanted.gpus)}"
    if live.gpus != wanted.record.gpus:
        return f"was started with {_gpus(live.gpus)}, not {_gpus(wanted.record.gpus)}"
    return ""


def _names(roles: Mapping[str, object]) -> str:
    return ", ".join(sorted(roles))


def _gpus(count: int | None) -> str:
    return "the GPUs that Ray found" if count is None else f"--gpus {count}"
