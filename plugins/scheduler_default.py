"""The default scheduler: pods go wherever their own spec sends them, which is what no `scheduler` key means.

It renders nothing, so a hand-written `schedulerName` of a scheduler that this program does not know stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kubectl_nrl import hookimpl
from kubectl_nrl.api import Capacity, ClusterReader, Context, Problem, Reason, Scheduler
from kubectl_nrl.node_room import capacity_of_nodes
from kubectl_nrl.written import origin

from .node_fit import too_large


class DefaultScheduler(Scheduler):
    name = "default"
    summary = "kube-scheduler, or whichever scheduler the pods' own spec names"

    def problems(self, ctx: Context) -> Iterable[Problem]:
        """A queue means a queueing scheduler was meant, and this one would start the pods at once."""
        if ctx.wrote("scheduler.queue"):
            yield Problem(
                'scheduler.queue has no effect: scheduler.kind is "default"',
                origin(ctx, "scheduler", "queue"),
                hint="scheduler: {kind: kai, queue: NAME} or {kind: kueue, queue: NAME}",
                severity="warning",
            )

    def reasons(self, run: Mapping[str, Any], cluster: ClusterReader) -> Iterable[Reason]:
        """Pods that no node could hold even when it is empty; nothing where nodes may not be read."""
        return too_large(run, cluster)

    def capacity(self, ctx: Context, cluster: ClusterReader) -> Capacity:
        return capacity_of_nodes(ctx, cluster)


@hookimpl
def nrl_schedulers() -> Iterator[Scheduler]:
    yield DefaultScheduler()
