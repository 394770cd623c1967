"""What a plugin author imports: the frozen values a provider reads, and the base classes it fills in.

A provider contributes data (patches, resources, problems) and never edits a manifest: core applies what it returns, so
core can say for every rendered field who set it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from .errors import NrlError, Origin, PluginError, Problem
from .facts import ClusterFacts

if TYPE_CHECKING:
    from .config import Config

__all__ = [
    "Capacity", "Check", "ClusterFacts", "ClusterReader", "CodeRequest", "CodeSource", "Connection", "Context", "DraDriver",
    "FailurePattern", "Group", "Kind", "NrlError", "Origin", "Patch", "PluginError", "Policy", "Prepared", "Problem", "Profile", "Provider",
    "Reason", "Ref", "Resource", "Role", "RunInfo", "Scheduler", "Section", "Staged", "State", "Submission", "Submitter", "Survey",
    "Target", "Traits", "User",
]  # fmt: skip

#: The life cycle a Plan is made for: an ephemeral RayJob, long-lived RayClusters, or this machine.
Kind = Literal["RayJob", "RayCluster", "local"]


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
        return cls("object", kind=kind, role=role)

    @classmethod
    def pods(
        cls, role: str | None = None, which: Literal["head", "workers", "all"] = "all", group: str | None = None
    ) -> Target:
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


class ClusterReader(Protocol):
    """The read-only view of a cluster that checks and reasons get. Both raise `ClusterError` when refused."""

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Mapping[str, Any] | None: ...

    def list(
        self,
        api_version: str,
        kind: str,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        all_namespaces: bool = False,
    ) -> Sequence[Mapping[str, Any]]: ...


class Connection(Protocol):
    """Where a run's Ray cluster is reached, whether behind the Kubernetes API or on this machine."""

    namespace: str

    @property
    def jobs(self) -> Any:
        """Ray's Jobs API of the run's cluster (`kubectl_nrl.ray_jobs.RayJobs`), connected on first use."""

    @property
    def cluster(self) -> Any:
        """The Kubernetes API (`kubectl_nrl.cluster.Cluster`); on this machine there is none, and it raises."""


@dataclass(frozen=True)
class CodeRequest:
    """What an uploading code source is asked to send: `paths` below `root` on this machine (None: the source's default set).

    `recipe` is the composed recipe's YAML; `listed_by` the infra key that listed the paths, for messages.
    """

    root: Path
    paths: tuple[str, ...] | None
    recipe: str
    listed_by: str = "launch.rayUploadPaths"


@dataclass(frozen=True)
class Survey:
    """What would be sent: bytes before packing, files, entries that an ignore file left out, one line for each part of it.

    A problem of severity `error` refuses a run before anything exists on the cluster; `check` only warns of it.
    """

    root: str
    paths: tuple[str, ...]
    size: int
    files: int
    excluded: int
    words: str
    lines: tuple[str, ...]
    problems: tuple[Problem, ...] = ()


class Prepared(Protocol):
    """What will be sent, kept until it was: its survey, and how many bytes it is packed. `words` say it in one line."""

    survey: Survey
    size: int
    words: str

    def close(self) -> None: ...


@dataclass(frozen=True)
class Staged:
    """What a code source left on the cluster: the working directory Ray is told to use, if any; the bytes that were sent."""

    working_dir: str | None = None
    sent: int = 0


@dataclass(frozen=True)
class Submission:
    """What a submitter hands over: `line`, the one safe line by which a shell unpacks and runs `script`, and where the code is.

    `metadata` is for people and for finding the job again; it holds the entrypoint as it was written, never the line. `tmp_dir` is a
    directory on the head for a submitter that keeps files there (`submit.execTmpDir`).
    """

    line: str
    script: str
    staged: Staged = Staged()
    metadata: Mapping[str, str] = field(default_factory=dict)
    tmp_dir: str = "/tmp"


@dataclass(frozen=True)
class State:
    """A run's state in Ray's words (`PENDING`, `RUNNING`, `SUCCEEDED`, `FAILED`, `STOPPED`), or `UNKNOWN`; when it `ended`, if known."""

    status: str
    message: str = ""
    ended: datetime | None = None

    @property
    def final(self) -> bool:
        return self.status in ("SUCCEEDED", "FAILED", "STOPPED")


