"""What `init` writes down: each value from its flag, else from the person, else from the cluster, else a default.

Nothing is asked where there is no terminal, and then what was not given is said: a default that is chosen in silence
is found out on the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from ..errors import UsageError
from ..parser import did_you_mean
from .init_discovery import Found

#: What stands in for an image that nobody named; no registry has it.
PLACEHOLDER = "registry.example/nemo-rl:v0.4.0"

#: Schedulers whose workloads name a queue.
QUEUED = ("kai", "kueue")

LOCAL = "local"

#: GPUs per node where neither the profile nor the cluster says: what most nodes for training have.
GPUS = 8

#: Asks one question: (what, default, what is known, what was wrong with the answer before) -> the answer. A default of ""
#: means that there is none.
Ask = Callable[[str, str, Sequence[str], str], str]


@dataclass(frozen=True)
class Given:
    """The flags; None where not given."""

    profile: str | None = None
    image: str | None = None
    scheduler: str | None = None
    queue: str | None = None
    workspace: str | None = None


@dataclass(frozen=True)
class Answers:
    """What is written. `sources` says of each value that nobody named where it comes from."""

    profile: str
    image: str = ""
    scheduler: str = "default"
    queue: str = ""
    workspace: str = ""
    gpus: int = 0
    sources: tuple[str, ...] = ()


class Choosing:
    """One pass through the questions. `ask` is None where there is nobody to ask."""

    def __init__(self, given: Given, found: Found | None, profiles: Sequence[str], schedulers: Collection[str],
                 ask: Ask | None) -> None:  # fmt: skip
        self.given = given
        self.found = found or Found()
        self.profiles = [*profiles, *([LOCAL] if LOCAL not in profiles else [])]
        self.schedulers = sorted(schedulers)
        self.ask = ask
        self.sources: list[str] = []

    def answers(self, gpus_of: Callable[[str], int | None]) -> Answers:
        """All values; `gpus_of` gives a profile's GPUs per node. Raises `UsageError` for flags that do not fit."""
        profile = self._profile()
        if profile == LOCAL:
            self._only_profile()
            return Answers(profile, sources=tuple(self.sources))
        image = self._value("image", self.given.image, PLACEHOLDER, "a placeholder: put your own there", ())
        scheduler, queue = self._scheduler()
        workspace = self._workspace()
        gpus = gpus_of(profile) or self.found.gpus
        if not gpus:
            gpus = GPUS
            self.sources.append(f"GPUs per node not known: {gpus} in the recipe (cluster.gpus_per_node)")
        return Answers(profile, image, scheduler, queue, workspace, gpus, tuple(self.sources))

    def _profile(self) -> str:
        found = self.found
        default, why = ("generic", "the default")
        if found.profile:
            default, why = found.profile, f"{found.nodes} nodes of {found.where} carry its labels"
        return self._value("profile", self.given.profile, default, why, self.profiles, self._wrong_profile)

    def _wrong_profile(self, name: str) -> str:
        is_file = "/" in name or name.endswith((".yaml", ".yml"))
        return "" if is_file or name in self.profiles else f'no profile "{name}"{did_you_mean(name, self.profiles)}'

    def _only_profile(self) -> None:
        for name in ("image", "scheduler", "queue", "workspace"):
            if getattr(self.given, name) is not None:
                raise UsageError(f"--{name} has no meaning on this machine (profile local)", f"leave --{name} out")

    def _scheduler(self) -> tuple[str, str]:
        scheduler, queue = self.given.scheduler, self.given.queue
        default, why = self._likely_scheduler() if scheduler is None else ("", "")
        scheduler = self._value("scheduler", scheduler, default, why, self.schedulers, self._wrong_scheduler)
        if scheduler not in QUEUED:
            if queue is not None:
                raise UsageError(f"--queue has no meaning under scheduler {scheduler}", "--scheduler kai or kueue")
            return scheduler, ""
        queues = self._queues(scheduler)
        default = queues[0] if len(queues) == 1 else ""
        if queue is None and not default and not self.ask:
            there = f"; there are: {', '.join(queues)}" if queues else ""
            raise UsageError(
                f"scheduler {scheduler} needs a queue{there}", f"--queue {queues[0] if queues else 'NAME'}"
            )
        return scheduler, self._value("queue", queue, default, f"the only one in {self.found.where}", queues)

    def _wrong_scheduler(self, name: str) -> str:
        return "" if name in self.schedulers else f'no scheduler "{name}"{did_you_mean(name, self.schedulers)}'

    def _likely_scheduler(self) -> tuple[str, str]:
        """The one that has the queue given, else the only one that has any (with a choice only where one can be asked)."""
        having = [kind for kind in QUEUED if self._queues(kind)]
        if self.given.queue is not None:
            having = [kind for kind in having if self.given.queue in self._queues(kind)]
            if not having and not self.ask:
                raise UsageError("--queue needs the scheduler whose queue it is", "--scheduler kai or kueue")
        if len(having) == 1 and (self.ask or self.given.queue or len(self._queues(having[0])) == 1):
            return having[0], f"{self.found.where} has queues of it"
        return "default", "Kubernetes' own"

    def _queues(self, scheduler: str) -> Sequence[str]:
        return self.found.kai_queues if scheduler == "kai" else self.found.local_queues

    def _workspace(self) -> str:
        claims = self.found.claims
        default = claims[0] if len(claims) == 1 else "none"
        why = (
            f"the only claim in {self.found.where} that many pods can mount"
            if len(claims) == 1
            else "so results end with the pods"
        )
        answer = self._value("workspace", self.given.workspace, default, why, [*claims, "none"])
        return "" if answer == "none" else answer

    def _value(
        self, name: str, given: str | None, default: str, why: str, known: Sequence[str],
        wrong: Callable[[str], str] = lambda answer: "",
    ) -> str:  # fmt: skip
        """The flag's value, else the answer (asked again while it is wrong), else the default, which is then said."""
        if given is not None:
            if not given.strip():
                raise UsageError(f"--{name} is empty", "leave it out for a default")
            if complaint := wrong(given):
                raise UsageError(complaint, f"--{name} {'|'.join(known)}")
            return given
        if self.ask:
            answer = self.ask(name, default, known, "")
            while complaint := wrong(answer):
                answer = self.ask(name, default, known, complaint)
            return answer
        self.sources.append(f"{name} not given: {default}, {why}")
        return default
