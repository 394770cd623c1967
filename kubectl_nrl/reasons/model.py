"""What the judging of a run's wait is written in: what was read, what is wrong, and the picture of it at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from ..api import Reason

#: How a trouble ends: `alone` (queues, capacity), `by hand` (somebody must make or mend something), `never` (certain).
Heals = Literal["alone", "by hand", "never"]


@dataclass(frozen=True)
class Trouble:
    """One reason why a run waits, of all the pods that share it.

    `who` is for people (`4/4 workers of gpu`, `head`, `rayjob/x`); `key` is what makes it the same trouble again, so
    that it holds no counts and none of kubelet's alternating words. `pods` are names, sorted.
    """

    who: str
    reason: str
    message: str
    heals: Heals
    key: tuple[str, ...]
    pods: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """`4/4 workers of gpu: ImagePullBackOff, image "x:typo" not found`."""
        return f"{self.who}: {self.reason}" + (f", {self.message}" if self.message else "")


@dataclass(frozen=True)
class Situation:
    """What was read of one run, nothing judged.

    `rayjob` is None for a long-lived cluster, `ray_cluster` None while there is none. `events` are the warnings of the
    namespace (v1 Event); `said` what providers and claims say; `notes` what may not be looked at. `blind`: pods are among that, so
    that none in `pods` means nothing. `deployment` is what a Deployment's wait is judged by, alone with its pods.
    """

    rayjob: Mapping[str, Any] | None = None
    ray_cluster: Mapping[str, Any] | None = None
    pods: tuple[Mapping[str, Any], ...] = ()
    events: tuple[Mapping[str, Any], ...] = ()
    said: tuple[Reason, ...] = ()
    notes: tuple[str, ...] = ()
    blind: bool = False
    deployment: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class GroupView:
    """The pods of the head or of one worker group.

    `total` is how many there should be, `gpus` what the present ones hold, `states` counts them by what `kubectl get
    pods` would call them (`Ready`, `Pending`, `ImagePullBackOff`, ...).
    """

    role: str
    name: str
    ready: int
    total: int
    gpus: int
    states: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Snapshot:
    """A run at one moment. `state` is one word, `description` a phrase; `started` is aware (UTC); `gpus` are held now."""

    state: str
    description: str
    started: datetime | None
    groups: tuple[GroupView, ...]
    troubles: tuple[Trouble, ...]
    gpus: int
    notes: tuple[str, ...] = ()
