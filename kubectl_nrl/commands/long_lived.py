"""A long-lived Plan on its cluster: made where it is missing, used where it is there, kept where it differs.

`cluster up` and `run --raycluster` share this, so that a cluster is the same to both.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from ..errors import ClusterError, ExitCode, NrlError, UsageError
from .cluster_guard import goer, guard, say_interrupted
from .connecting import observer
from .going_panel import going_panel
from .session import Session
from .until_up import until_up

if TYPE_CHECKING:
    from ..apply import Doomed, Standing, Unit
    from ..diff import Judgement
    from ..plan import HealthCheck, Plan
    from .up_panel import Place

Action = Literal["created", "unchanged", "completed", "kept", "recreated"]
#: Lines of a difference that are shown; the rest is counted.
CHANGES = 30


class Company:
    """What comes up with the units, once they stand (`commands.daemons`); this one is nothing."""

    def settle(self, lives: Mapping[str, Mapping[str, Any]], made: Collection[str]) -> None:
        """Called with the main objects by role before they are waited for; `made` are the roles made by this call."""

    def after_ready(self, unit: Unit, live: Mapping[str, Any], stop: threading.Event, place: Place) -> None:
        """Called in a thread of its own when a unit is ready; it should end soon when the event is set.

        `place` is told what is waited for here, and when that is over.
        """

    def finish(self, lives: Mapping[str, Mapping[str, Any]]) -> None:
        """Called when all of it is up."""

    def staying(self) -> list[str]:
        """Words for what this call started and what goes on though the command ends early."""
        return []


@dataclass(frozen=True)
class Came:
    """What became of one unit: the live main object, and whether it was waited for until it was ready."""

    unit: Unit
    action: Action
    live: Mapping[str, Any]
    ready: bool


@dataclass(frozen=True)
class Wishes:
    """What the flags ask for; `down` gives the command that takes units down again, by their targets."""

    down: Callable[[Sequence[str]], str]
    recreate: bool = False
    wait: bool = True
    timeout: float = 900.0
    yes: bool = False
    force: bool = False
    start_limit: float | None = None


def targets_of(plan: Plan, targets: Sequence[str]) -> Plan:
    """The Plan with the objects of those targets only (all without any). Raises `UsageError` for one that it does not have."""
    from ..apply import units_of

    if not targets:
        return plan
    known = {unit.target: unit.role for unit in units_of(plan)}
    for target in targets:
        if target not in known:
            raise UsageError(f'--target "{target}" is not in this infra file', f"it has: {', '.join(known) or 'none'}")
    roles = {known[target] for target in targets}
    return replace(plan, objects=tuple(o for o in plan.objects if o.role in roles))


def drift_ignores(session: Session, plan: Plan) -> list[str]:
    """The fields that the Plan's scheduler and drivers say others write."""
    schedulers, drivers = session.manager.providers("schedulers"), session.manager.providers("dra_drivers")
    chosen = [schedulers.get(plan.scheduler), *(drivers.get(name) for name in plan.dra)]
    return [path for provider in chosen if provider is not None for path in provider.drift_ignores()]