@dataclass(frozen=True)
class Group:
    """A worker group as written, before it is split into segments."""

    name: str
    replicas: int
    gpus: int
    segment_size: int | None
    spec: Mapping[str, Any]


@dataclass(frozen=True)
class Role:
    """One Ray cluster of the Plan. `object_name` is the RayJob's or RayCluster's name, `cluster` the name as written.

    `spec` is what the user wrote as `kuberay.<role>.spec` (empty when the profile makes it), `written` says which.
    """

    name: str
    cluster: str
    object_name: str
    written: bool
    groups: tuple[Group, ...]
    spec: Mapping[str, Any]


@dataclass(frozen=True)
class Context:
    """All that a provider may read. Frozen: a provider answers with data.

    `base` is each role's rendered manifest before any provider patched it; `rendered` (policies, checks and capacity) all objects
    as they would be sent.
    """

    config: Config
    kind: Kind
    run: RunInfo
    facts: ClusterFacts
    namespace: str
    profile: Profile
    roles: Mapping[str, Role]
    base: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    rendered: tuple[Mapping[str, Any], ...] = ()

    @property
    def infra(self) -> Mapping[str, Any]:
        """The infra file: defaults of the user and the profile below what the file says, interpolations resolved."""
        return self.config.infra

    def get(self, path: str, default: Any = None) -> Any:
        """The infra value at a dotted path, or `default` where it is absent or null."""
        value: Any = self.config.infra
        for key in path.split("."):
            if not isinstance(value, Mapping) or key not in value:
                return default
            value = value[key]
        return default if value is None else value

    def wrote(self, path: str) -> bool:
        """Whether that infra key was written (by the user, their defaults, an override, or the profile's `defaults`)."""
        missing = object()
        return self.get(path, missing) is not missing


def _no_limit(facts: ClusterFacts, submission_mode: str) -> int | None:
    return None


def _always(facts: ClusterFacts) -> bool:
    return True


@dataclass(frozen=True)
class Traits:
    """What settles structure, which patches cannot; read before the Plan is built.

    * `segments`: `split` makes worker groups of segmentSize replicas; `slices` leaves the group whole (Kueue's podset slices).
    * `submission_modes`: KubeRay submission modes that work under it.
    * `lifetime`: `rules` (KubeRay's deletionRules) or `shutdown` (shutdownAfterJobFinishes only).
    * `keeps_head(facts)`: whether a head may outlive its workers (KAI evicts it before 0.17).
    * `max_worker_groups(facts, submission_mode)`: a limit on groups after splitting, or None.
    * `reserved_groups`: worker group names it cannot have.
    * `gang`: schedules all pods or none, counted by minReplicas; then min = max = replicas.
    * `uploads`: the code source sends files from this machine.
    """

    segments: Literal["split", "slices"] = "split"
    submission_modes: tuple[str, ...] = ("HTTPMode", "K8sJobMode", "SidecarMode", "InteractiveMode")
    lifetime: Literal["rules", "shutdown"] = "rules"
    keeps_head: Callable[[ClusterFacts], bool] = _always
    max_worker_groups: Callable[[ClusterFacts, str], int | None] = _no_limit
    reserved_groups: frozenset[str] = frozenset()
    gang: bool = False
    uploads: bool = False


class Provider:
    """A named choice with do-nothing defaults. `name` is what a user writes; `summary` one line for `kubectl nrl plugins`."""

    name: str = ""
    summary: str = ""
    traits: Traits = Traits()

    def schema(self) -> dict[str, Any] | None:
        """JSON Schema of the provider's own settings, merged into the infra schema; None takes whatever is written.

        For a section: of its top-level key. For a scheduler: an `if kind = name then ...` fragment's `then` part. For a policy: of
        `policies.<name>`.
        """
        return None

    def active(self, ctx: Context) -> bool:
        """For providers chosen by what the files hold (sections, policies): whether it has anything to say."""
        return True

    def resources(self, ctx: Context) -> Iterable[Resource]:
        """Objects that must exist beside the workloads."""
        return ()

    def patches(self, ctx: Context) -> Iterable[Patch]:
        """Partial manifests, merged by core at the provider's rank."""
        return ()

    def problems(self, ctx: Context) -> Iterable[Problem]:
        """What is wrong (error: refuses the Plan) or worth a word, knowable without a cluster."""
        return ()

    def checks(self, ctx: Context, cluster: ClusterReader) -> Iterable[Check]:
        """Preflight on the live cluster, with a fix for each failure."""
        return ()

    def reasons(self, run: Mapping[str, Any], cluster: ClusterReader) -> Iterable[Reason]:
        """Why the pods of a run (its RayJob or RayCluster object) wait."""
        return ()

    def drift_ignores(self) -> Iterable[str]:
        """Dotted fields that others write after us (`spec.suspend`)."""
        return ()

    def capacity(self, ctx: Context, cluster: ClusterReader) -> Capacity | None:
        """What the cluster could give `ctx.rendered` now, or None when it cannot tell. Raises `ClusterError` when refused."""
        return None


