"""The pieces in which a long-lived Plan comes up and goes down: a role's RayCluster with its children, a Deployment with its Service.

A piece is judged as a whole, since a claim template that changed under a live cluster changes nothing until the cluster is made anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from ..api import User
from ..cluster.side_by_side import side_by_side
from ..diff import Change, Judgement, judge
from ..plan.model import WORKLOAD_WAVE

if TYPE_CHECKING:
    from ..plan.model import Plan, PlannedObject

Verdict = Literal["absent", "same", "partial", "drifted", "going", "foreign"]

DEPLOYMENTS = "deployments."


@dataclass(frozen=True)
class Unit:
    """One piece: `role` as the Plan names it, `main` its RayCluster or Deployment, `rest` what belongs to that."""

    role: str
    main: PlannedObject
    rest: tuple[PlannedObject, ...]

    @property
    def target(self) -> str:
        """What `--target` calls it."""
        return self.role if self.role.startswith(DEPLOYMENTS) else f"kuberay.{self.role}"

    @property
    def words(self) -> str:
        return f"{self.main.kind.lower()}/{self.main.name}"

    @property
    def before(self) -> tuple[PlannedObject, ...]:
        """What must exist before `main` (claims, domains, ConfigMaps)."""
        return tuple(o for o in self.rest if o.wave < WORKLOAD_WAVE)

    @property
    def after(self) -> tuple[PlannedObject, ...]:
        return tuple(o for o in self.rest if o.wave >= WORKLOAD_WAVE)


@dataclass(frozen=True)
class Standing:
    """How a unit stands on the cluster: its objects' judgements, `main`'s first."""

    unit: Unit
    judgements: tuple[Judgement, ...]

    @property
    def main(self) -> Judgement:
        return self.judgements[0]

    @property
    def verdict(self) -> Verdict:
        """`partial`: the main object is as it should be, and something beside it is missing."""
        found = [j.verdict for j in self.judgements]
        if "foreign" in found:
            return "foreign"
        if self.main.verdict in ("absent", "going"):
            return self.main.verdict
        if "drifted" in found:
            return "drifted"
        return "same" if all(v == "same" for v in found) else "partial"

    @property
    def foreign(self) -> Judgement | None:
        return next((j for j in self.judgements if j.verdict == "foreign"), None)

    @property
    def changes(self) -> list[tuple[str, Change]]:
        """What differs, each with its object's words."""
        return [(j.words, change) for j in self.judgements if j.verdict == "drifted" for change in j.changes]


def units_of(plan: Plan) -> tuple[Unit, ...]:
    """The Plan's units, roles first."""
    mains = {o.role: o for o in plan.objects if o.wave == WORKLOAD_WAVE and o.kind in ("RayCluster", "Deployment")}
    found = [
        Unit(role, main, tuple(o for o in plan.objects if o.role == role and o is not main))
        for role, main in mains.items()
    ]
    return tuple(sorted(found, key=lambda unit: (unit.main.kind != "RayCluster", unit.role)))


def look(
    units: Iterable[Unit], namespace: str, cluster: Any, user: User, ignores: Sequence[str] = ()
) -> list[Standing]:
    """Read every object of the units and judge it. Raises `ClusterError` of the first that cannot be read."""
    units = list(units)

    def judged(planned: PlannedObject) -> Judgement:
        live = cluster.get(planned.api_version, planned.kind, planned.name, namespace)
        return judge(planned, live, user, ignores)

    answers = iter(side_by_side([partial(judged, o) for unit in units for o in (unit.main, *unit.rest)]))
    return [Standing(unit, tuple(islice(answers, 1 + len(unit.rest)))) for unit in units]