class LongLived:
    """One call's dealing with a long-lived Plan."""

    def __init__(self, session: Session, cluster: Any, plan: Plan, wishes: Wishes) -> None:
        from ..apply import BringUp

        self._session, self._cluster, self._plan, self._wishes = session, cluster, plan, wishes
        self._ignores = drift_ignores(session, plan)
        self._suspends = plan.scheduler if "spec.suspend" in self._ignores else ""
        self._deadline = time.monotonic() + wishes.timeout
        output = session.output
        self._bring_up = BringUp(
            cluster, plan.namespace, plan.run.user, ignores=self._ignores, say=output.progress, warn=output.warn,
            event=observer(session, {"run": plan.run.id, "namespace": plan.namespace}),
        )  # fmt: skip

    def look(self) -> list[Standing]:
        """How each unit stands now. Raises `ClusterError` for a name that somebody else holds."""
        from ..apply import belongs_to_another, look, units_of

        standings = look(units_of(self._plan), self._plan.namespace, self._cluster, self._plan.run.user, self._ignores)
        for standing in standings:
            foreign = _stays(standing) if self._wishes.recreate and self._wishes.force else standing.foreign
            if foreign is not None:
                raise belongs_to_another(foreign, self._plan.namespace, self._plan.run.user)
        return standings

    def ensure(self, standings: Sequence[Standing], company: Company | None = None) -> list[Came]:
        """Make what is missing, all at the same time, and wait for all of it together unless told not to."""
        actions, standings = self._settle(standings)
        try:
            lives = self._bring_up.create(standings)
        except KeyboardInterrupt:
            if not self._bring_up.made.objects:  # else they are named already
                self._session.output.plain("interrupted; nothing new was made")
            raise
        for standing in standings:
            self._say(standing, actions[standing.unit.role])
        ready: Mapping[str, Any] = {}
        if self._wishes.wait:
            ready = self._wait(standings, lives, company or Company())
        roles = [s.unit.role for s in standings]
        return [
            Came(s.unit, actions[role], ready.get(role, lives[role]), role in ready)
            for role, s in zip(roles, standings, strict=True)
        ]

    def _settle(self, standings: Sequence[Standing]) -> tuple[dict[str, Action], Sequence[Standing]]:
        """What will be done with each unit, what is to go having gone."""
        actions: dict[str, Action] = {}
        remake = [s for s in standings if self._wishes.recreate and s.verdict in ("drifted", "foreign")]
        for standing in standings:
            words: dict[str, Action] = {"same": "unchanged", "partial": "completed", "drifted": "kept"}
            actions[standing.unit.role] = words.get(standing.verdict, "created")
            if standing.verdict == "drifted":
                self._show_drift(standing)
        if remake:
            self._remove(remake)
            actions |= {s.unit.role: "recreated" for s in remake}
            from ..apply import look

            again = look(
                [s.unit for s in remake], self._plan.namespace, self._cluster, self._plan.run.user, self._ignores
            )
            fresh = {s.unit.role: s for s in again}
            standings = [fresh.get(s.unit.role, s) for s in standings]
        return actions, standings

    def _remove(self, standings: Sequence[Standing]) -> None:
        from ..apply import TakenDown, take_down, words_of

        going = [doomed(s) for s in standings]
        goers = [goer(self._session, self._cluster, d.main, d.pod_selector) for d in going if d.main is not None]
        guard(self._session, goers, self._plan.namespace, yes=self._wishes.yes, force=self._wishes.force)
        left = max(1.0, self._deadline - time.monotonic())
        done = TakenDown()
        try:
            with going_panel(self._session) as panel:
                take_down(
                    self._cluster, going, within=left, say=self._session.output.progress, view=panel.view, done=done
                )
        except KeyboardInterrupt:
            all_of_it = [words_of(obj) for d in going for obj in d.objects]
            say_interrupted(self._session, done, all_of_it, self._plan.namespace)
            raise

    def _show_drift(self, standing: Standing) -> None:
        output, changes = self._session.output, standing.changes
        what = "is made anew" if self._wishes.recreate else "is kept as it is; --recreate makes it anew"
        output.warn(f"{standing.unit.words} differs from what this infra file says, and {what}:")
        for words, change in changes[:CHANGES]:
            output.plain(f"  {'' if words == standing.unit.words else words + ' '}{change}")
        if len(changes) > CHANGES:
            output.plain(f"  ... and {len(changes) - CHANGES} more")

    def _say(self, standing: Standing, action: Action) -> None:
        if action in ("unchanged", "kept"):
            self._session.output.progress(f"{standing.unit.words}: {action}")
        else:
            self._session.output.progress(f'{standing.unit.words} {action} in namespace "{self._plan.namespace}"')

    def _wait(
        self, standings: Sequence[Standing], lives: Mapping[str, Mapping[str, Any]], company: Company
    ) -> dict[str, Mapping[str, Any]]:
        from ..watch import Unstartable

        checks = {check.name: check for check in self._plan.health_checks}
        units = {standing.unit.role: standing.unit for standing in standings}
        uids = {o["metadata"]["uid"] for o in self._bring_up.made.objects}
        try:
            company.settle(lives, {role for role, live in lives.items() if live["metadata"]["uid"] in uids})
            ready = until_up(
                self._session, self._cluster, {role: lives[role] for role in units}, deadline=self._deadline,
                start_limit=self._wishes.start_limit, suspended_by=self._suspends,
                probe=lambda role: self._probe(checks.get(role)),
                after=lambda role, live, stop, place: company.after_ready(units[role], live, stop, place),
            )  # fmt: skip
            company.finish(ready)
            return ready
        except Unstartable:
            self._bring_up.take_back()
            raise
        except (NrlError, KeyboardInterrupt) as error:
            self.say_what_stays(company, interrupted=isinstance(error, KeyboardInterrupt))
            raise

    def say_what_stays(self, company: Company, *, interrupted: bool) -> None:
        """What this call made and what goes on though it ends, with the command that takes it down."""
        from ..apply import units_of, words_of

        made = [words_of(o) for o in self._bring_up.made.objects if interrupted or not self._gone(o)]
        staying, why = [*made, *company.staying()], "interrupted; " if interrupted else ""
        if staying:
            units = units_of(self._plan)
            down = self._wishes.down([unit.target for unit in units if unit.words in made or not made])
            stay = "stay\n  take them down" if len(staying) > 1 else "stays\n  take it down"
            self._session.output.plain(f"{why}{', '.join(staying)} {stay}: {down}")
        elif interrupted:
            self._session.output.plain("interrupted; nothing new was made")

    def _gone(self, made: Mapping[str, Any]) -> bool:
        """Whether somebody else has deleted it meanwhile; where that cannot be asked it counts as there."""
        meta = made["metadata"]
        try:
            live = self._cluster.get(made["apiVersion"], made["kind"], meta["name"], self._plan.namespace)
        except ClusterError:
            return False
        return live is None or live["metadata"]["uid"] != meta["uid"] or "deletionTimestamp" in live["metadata"]

    def _probe(self, check: HealthCheck | None) -> Callable[[Mapping[str, Any]], None]:
        """What must answer before an object counts as up: Ray's Jobs API of a cluster, the health URL of a Deployment."""
        return self._health(check) if check else answers_jobs(self._cluster)

    def _health(self, check: HealthCheck) -> Callable[[Mapping[str, Any]], None]:
        """Asks the health URL once per call; from the first on it has the seconds that the infra file gives it."""
        from ..watch import ask_health, parts_of

        asked = parts_of(check.url, self._plan.namespace)
        if asked is None:
            self._session.output.warn(f"{check.name}: health URL {check.url} names no Service here and is not asked")
            return lambda live: None
        began: list[float] = []

        def ask(live: Mapping[str, Any]) -> None:
            began.append(time.monotonic())
            try:
                ask_health(self._cluster, asked)
            except ClusterError as error:
                if began[-1] - began[0] < check.timeout:
                    raise
                raise NrlError(
                    f"{check.name} is not healthy after {check.timeout} s: {error.message} ({check.url})",
                    f"{check.name}.healthCheckTimeoutS gives it longer",
                    exit_code=ExitCode.GAVE_UP,
                ) from error

        return ask


