"""What the providers of a Plan ask a live cluster: their checks, and what the scheduler could give now.

A Plan is plain data and keeps no provider, so what they read is planned once more, from the same inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..api import Capacity, Check, ClusterReader, Context, Provider
from ..config import Config
from .build import Planner, frozen
from .model import Options, Plan
from .patching import answer, call

if TYPE_CHECKING:
    from ..manager import Manager

#: Answers one question about a cluster. Raises `ClusterError` when refused, `PluginError` for a plugin that fails.
Question = Callable[[ClusterReader], list[Check]]


@dataclass(frozen=True)
class Asking:
    """The questions by who asks them (`scheduler kai`, `plugins`), and the scheduler's capacity, which is asked only when wanted."""

    questions: Mapping[str, Question]
    capacity: Callable[[ClusterReader], Capacity | None]


def asking(config: Config, plan: Plan, options: Options, providers: Manager) -> Asking:
    """The questions of every provider of the Plan, and of every `nrl_preflight` hook."""
    planner = Planner(config, plan.run, plan.facts, options, providers, [])
    planner.plan()
    ctx = replace(planner.ctx, rendered=tuple(frozen(obj.manifest) for obj in plan.objects))
    scheduler = planner.choices.scheduler
    questions = {
        label.replace(":", " "): _checks(providers, provider, ctx)
        for label, _, provider in [*planner.active(), *planner.policies()]
        if type(provider).checks is not Provider.checks
    }
    questions["plugins"] = _hook(providers, ctx)

    def capacity(cluster: ClusterReader) -> Capacity | None:
        return answer(providers, scheduler, "capacity", ctx, cluster, into=_capacity)

    return Asking(questions, capacity)


def _capacity(got: object) -> Capacity | None:
    if got is None or isinstance(got, Capacity):
        return got
    raise TypeError(f"{type(got).__name__} is no Capacity")


def _checks(providers: Manager, provider: Provider, ctx: Context) -> Question:
    return lambda cluster: call(providers, provider, "checks", ctx, cluster)


def _hook(providers: Manager, ctx: Context) -> Question:
    def ask(cluster: ClusterReader) -> list[Check]:
        return [c for answer in providers.hook.nrl_preflight(ctx=ctx, cluster=cluster) for c in answer or ()]

    return ask