class Profile(Provider):
    """A hardware profile: data of the shape `schemas/profile.schema.json`, from YAML; most need no code."""

    def __init__(self, data: Mapping[str, Any], source: str = "") -> None:
        self.data = data
        self.source = source
        self.name = str(data.get("name", ""))
        self.summary = str(data.get("summary", ""))

    def get(self, path: str, default: Any = None) -> Any:
        """The profile's value at a dotted path, or `default` where it is absent or null."""
        value: Any = self.data
        for key in path.split("."):
            if not isinstance(value, Mapping) or key not in value:
                return default
            value = value[key]
        return default if value is None else value


class Scheduler(Provider):
    """Chosen by `scheduler.kind`, or by a hand-written spec that names one of its `scheduler_names`."""

    #: `schedulerName`s by which pods of a hand-written spec choose this provider when there is no `scheduler.kind`.
    scheduler_names: tuple[str, ...] = ()


class DraDriver(Provider):
    """Chosen by `dra: [...]`, the profile's `dra`, or claim names in a hand-written spec (`claim_name`)."""

    #: The pod-level claim name by which a hand-written spec asks for this driver (`compute-domain-channel`).
    claim_name: str = ""


class Section(Provider):
    """Owns a top-level infra key (its `name`), such as `networking`; active when that key is there."""

    def active(self, ctx: Context) -> bool:
        return ctx.wrote(self.name)


class Policy(Provider):
    """A site rule. All apply; patches of a policy are forced and see `ctx.rendered`, problems may refuse the Plan."""


class CodeSource(Provider):
    """Chosen by `launch.codeSource`: how the run's code gets to the pods."""

    def working_dir(self, ctx: Context) -> str | None:
        """The absolute directory on the pod in which the entrypoint runs; None for wherever Ray starts it."""
        return None

    def survey(self, asked: CodeRequest) -> Survey | None:
        """Look at what would be sent from this machine; None when nothing is. Raises `NrlError` for what cannot be looked at."""
        return None

    def prepare(self, asked: CodeRequest) -> Prepared | None:
        """Make ready what `stage` sends, before anything exists on the cluster. Raises `NrlError` for what cannot be sent."""
        return None

    def stage(
        self,
        run: RunInfo,
        connection: Connection,
        prepared: Prepared | None = None,
        progress: Callable[[int], None] = lambda sent: None,
    ) -> Staged:
        """Send what must be sent before the job is submitted; `progress` is told the bytes sent so far.

        It may be called again after a failure, and then sends what is not there yet.
        """
        return Staged()


class Submitter(Provider):
    """Chosen by the life cycle and `submit.submitter`: how the entrypoint reaches Ray."""

    #: The subresource of pods by which it reaches a head: what a user must be allowed to `create`.
    reached_by: str = "portforward"
    #: True: it hands over the launch script itself, whatever its length, and not the line.
    takes_script: bool = False
    #: False: Ray has no job of its runs, which are known by their records and by what `state` says.
    in_ray: bool = True

    def place(self, run: RunInfo, submission: Submission) -> str:
        """Where it is going to keep that run, told before it is submitted and handed in again as `run.place`."""
        return ""

    def refuses(self, code: CodeSource, ctx: Context) -> str | None:
        """Why this submitter cannot run with that code source, asked while planning, before a GPU is held."""
        return None

    def state(self, run: RunInfo, connection: Connection) -> State:
        raise NotImplementedError

    def submit(self, run: RunInfo, connection: Connection, submission: Submission) -> RunInfo:
        raise NotImplementedError

    def logs(self, run: RunInfo, connection: Connection, *, follow: bool, offset: int) -> Iterator[bytes]:
        raise NotImplementedError

    def stop(self, run: RunInfo, connection: Connection, *, force: bool = False) -> None:
        raise NotImplementedError
