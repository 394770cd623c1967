"""Daemons of a long-lived Plan: each on its cluster as soon as that is up, used again, replaced, and watched while the rest comes up.

What is to be started anew is decided, and the roles' rendezvous cleared, before the first of them is submitted: one that was cleared later
would take away what another has just written there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..errors import ClusterError
from .cluster_guard import may_stop
from .daemon_launch import DaemonLaunch, until_ended
from .long_lived import Company
from .session import Session
from .uploading import Packages

if TYPE_CHECKING:
    from ..api import Prepared
    from ..apply import Unit
    from ..plan import Daemon, Plan
    from ..watch import DaemonStanding, DaemonWatch
    from .up_panel import Place

Lives = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class StartedDaemon:
    """What became of one daemon: `kept` runs and differs from the infra file, `unchanged` does not."""

    role: str
    submission_id: str
    action: Literal["submitted", "replaced", "unchanged", "kept"]

    @property
    def text(self) -> str:
        return f"daemon {self.submission_id} of {self.role}: {self.action}, running"

    def data(self) -> dict[str, str]:
        return {"role": self.role, "submissionId": self.submission_id, "action": self.action}


class Daemons(Company):
    """The daemons of one call. `replace` stops those that run first; `before` is called ahead of that, with the live clusters."""

    def __init__(
        self, session: Session, cluster: Any, plan: Plan, packages: Packages, *, replace: bool = False, yes: bool = False,
        force: bool = False, before: Callable[[Lives], None] = lambda lives: None,
    ) -> None:  # fmt: skip
        self._session, self._cluster, self._plan, self._packages = session, cluster, plan, packages
        self._replace, self._yes, self._force, self._before = replace, yes, force, before
        self._expected: frozenset[str] = frozenset()
        self._here: set[str] = set()
        self._replaced: set[str] = set()
        self._uploading = threading.Lock()
        self.started: dict[str, StartedDaemon] = {}

    def prepare(self) -> None:
        """Pack their code, before the cluster is asked for anything. Raises `NrlError`."""
        for daemon in self._plan.daemons:
            self._package(daemon)

    def settle(self, lives: Lives, made: Collection[str]) -> None:
        """Decide who is started anew, stop those who are replaced, and clear what they left at their rendezvous."""
        self._expected = frozenset(lives)
        mine = [daemon for daemon in self._plan.daemons if daemon.role in lives]
        if mine and self._replace:
            self._before({role: live for role, live in lives.items() if role not in made})
        fresh: dict[str, bool | None] = {}
        for daemon in mine:
            standing = self._look(daemon, lives[daemon.role], made)
            if standing is not None and standing.running and self._replace:
                self._stop(daemon, standing, lives[daemon.role])
                fresh[daemon.role] = True
            else:
                fresh[daemon.role] = None if standing is None else not standing.running
        for job_id in sorted({daemon.rendezvous for daemon in mine} - {""}):
            self._clear(job_id, fresh)

    def after_ready(self, unit: Unit, live: Mapping[str, Any], stop: threading.Event, place: Place) -> None:
        """Start the unit's daemon and wait until it is healthy, then see that it lives until all the others are up too."""
        daemon = next((d for d in self._plan.daemons if d.role == unit.role), None)
        if daemon is None:
            self._here.add(unit.role)
            return
        watch = self._start(daemon, live, place)
        try:
            if watch.until_healthy(stop):
                place.up(f"{words_of(daemon, self.started[daemon.role].submission_id)} is up")
                self._here.add(unit.role)
                watch.stay(lambda: self._here >= self._expected, stop)
        finally:
            watch.close()

    def finish(self, lives: Lives) -> None:
        """Let each rendezvous go with the gym's cluster, or with another of those that take part."""
        for job_id in sorted({daemon.rendezvous for daemon in self._plan.daemons} - {""}):
            roles = [d.role for d in self._plan.daemons if d.rendezvous == job_id and d.role in lives]
            if not roles:
                continue
            try:
                self._rendezvous(job_id).adopt(lives["gym" if "gym" in roles else roles[0]])
            except ClusterError as error:
                self._session.output.warn(
                    f"the roles' rendezvous {job_id} will not go with its clusters: {error.message}"
                )

    def staying(self) -> list[str]:
        mine = [found for found in self.started.values() if found.action in ("submitted", "replaced")]
        return [f"daemon {found.submission_id} of {found.role}" for found in mine]

    def _look(self, daemon: Daemon, live: Mapping[str, Any], made: Collection[str]) -> DaemonStanding | None:
        """How it stands; None when its Ray cannot be asked now."""
        from .. import ray_jobs
        from ..watch import DaemonStanding, standing_of

        if daemon.role in made:
            return DaemonStanding("absent")
        try:
            with ray_jobs.connect(self._cluster, live) as jobs:
                return standing_of(jobs.list(), daemon, live["metadata"]["uid"], self._code(daemon))
        except ClusterError as error:
            if error.status in (401, 403):
                raise
            # With its head a daemon is gone for certain.
            return DaemonStanding("absent") if error.reason == "NoHead" else None

    def _stop(self, daemon: Daemon, standing: DaemonStanding, live: Mapping[str, Any]) -> None:
        from .. import ray_jobs

        whose = str(((standing.job or {}).get("metadata") or {}).get("user") or "")
        what = words_of(daemon, standing.submission_id)
        may_stop(self._session, self._plan.namespace, what, {whose}, yes=self._yes, force=self._force)
        self._session.output.progress(f"stopping {words_of(daemon, standing.submission_id)}")
        with ray_jobs.connect(self._cluster, live) as jobs:
            jobs.stop(standing.submission_id)
            until_ended(jobs, [standing.submission_id])
        self._replaced.add(daemon.role)

    def _clear(self, job_id: str, fresh: Mapping[str, bool | None]) -> None:
        """`fresh` says of each role at hand whether its daemon is started anew, None where that is not known yet."""
        part = {daemon.role for daemon in self._plan.daemons if daemon.rendezvous == job_id}
        starting = {role for role in part if fresh.get(role)}
        staying = (part - starting) | set(self._plan.attached)
        if starting:
            self._rendezvous(job_id).clear(starting, staying, self._session.output.progress)

    def _rendezvous(self, job_id: str) -> Any:
        return rendezvous_of(self._cluster, self._plan, job_id)

    def _start(self, daemon: Daemon, live: Mapping[str, Any], place: Place) -> DaemonWatch:
        """Its job, submitted unless it runs; watched from now on."""
        launch = DaemonLaunch(self._session, self._cluster, self._plan, daemon, live)
        submission_id, standing = launch.ensure(
            self._package(daemon), self._code(daemon), replaced=daemon.role in self._replaced, lock=self._uploading
        )
        action: Literal["submitted", "replaced", "unchanged", "kept"] = "submitted"
        if standing.running:
            action = "unchanged" if standing.verdict == "same" else "kept"
        elif daemon.role in self._replaced:
            action = "replaced"
        self.started[daemon.role] = StartedDaemon(daemon.role, submission_id, action)
        words = words_of(daemon, submission_id)
        if action == "kept":
            self._session.output.warn(f"{words} {standing.differs}; it is kept (--replace starts it anew)")
        else:
            self._session.output.progress(f"{words}: {action}")
        return launch.watch(
            submission_id, words, fresh=not standing.running, tell=lambda why: place.doing(f"{words}: {why}")
        )

    def _package(self, daemon: Daemon) -> Prepared | None:
        return self._packages.of(daemon.upload_paths, self._plan.launch.recipe if daemon.reads_recipe else "")

    def _code(self, daemon: Daemon) -> str:
        package = self._package(daemon)
        return package.working_dir if package is not None else ""


def words_of(daemon: Daemon, submission_id: str) -> str:
    return f"daemon {submission_id} of {daemon.role}"


def rendezvous_of(cluster: Any, plan: Plan, job_id: str) -> Any:
    """The ConfigMap of that id; the Plan's clusters take part in it."""
    from ..apply import Rendezvous

    names = {role.cluster for role in plan.roles} | set(plan.attached.values())
    return Rendezvous(cluster, plan.namespace, job_id, plan.run.user, names)
