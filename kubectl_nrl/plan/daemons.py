"""Daemons of roles and health checks, as a long-lived Plan holds them; a RayJob run has neither."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..api import Context
from ..errors import Problem
from ..manifests.names import run_id_fault
from ..script import LINE_MAX, encoded_line, launch_script
from .choices import Choices
from .model import Daemon, HealthCheck
from .written import origin

#: Where NeMo-RL's roles are told under which id they exchange their URLs (nemo_rl/distributed/k8s_endpoint_registry.py).
JOB_ID = "DISAGG_JOB_ID"
_JOB_ID = re.compile(r"--job-id(?:=|\s+)([\"']?)([^\s\"';|&]+)\1|\bDISAGG_JOB_ID=([\"']?)([^\s\"';|&]+)\3")
#: A part of a ConfigMap's name (a DNS subdomain).
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_RECIPE = re.compile(r"\bNRL_RECIPE\b|\bnrl_k8s_run\.yaml\b")

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
        if _JOB_ID.search(daemon.entrypoint) and not daemon.rendezvous:
            said = f"the --job-id of kuberay.{role.name}.daemon is none that can be known here: an earlier run's URLs are not cleared"
            problems.append(
                Problem(said, where, severity="warning", hint="write lower-case letters, digits, '-' and '.'")
            )
        found.append(daemon)
    return tuple(found)


def _daemon(ctx: Context, choices: Choices, role: str, cluster: str, section: Mapping[str, Any]) -> Daemon:
    submission_id = str(section.get("submissionId") or f"{cluster}-daemon")
    entrypoint = str(section.get("entrypoint") or "")
    env = {str(k): str(v) for k, v in (section.get("env") or {}).items() if v is not None}
    working_dir, reads_recipe = choices.code.working_dir(ctx), bool(_RECIPE.search(entrypoint))

    def script(recipe: str) -> str:
        return launch_script(entrypoint, run_id=submission_id, recipe=recipe, env=env, working_dir=working_dir)

    recipe = ctx.config.recipe_yaml()
    # Overrides of a run do not make another daemon of one that does not read them.
    mark = hashlib.sha256(script(recipe if reads_recipe else "").encode()).hexdigest()[:16]
    paths = section.get("rayUploadPaths", ctx.get("launch.rayUploadPaths"))
    sent = script(recipe)
    return Daemon(
        role, submission_id, entrypoint, sent, encoded_line(submission_id, sent),
        health=next(_health(role, section), None), upload_paths=None if paths is None else tuple(str(p) for p in paths),
        mark=mark, reads_recipe=reads_recipe, rendezvous=rendezvous_id(entrypoint, env),
    )  # fmt: skip


def rendezvous_id(entrypoint: str, env: Mapping[str, str]) -> str:
    """The id of the ConfigMap in which a daemon leaves its URL: from its `--job-id`, else from DISAGG_JOB_ID; empty for none."""
    found = _JOB_ID.search(entrypoint)
    written = (found[2] or found[4]) if found else env.get(JOB_ID, "")
    if written in (f"${JOB_ID}", f"${{{JOB_ID}}}"):
        written = env.get(JOB_ID, "")
    return written if _NAME.fullmatch(written) else ""


def deployment_checks(ctx: Context) -> tuple[HealthCheck, ...]:
    """The health checks of Deployments."""
    sections = (ctx.get("deployments") or {}).items()
    return tuple(check for name, section in sections for check in _health(f"deployments.{name}", section))


def _health(name: str, section: Mapping[str, Any]) -> Iterator[HealthCheck]:
    if section.get("healthCheckUrl"):
        yield HealthCheck(name, str(section["healthCheckUrl"]), int(section.get("healthCheckTimeoutS", HEALTH_SECONDS)))
