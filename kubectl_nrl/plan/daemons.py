"""Daemons of roles and health checks, as a long-lived Plan holds them; a RayJob run has neither."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..api import Context
from ..errors import Problem
from ..manifests.names import run_id_fault
from ..script import LINE_MAX, encoded_line, launch_script
from .choices import Choices
from .model import Daemon, HealthCheck
from .written import origin

#: Seconds a health URL may take to answer (design: infra keys).
HEALTH_SECONDS = 300


def plan_daemons(ctx: Context, choices: Choices, problems: list[Problem]) -> tuple[Daemon, ...]:
    """One Daemon for each role that declares one; what is wrong with it goes to `problems`."""
    found = []
    for role in ctx.roles.values():
        section = ctx.get(f"kuberay.{role.name}.daemon")
        if not isinstance(section, Mapping):
            continue
        where = origin(ctx.config, "kuberay", role.name, "daemon")
        if ctx.kind == "RayJob":
            said = f"kuberay.{role.name}.daemon is not started: a RayJob runs its entrypoint only"
            problems.append(Problem(said, where, severity="note", hint="--raycluster starts daemons"))
            continue
        daemon = _daemon(ctx, choices, role.name, role.cluster, section)
        if not daemon.entrypoint.strip():
            problems.append(
                Problem(f"kuberay.{role.name}.daemon.entrypoint is missing: there is nothing to run", where)
            )
        fault = run_id_fault(daemon.submission_id)
        if fault:
            problems.append(Problem(fault.replace("--run-id", f"kuberay.{role.name}.daemon.submissionId"), where))
        if len(daemon.line) > LINE_MAX and ctx.kind != "local":
            size = len(daemon.line) // 1024
            problems.append(
                Problem(f"kuberay.{role.name}.daemon is {size} KiB packed; {LINE_MAX // 1024} KiB is the most", where)
            )
        found.append(daemon)
    return tuple(found)


def _daemon(ctx: Context, choices: Choices, role: str, cluster: str, section: Mapping[str, Any]) -> Daemon:
    submission_id = str(section.get("submissionId") or f"{cluster}-daemon")
    entrypoint = str(section.get("entrypoint") or "")
    script = launch_script(
        entrypoint,
        run_id=submission_id,
        recipe=ctx.config.recipe_yaml(),
        env={str(k): str(v) for k, v in (section.get("env") or {}).items() if v is not None},
        working_dir=choices.code.working_dir(ctx),
    )
    paths = section.get("rayUploadPaths")
    return Daemon(
        role, submission_id, entrypoint, script, encoded_line(submission_id, script),
        health=next(_health(role, section), None), upload_paths=None if paths is None else tuple(str(p) for p in paths),
    )  # fmt: skip


def deployment_checks(ctx: Context) -> tuple[HealthCheck, ...]:
    """The health checks of Deployments."""
    sections = (ctx.get("deployments") or {}).items()
    return tuple(check for name, section in sections for check in _health(f"deployments.{name}", section))


def _health(name: str, section: Mapping[str, Any]) -> Iterator[HealthCheck]:
    if section.get("healthCheckUrl"):
        yield HealthCheck(name, str(section["healthCheckUrl"]), int(section.get("healthCheckTimeoutS", HEALTH_SECONDS)))
