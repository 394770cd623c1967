"""A Plan as data: what `check -o json` answers (schemas/results/check.json)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..result_forms import problem_data

if TYPE_CHECKING:
    from ..plan import Plan
    from ..plan.model import Daemon, HealthCheck, Launch, Lifetime, RolePlan
    from .uploading import Looked


def plan_data(plan: Plan, name: str, queue: str | None, looked: Looked | None) -> dict[str, Any]:
    """`name` is what the Plan is called, `looked` what would be uploaded from this machine. Times are in seconds."""
    problems = (*plan.problems, *(looked.problems if looked else ()))
    return {
        "kind": plan.kind,
        "name": name,
        "namespace": {"name": plan.namespace, "from": plan.namespace_from},
        "recipe": plan.recipe_path,
        "infra": plan.infra_path,
        "profile": plan.profile,
        "scheduler": plan.scheduler,
        "queue": queue,
        "dra": list(plan.dra),
        "roles": [_role(role) for role in plan.roles],
        "pods": sum(role.pods for role in plan.roles),
        "gpus": sum(role.gpus for role in plan.roles),
        "launch": {**_launch(plan.launch), "upload": _upload(looked)},
        "lifetime": _lifetime(plan.lifetime),
        "attached": dict(plan.attached),
        "daemons": [_daemon(daemon) for daemon in plan.daemons],
        "healthChecks": [{"name": c.name, **(_health(c) or {})} for c in plan.health_checks],
        "objects": [
            {"apiVersion": o.api_version, "kind": o.kind, "name": o.name, "wave": o.wave} for o in plan.objects
        ],
        "facts": {"source": plan.facts.source, "kubernetes": plan.facts.kubernetes},
        "problems": [problem_data(p) for p in problems],
    }


def _role(role: RolePlan) -> dict[str, Any]:
    return {
        "name": role.name,
        "cluster": role.cluster,
        "kind": role.kind,
        "pods": role.pods,
        "gpus": role.gpus,
        "head": {"image": role.head_image, "gpus": role.head_gpus},
        "groups": [{"name": g.name, "replicas": g.replicas, "gpus": g.gpus, "image": g.image} for g in role.groups],
        "claims": list(role.claims),
    }


def _launch(launch: Launch) -> dict[str, Any]:
    return {
        "submitter": launch.submitter,
        "submissionMode": launch.submission_mode,
        "codeSource": launch.code_source,
        "workingDir": launch.working_dir,
        "logDir": launch.log_dir,
        "entrypoint": launch.entrypoint,
    }


def _lifetime(lifetime: Lifetime) -> dict[str, Any]:
    return {
        "form": lifetime.form,
        "workersAfter": lifetime.workers_after,
        "headAfter": lifetime.head_after,
        "headKept": lifetime.head_kept,
        "recordAfter": lifetime.record_after,
        "headRequests": dict(lifetime.head_requests),
    }


def _daemon(daemon: Daemon) -> dict[str, Any]:
    return {
        "role": daemon.role,
        "submissionId": daemon.submission_id,
        "entrypoint": daemon.entrypoint,
        "health": _health(daemon.health),
    }


def _health(check: HealthCheck | None) -> dict[str, Any] | None:
    return {"url": check.url, "timeout": check.timeout} if check else None


def _upload(looked: Looked | None) -> dict[str, Any] | None:
    if looked is None or looked.survey is None:
        return None
    found = looked.survey
    return {
        "root": found.root,
        "paths": list(found.paths),
        "bytes": found.size,
        "files": found.files,
        "excluded": found.excluded,
    }
