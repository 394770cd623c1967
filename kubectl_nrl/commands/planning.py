"""From a command line to a Plan, the same way for every verb that takes a recipe.

Flags become `plan.Options` with None where they were not given, since a flag's default must never beat a file.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, Problem, UsageError
from ..parser import PROG, recipe_and_overrides
from .local_checkout import read_checkout

if TYPE_CHECKING:
    from ..api import ClusterFacts, RunInfo
    from ..config import Config
    from ..plan import Plan
    from ..plan.model import Options
    from .session import Session

#: The run id of a Plan that is only looked at: `check` gives the same answer every time.
CHECK_RUN_ID = "20260101-000000-chck"


def add_plan_arguments(parser: argparse.ArgumentParser) -> None:
    """RECIPE, overrides, --infra, and which life cycle the Plan is made for."""
    parser.add_argument(
        "words", metavar="RECIPE [OVERRIDES]", nargs="*", help="the recipe, and Hydra overrides: a.b=1, +a=1, ++a=1, ~a"
    )
    parser.add_argument("--infra", metavar="FILE", help="the infra file (not needed when the recipe holds `infra:`)")
    parser.add_argument(
        "--repo-root",
        metavar="DIR",
        help="the directory whose code is uploaded, compared with the code on the pods, or run with --local (default: the current one)",
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--rayjob", dest="mode", action="store_const", const="rayjob", help="an ephemeral RayJob")
    mode.add_argument(
        "--raycluster", dest="mode", action="store_const", const="raycluster", help="long-lived Ray clusters"
    )
    parser.add_argument("--local", action="store_true", help="on this machine, no Kubernetes (also: profile: local)")


def add_launch_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `run` that shape a Plan."""
    group = parser.add_argument_group("how it is launched")
    add = group.add_argument
    add("--mode", dest="run_mode", choices=("interactive", "batch"), help="sets submitter, code source and waiting")
    add(
        "--submitter",
        metavar="NAME",
        help="how the entrypoint reaches a long-lived cluster: portForward (Ray's Jobs API), exec (in the head's container)",
    )
    add("--code-source", metavar="NAME", help="how the code gets to the pods: image, lustre, upload")
    add("--code-path", metavar="DIR", help="the code's absolute directory on the pods")
    add("--rayjob-name", metavar="NAME", help="the RayJob's name (at most 47 characters)")
    add("--ttl", metavar="SECONDS", type=seconds, help="keep the CPU head and its log this long after the end (3600)")
    add("--hold", metavar="SECONDS", type=seconds, help="keep everything this long after the end, GPUs included")
    add("--shutdown", action=argparse.BooleanOptionalAction, help="delete the cluster when the job ends (default)")
    add("--wait", action=argparse.BooleanOptionalAction, help="follow the run to its end (default)")


def seconds(word: str) -> int:
    """A whole number of seconds, not negative."""
    if not word.isascii() or not word.isdigit():
        raise argparse.ArgumentTypeError(f'"{word}" is not a whole number of seconds, 0 or more')
    return int(word)


def load_plan(
    args: argparse.Namespace,
    session: Session,
    facts: ClusterFacts | None = None,
    *,
    run: RunInfo | None = None,
    context_namespace: str | None = None,
    prog: str = f"{PROG} check",
    config: Config | None = None,
) -> tuple[Config, Plan]:
    """Load the files, unless `config` is what they hold, and build the Plan; `facts` default to the documented newest.

    Raises `UsageError` and `ConfigError`; the latter with every problem found, those that plugins found included.
    """
    from .. import plan as plans
    from ..facts import OFFLINE

    options = plan_options(args, session, context_namespace)
    config = config or load_config(args, session, prog)
    if plans.code_on_pods(config, options):
        options = replace(options, checkout=read_checkout(Path(options.repo_root or session.cwd), session.env))
    plan = plans.build(config, run or session.new_run(CHECK_RUN_ID), facts or OFFLINE, options, session.manager)
    return config, plan


def load_config(args: argparse.Namespace, session: Session, prog: str) -> Config:
    """What recipe, infra file and overrides say. Raises `UsageError` and `ConfigError`."""
    from .. import config as configs
    from .. import plan as plans

    recipe, overrides = recipe_and_overrides(args.words, prog)
    if recipe is None:
        raise UsageError("RECIPE is missing", f"{prog} recipe.yaml --infra infra.yaml")
    try:
        config = configs.load(recipe, args.infra, overrides, env=session.env, cwd=session.cwd)
    except configs.UnsoundConfig as unsound:
        options = plan_options(args, session)
        raise plans.every_problem(unsound, unsound.config, options, session.manager) from None
    if not config.infra and not config.infra_path:
        raise UsageError(
            "there is no infra file, and the recipe holds no `infra:`", f"{prog} {recipe} --infra infra.yaml"
        )
    return config


def plan_options(args: argparse.Namespace, session: Session, context_namespace: str | None = None) -> Options:
    """What the flags say; raises `UsageError` for flags that contradict each other."""
    from ..plan.model import Options

    def flag(name: str) -> Any:
        return getattr(args, name, None)

    if flag("shutdown") is False:
        for name in ("ttl", "hold"):
            if flag(name) is not None:
                raise UsageError(
                    f"--{name} says when things are deleted, and --no-shutdown that nothing is", "leave one out"
                )
    return Options(
        mode=flag("mode"),
        local=bool(flag("local")),
        repo_root=_repo_root(flag("repo_root"), session),
        run_mode=flag("run_mode"),
        submitter=flag("submitter"),
        code_source=flag("code_source"),
        code_path=flag("code_path"),
        rayjob_name=flag("rayjob_name"),
        ttl=flag("ttl"),
        hold=flag("hold"),
        shutdown=flag("shutdown"),
        wait=flag("wait"),
        namespace=session.namespace,
        context_namespace=context_namespace,
        manifests_only=bool(flag("manifests_only")),
    )


def _repo_root(written: str | None, session: Session) -> str | None:
    """The absolute directory of the checkout, None for the current one. Raises `UsageError` for one that is not there."""
    if written is None:
        return None
    root = session.cwd / written
    if not root.is_dir():
        raise UsageError(f'--repo-root "{written}" is no directory')
    return str(root.resolve())


def refuse(problems: Iterable[Problem]) -> None:
    """Raise a `ConfigError` with all of them when one is an error."""
    problems = tuple(problems)
    if any(p.severity == "error" for p in problems):
        raise ConfigError(problems)
