"""`kubectl nrl run --local`: a recipe on this machine, on a Ray of its own or on a long-lived one.

The command prepares and watches; a supervisor in a session of its own does the rest, so that closing the terminal costs
nothing but the view.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ExitCode, UsageError
from .connecting import load_following
from .local_cluster import bring_up
from .local_follow import LocalFollow, commands_for, say_left_alone
from .local_result import LocalResult
from .planning import load_plan, refuse
from .session import Session

if TYPE_CHECKING:
    from ..api import RunInfo
    from ..config import Config
    from ..local import LocalRecord, Request
    from ..plan import Plan

#: Flags of a RayJob's end, which say nothing here: a local run leaves nothing when it ends.
_MEANINGLESS = ("rayjob_name", "ttl", "hold", "shutdown", "replace", "submitter")


def run_local(args: argparse.Namespace, session: Session, run: RunInfo, config: Config, prog: str) -> ExitCode:
    """Plan, start, follow. Raises `ConfigError`, `UsageError`, and `NrlError` for what this machine lacks."""
    _, plan = load_plan(args, session, run=run, prog=prog, config=config)
    refuse(plan.problems)
    session.output.problems(plan.problems)
    if args.dry_run:
        return _print(args, session, plan)
    for flag in _MEANINGLESS:
        if getattr(args, flag) not in (None, False):
            session.output.warn(f"--{flag.replace('_', '-')} has no meaning on this machine")
    cluster = None
    if args.mode == "raycluster":
        cluster = bring_up(session, plan, args.gpus, recreate=args.recreate, daemons=not args.skip_daemons)
    return _start(args, session, config, plan, cluster)


def _start(
    args: argparse.Namespace, session: Session, config: Config, plan: Plan, cluster: LocalRecord | None
) -> ExitCode:
    from .. import local
    from ..api import Submission

    load_following()
    submitter: Any = session.manager.choose("submitters", plan.launch.submitter)
    request = _request(args, session, config, plan, cluster)
    made: LocalRecord | None = None
    try:
        with local.prepared(request, plan.run.short) as made:
            submitter.submit(plan.run, local.LocalConnection(session.env), Submission("", plan.launch.script))
        return _follow(args, session, plan, made)
    except KeyboardInterrupt:
        if made is None or local.find(made.id, session.env) is None:
            session.output.plain("interrupted; nothing was started")
        else:
            say_left_alone(session, made.id, "interrupted; the run goes on")
        return ExitCode.INTERRUPTED


def _follow(args: argparse.Namespace, session: Session, plan: Plan, made: LocalRecord) -> ExitCode:
    _tell(session, made, "submitted")
    session.output.progress(f"local run {made.id} in {made.directory}")
    if not plan.wait:
        say_left_alone(session, made.id, "not waiting for the run")
        if session.output.format != "text":
            session.output.result(LocalResult(made, session.clock(), commands_for(made.id)))
        return ExitCode.OK
    follow = LocalFollow(session, made, sink=session.output.log, caught_up=lambda: None)
    code = follow.to_the_end(args.timeout)
    _tell(session, follow.result().run, "final")
    return code


def _request(
    args: argparse.Namespace, session: Session, config: Config, plan: Plan, cluster: LocalRecord | None
) -> Request:
    from .. import local
    from ..run_directory import directory
    from ..runs.evidence import expected

    record = local.LocalRecord(
        id=plan.run.id,
        form="job" if cluster else "run",
        user=plan.run.user.name,
        cluster=cluster.id if cluster else "",
        directory=plan.launch.working_dir or str(session.cwd),
        recipe=str((session.cwd / plan.recipe_path).resolve()),
        infra=str((session.cwd / plan.infra_path).resolve()) if plan.infra_path else "",
        entrypoint=plan.launch.entrypoint,
        gpus=args.gpus,
        results=results(config, plan.launch.working_dir or str(session.cwd)),
        expects=expected(config, plan.launch.script, session.env).words(),
        folder=directory(plan.run.id, session.env),
    )
    return local.Request(
        record,
        plan.launch.script,
        {} if cluster else gpus_of(plan, args.gpus),
        () if cluster else daemons_of(plan),
        str(cluster.folder) if cluster else "",
    )


def gpus_of(plan: Plan, gpus: int | None) -> dict[str, int | None]:
    """How many GPUs each role's Ray gets: as --gpus says, none for gym, else what Ray finds."""
    return {role.name: 0 if role.name == "gym" else gpus for role in plan.roles}


def daemons_of(plan: Plan) -> tuple[Any, ...]:
    from ..local import Daemon

    return tuple(
        Daemon(
            d.role, d.submission_id, d.script, d.health.url if d.health else "", d.health.timeout if d.health else 300
        )
        for d in plan.daemons
    )


def results(config: Config, directory: str) -> dict[str, str]:
    """Where the recipe says that checkpoints and metrics go (NeMo-RL's keys)."""
    wanted = {"metrics": config.recipe_value("logger.log_dir")}
    if config.recipe_value("checkpointing.enabled") is not False:
        wanted["checkpoints"] = config.recipe_value("checkpointing.checkpoint_dir")
    return {name: str(Path(directory) / place) for name, place in wanted.items() if isinstance(place, str) and place}


def _print(args: argparse.Namespace, session: Session, plan: Plan) -> ExitCode:
    """`--dry-run`: the launch script that would run, and where."""
    if args.dry_run == "server":
        raise UsageError("--dry-run=server asks an API server, and this run is on this machine", "--dry-run")
    launch = plan.launch
    if session.output.format == "json":
        import json

        roles = [role.name for role in plan.roles]
        session.output.line(
            json.dumps({"id": plan.run.id, "directory": launch.working_dir, "roles": roles, "script": launch.script})
        )
    else:
        session.output.line(launch.script)
    return ExitCode.OK


def _tell(session: Session, run: LocalRecord, event: str) -> None:
    said: Mapping[str, Any] = {"event": event, "run": run.id, "state": run.state, "reason": run.reason, "local": True}
    session.manager.observe({**said, "time": session.clock().isoformat()})
