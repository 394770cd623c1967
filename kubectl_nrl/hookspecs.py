"""Every hook, on one page, in the order in which a run meets them.

Plural hooks yield providers (named choices, `kubectl_nrl.api`); the past-tense ones observe a life cycle. No hook argument may have
a default in an implementation: pluggy would pass the default instead of the value, so the manager refuses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pluggy

from . import PROJECT
from .api import (
    Check,
    ClusterReader,
    CodeSource,
    Context,
    DraDriver,
    FailurePattern,
    Policy,
    Problem,
    Profile,
    Scheduler,
    Section,
    Submitter,
)
from .errors import NrlError

if TYPE_CHECKING:
    from .config import Config
    from .plan import Plan

hookspec = pluggy.HookspecMarker(PROJECT)


@hookspec
def nrl_commands() -> Iterable[tuple[str, str, str]]:
    """Yield verbs: (name, one-line summary, `package.module` with `add_arguments(parser)` and `handle(args, session)`).

    When: the command line is parsed. A name that is built in already is refused.
    """
    raise NotImplementedError


@hookspec
def nrl_profiles() -> Iterable[Profile]:
    """Yield hardware profiles, chosen by `profile: NAME`. When: a Plan is built."""
    raise NotImplementedError


@hookspec
def nrl_schedulers() -> Iterable[Scheduler]:
    """Yield schedulers, chosen by `scheduler.kind`. When: a Plan is built."""
    raise NotImplementedError


@hookspec
def nrl_dra_drivers() -> Iterable[DraDriver]:
    """Yield DRA drivers, chosen by `dra`, the profile or claim names. When: a Plan is built."""
    raise NotImplementedError


@hookspec
def nrl_submitters() -> Iterable[Submitter]:
    """Yield submitters, chosen by life cycle and `submit.submitter`. When: a Plan is built."""
    raise NotImplementedError


@hookspec
def nrl_code_sources() -> Iterable[CodeSource]:
    """Yield code sources, chosen by `launch.codeSource`. When: a Plan is built."""
    raise NotImplementedError


@hookspec
def nrl_sections() -> Iterable[Section]:
    """Yield owners of a top-level infra key, active when it is written. When: a Plan is built."""
    raise NotImplementedError


@hookspec
def nrl_policies() -> Iterable[Policy]:
    """Yield site rules; all apply, weakest name first. When: a Plan is built."""
    raise NotImplementedError


@hookspec
def nrl_config_loaded(config: Config) -> Iterable[Problem] | None:
    """Look at the loaded files; an error among the problems refuses them. When: before planning."""
    raise NotImplementedError


@hookspec
def nrl_plan_built(plan: Plan) -> Iterable[Problem] | None:
    """Look at the finished Plan; an error among the problems refuses it. When: before anything is sent."""
    raise NotImplementedError


@hookspec
def nrl_preflight(ctx: Context, cluster: ClusterReader) -> Iterable[Check] | None:
    """Look at the live cluster; a failed check that blocks ends `run` before anything is created. When: after discovery."""
    raise NotImplementedError


@hookspec
def nrl_event(event: Mapping[str, Any]) -> None:
    """See everything that happens in a run, from created to torn down. An observer that raises costs a warning only."""
    raise NotImplementedError


@hookspec
def nrl_failure_patterns() -> Iterable[FailurePattern]:
    """Yield known failures, the most specific first; those of plugins come before the built-in ones. When: a run has failed."""
    raise NotImplementedError


@hookspec(firstresult=True)
def nrl_explain_error(error: NrlError) -> str | None:
    """Give a hint for an error that has none; the first answer wins. When: the program is about to end with it."""
    raise NotImplementedError
