"""A Plan for this machine: roles without pods, the code where it lies, and a word about what only a cluster can do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..api import Role, RunInfo
from ..config import Config
from ..errors import Problem
from .model import Options, RolePlan
from .roles import role_name
from .written import origin

if TYPE_CHECKING:
    from .choices import Choices

#: Top-level keys that act on pods or on Kubernetes only.
CLUSTER_ONLY = (
    "imagePullSecrets", "serviceAccount", "scheduler", "placement", "workspace", "hf_cache", "checkpoints", "dra", "secrets",
    "deployments",
)  # fmt: skip


def roles(config: Config, choices: Choices, run: RunInfo) -> dict[str, Role]:
    """The roles as providers and daemons read them: names, and nothing that a pod has."""
    names = {role: role_name(config, role, run) for role in choices.roles}
    return {role: Role(role, name, name, False, (), {}) for role, name in names.items()}


def role_plans(found: Mapping[str, Role]) -> tuple[RolePlan, ...]:
    return tuple(RolePlan(role.name, role.cluster, "local", "", 0, (), ()) for role in found.values())


def problems(config: Config, options: Options, choices: Choices) -> Iterable[Problem]:
    """What was written or asked for and cannot be had on this machine."""
    for role, name in choices.attached.items():
        said = f"launch.attach.{role}: {name} is on a cluster, and this run is on this machine"
        yield Problem(
            said, origin(config, "launch", "attach"), hint=f"declare kuberay.{role} for a Ray of its own here"
        )
    launch: Any = config.infra.get("launch") or {}
    source = options.code_source or launch.get("codeSource")
    if source in ("image", "lustre"):
        said = f"codeSource {source} has no meaning on this machine: the entrypoint runs in {options.repo_root or 'the current directory'}"
        yield Problem(said, origin(config, "launch", "codeSource"), severity="note", hint="--repo-root DIR for another")
    unused = [key for key in CLUSTER_ONLY if config.infra.get(key) not in (None, [], {})]
    if unused:
        words = ", ".join(unused)
        yield Problem(f"on this machine these keys of the infra file do nothing: {words}", severity="note")