def answers_jobs(cluster: Any) -> Callable[[Mapping[str, Any]], None]:
    """A probe of a live object: nothing of a Deployment, of a RayCluster that its Jobs API answers. Raises `ClusterError`."""
    from .. import ray_jobs

    def probe(live: Mapping[str, Any]) -> None:
        if live["kind"] == "RayCluster":
            with ray_jobs.connect(cluster, live) as jobs:
                jobs.version()

    return probe


def doomed(standing: Standing) -> Doomed:
    """What of a unit is there, to be taken down; of what stands beside its main object only what is mine, or belongs to that."""
    from ..apply import Doomed

    main = _live(standing.main)
    uid = main["metadata"]["uid"] if main is not None else ""
    rest = []
    for found in standing.judgements[1:]:
        obj = _live(found)
        owners = {ref.get("uid") for ref in obj["metadata"].get("ownerReferences") or ()} if obj else set()
        if obj is not None and (uid in owners or (found.owner is not None and found.owner.mine)):
            rest.append(obj)
    return Doomed(main, tuple(rest))


def _stays(standing: Standing) -> Judgement | None:
    """Somebody else's object that would still hold its name when what can be taken down is gone."""
    going = {obj["metadata"]["uid"] for obj in doomed(standing).objects}
    foreign = (found for found in standing.judgements if found.verdict == "foreign" and found.live is not None)
    return next((found for found in foreign if (found.live or {})["metadata"]["uid"] not in going), None)


def _live(found: Judgement) -> Mapping[str, Any] | None:
    if found.live is None:
        return None
    return {"apiVersion": found.planned.api_version, "kind": found.planned.kind, **found.live}
