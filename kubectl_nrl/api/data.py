"""The frozen values that providers return, and what they are told of a run and its user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal


@dataclass(frozen=True)
class User:
    """Who runs: `name` is a DNS label (`${user:}`), `raw` what the environment said; `generic` for root, ubuntu, ..."""

    name: str
    raw: str
    generic: bool = False


@dataclass(frozen=True)
class RunInfo:
    """The inputs of a Plan that differ from run to run: nothing else may.

    `place` is empty while planning: where its submitter keeps it (`Submitter.place`), as the run's record says.
    """

    id: str
    time: datetime
    user: User
    place: str = ""

    @property
    def short(self) -> str:
        """The piece of the id that goes into names: a generated id's last 4 characters, else 6 of its hash."""
        import hashlib
        import re

        if re.fullmatch(r"\d{8}-\d{6}-[a-z0-9]{4}", self.id):
            return self.id[-4:]
        return hashlib.sha256(self.id.encode()).hexdigest()[:6]


@dataclass(frozen=True)
class Target:
    """What a patch applies to: an object's own manifest, or pod templates.

    * `Target.object(kind, role)`: the rendered object of that kind. `Workload` means the role's top object (the RayJob or the
      RayCluster); `RayCluster` means the cluster's spec wherever it stands (inside a RayJob it has no metadata).
    * `Target.pods(role, which, group)`: pod templates of a role. `role=None` means every Ray role (never a Deployment);
      a Deployment's pods are the role `deployments.<name>`. `group` is a worker group's name as written and means all its
      segments.
    """

    scope: Literal["object", "pods"]
    kind: str = ""
    role: str | None = None
    which: Literal["head", "workers", "all"] = "all"
    group: str | None = None

    @classmethod
    def object(cls, kind: str, role: str | None = None) -> Target:
        """The object of that kind, of one role or of all."""
        return cls("object", kind=kind, role=role)

    @classmethod
    def pods(
        cls, role: str | None = None, which: Literal["head", "workers", "all"] = "all", group: str | None = None
    ) -> Target:
        """Pod templates: of one role or of all Ray roles, of the head or the workers or both, of one group or of all."""
        return cls("pods", role=role, which=which, group=group)

    def __str__(self) -> str:
        words = [self.kind or self.which + " pods", f"of {self.role}" if self.role else "", self.group or ""]
        return " ".join(w for w in words if w)


@dataclass(frozen=True)
class Patch:
    """A partial manifest that is merged into each object or pod template the target names.

    `merge` follows Kubernetes' strategic merge (lists of containers, env, volumes, ... are keyed). For pods it is a partial pod
    template (`metadata`, `spec`) with two reserved top keys: `container: {ray: {...}}` merges into container 0 (the Ray
    container), whatever its name; `group: {...}` merges into the worker group beside its template (`rayStartParams`, ...), or
    into `headGroupSpec` for head pods.
    `path` is the infra key that caused it (`workspace.pvcName`), shown by `check --explain`; `force` is for policies and the few
    fields that the tool owns: a forced field beats what the user wrote.
    """

    target: Target
    merge: Mapping[str, Any]
    force: bool = False
    path: str = ""


@dataclass(frozen=True)
class Ref:
    """An object by name, in the Plan's namespace."""

    api_version: str
    kind: str
    name: str


@dataclass(frozen=True)
class Resource:
    """An object that must exist beside the workload.

    Children (claims, ComputeDomains, ConfigMaps) have `wave` below 10 and exist before the workload (wave 10); `role` names whose
    workload owns it. `await_refs` are objects that a controller makes from this one and that must exist before the workload is
    created (the claim template of a ComputeDomain).
    """

    manifest: Mapping[str, Any]
    wave: int = 0
    role: str = "training"
    await_refs: tuple[Ref, ...] = ()


@dataclass(frozen=True)
class Check:
    """One line of preflight: what was looked at, whether it is right, and what to do when it is not.

    `ok` is None when it could not be looked at (forbidden), or heals by itself: that is a note, never a failure. A failure
    that does not `block` makes `check --cluster` fail, while `run` warns of it and goes on.
    """

    title: str
    ok: bool | None
    detail: str = ""
    fix: str = ""
    blocks: bool = True


@dataclass(frozen=True)
class Reason:
    """Why pods wait, as a scheduler or driver's own objects say it.

    `heals`: waiting may end it (a queue, capacity); False for what somebody must mend, which `--start-timeout` bounds.
    """

    subject: str
    reason: str
    message: str
    heals: bool = True


@dataclass(frozen=True)
class Capacity:
    """What the cluster could give this workload now: counts of whole GPUs, of those that its pods may use.

    `fits` says whether all pods of the Plan can start now; None leaves that to a comparison of the counts.
    """

    free_gpus: int
    total_gpus: int
    detail: str = ""
    fits: bool | None = None


@dataclass(frozen=True)
class FailurePattern:
    """A known failure: `match` is a regular expression (Python's), searched in one line at a time.

    `where` is what is searched: the end of the driver's log, what is said of a pod that died (`OOMKilled`), or the run's own
    end (KubeRay's reason and message, an exit code). `summary` is half a sentence, `hint` what helps. A `vague` one is told
    only when nothing more specific matches. Bound what repeats (`[^\\n]{0,200}`): a log may hold anything.
    """

    id: str
    match: str
    summary: str
    hint: str
    where: Literal["log", "pod", "end"] = "log"
    vague: bool = False
