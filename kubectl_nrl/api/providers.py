"""The base classes that a plugin fills in, with do-nothing defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..errors import Problem
from .context import Context, Traits
from .data import Capacity, Check, Patch, Reason, Resource, RunInfo
from .running import ClusterReader, CodeRequest, Connection, Prepared, Staged, State, Submission, Survey


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
        """Whether the infra file has the section's key."""
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
        """The run as it is now; `UNKNOWN` for one of which nothing is known any more. Raises `ClusterError`."""
        raise NotImplementedError

    def submit(self, run: RunInfo, connection: Connection, submission: Submission) -> RunInfo:
        """Start the entrypoint, exactly once; the run as it is known from then on.

        Raises `ClusterError`, with reason `AlreadyExists` for an id that is taken.
        """
        raise NotImplementedError

    def logs(self, run: RunInfo, connection: Connection, *, follow: bool, offset: int) -> Iterator[bytes]:
        """The driver's output from byte `offset` on, to its present end or, with `follow`, to the run's. Raises `ClusterError`."""
        raise NotImplementedError

    def stop(self, run: RunInfo, connection: Connection, *, force: bool = False) -> None:
        """Ask the run to end; `force` gives it no time. A run that is over is left as it is. Raises `ClusterError`."""
        raise NotImplementedError
