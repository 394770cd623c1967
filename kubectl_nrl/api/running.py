"""What submitters, code sources, checks and reasons are handed at run time: a cluster, a connection, code that is sent, a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from ..errors import Problem


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
    """What will be sent, kept until it was: its survey, and how many bytes it is packed. `words` say it in one line.

    `working_dir` is what Ray will be told to use, the same for the same content.
    """

    survey: Survey
    size: int
    words: str
    working_dir: str

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
    """A run's state in Ray's words (`PENDING`, `RUNNING`, `SUCCEEDED`, `FAILED`, `STOPPED`), or `UNKNOWN`; when it `ended`, if known.

    `left` counts processes that a driver which has ended started and that still run, where that is known: a stop ends them.
    """

    status: str
    message: str = ""
    ended: datetime | None = None
    left: int = 0

    @property
    def final(self) -> bool:
        return self.status in ("SUCCEEDED", "FAILED", "STOPPED")
