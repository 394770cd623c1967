"""The Plan: what will exist on the cluster, as a pure value that every command reads.

Objects are kept as plain manifests with their provenance beside them, never inside, so that what is printed is what is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..api import ClusterFacts, Kind, Ref, RunInfo
from ..checkout import Checkout
from ..errors import Problem

#: The workload's wave; children (claims, domains, ConfigMaps) come before it, Services after.
WORKLOAD_WAVE = 10


@dataclass(frozen=True)
class Options:
    """What flags say about a Plan; None means "not given", so that a flag's default never beats a file.

    `ttl`, `hold` in seconds; `mode` is the life cycle asked for; `run_mode` the `--mode` macro; `local`: on this machine,
    where `repo_root` is the absolute directory in which the entrypoint runs (None: the current one). `checkout` is what code that
    is on the pods already is compared with there.
    """

    mode: Literal["rayjob", "raycluster"] | None = None
    local: bool = False
    repo_root: str | None = None
    run_mode: Literal["interactive", "batch"] | None = None
    submitter: str | None = None
    code_source: str | None = None
    code_path: str | None = None
    rayjob_name: str | None = None
    ttl: int | None = None
    hold: int | None = None
    shutdown: bool | None = None
    wait: bool | None = None
    namespace: str | None = None
    context_namespace: str | None = None
    manifests_only: bool = False
    checkout: Checkout | None = None


@dataclass(frozen=True)
class PlannedObject:
    """One object as it will be sent. `sources` maps a field's path (keyed by merge key) to who set it."""

    manifest: Mapping[str, Any]
    wave: int
    role: str
    child: bool = False
    await_refs: tuple[Ref, ...] = ()
    sources: Mapping[tuple[str | int, ...], str] = field(default_factory=dict)

    def source(self, path: tuple[str | int, ...]) -> str:
        """Who set the field, or the first field in it, or the nearest around it; empty where nobody is known."""
        if path not in self.sources:
            inside = (label for at, label in self.sources.items() if at[: len(path)] == path)
            if first := next(inside, ""):
                return first
        return next((self.sources[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.sources), "")

    @property
    def kind(self) -> str:
        return str(self.manifest["kind"])

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def api_version(self) -> str:
        return str(self.manifest["apiVersion"])


@dataclass(frozen=True)
class GroupPlan:
    """A rendered worker group (after splitting), for the screen of `check`."""

    name: str
    replicas: int
    gpus: int
    image: str


@dataclass(frozen=True)
class RolePlan:
    """One Ray cluster, as `check` shows it. `head_gpus` / `gpus` count whole GPUs per pod; claims are template names."""

    name: str
    cluster: str
    kind: str
    head_image: str
    head_gpus: int
    groups: tuple[GroupPlan, ...]
    claims: tuple[str, ...]

    @property
    def pods(self) -> int:
        return 1 + sum(g.replicas for g in self.groups)

    @property
    def gpus(self) -> int:
        return self.head_gpus + sum(g.replicas * g.gpus for g in self.groups)


@dataclass(frozen=True)
class Lifetime:
    """What happens when the job ends. `form`: KubeRay `rules`, `shutdown` (classic), or `keep` (nothing is deleted).

    `workers_after` / `head_after`: seconds after the end at which they are deleted, None for never; `head_kept` is false when the
    cluster goes as one. `head_requests`: cpu / memory the kept head still requests.
    """

    form: Literal["rules", "shutdown", "keep"]
    workers_after: int | None
    head_after: int | None
    head_kept: bool
    record_after: int | None = None
    head_requests: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Launch:
    """How the entrypoint reaches Ray: the person's text, the script it became, the one encoded line that is sent.

    `upload_paths` (None: the default set), `dashboard_port` (None: a free one) and `exec_tmp_dir` are for the
    code source and submitters of long-lived runs.
    """

    entrypoint: str
    script: str
    line: str
    submitter: str
    submission_mode: str
    code_source: str
    working_dir: str | None
    recipe: str
    log_dir: str | None = None
    upload_paths: tuple[str, ...] | None = None
    dashboard_port: int | None = None
    exec_tmp_dir: str = "/tmp"


@dataclass(frozen=True)
class HealthCheck:
    """A URL that answers when `name` (a role's daemon, a Deployment) is up, and how many seconds it may take."""

    name: str
    url: str
    timeout: int


@dataclass(frozen=True)
class Daemon:
    """A Ray job that runs as long as its role's cluster: submitted when the cluster is ready, before training.

    `mark` is a hash of what it is: two with the same mark need not be told apart. `reads_recipe`: its text names the recipe.
    `rendezvous` is the id under which NeMo-RL's roles exchange their URLs, empty when it takes no part.
    """

    role: str
    submission_id: str
    entrypoint: str
    script: str
    line: str
    health: HealthCheck | None
    upload_paths: tuple[str, ...] | None
    mark: str = ""
    reads_recipe: bool = False
    rendezvous: str = ""


@dataclass(frozen=True)
class Plan:
    """Everything that will exist, ordered by (wave, kind, name), and what a person should know about it.

    `namespace_from` says where the namespace came from: `flag`, `infra`, `context` or `default`. `scheduler`, `profile`, `dra` are
    the chosen providers' names; `attached` maps a role to the existing cluster it uses.
    """

    kind: Kind
    run: RunInfo
    facts: ClusterFacts
    namespace: str
    namespace_from: str
    profile: str
    scheduler: str
    dra: tuple[str, ...]
    roles: tuple[RolePlan, ...]
    objects: tuple[PlannedObject, ...]
    launch: Launch
    lifetime: Lifetime
    problems: tuple[Problem, ...]
    wait: bool
    recipe_path: str = ""
    infra_path: str = ""
    attached: Mapping[str, str] = field(default_factory=dict)
    daemons: tuple[Daemon, ...] = ()
    health_checks: tuple[HealthCheck, ...] = ()

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(p for p in self.problems if p.severity == "error")

    def workload(self, role: str = "training") -> PlannedObject:
        """The role's RayJob or RayCluster."""
        for obj in self.objects:
            if obj.wave == WORKLOAD_WAVE and obj.role == role and obj.kind in ("RayJob", "RayCluster"):
                return obj
        raise KeyError(role)
