"""A Plan's objects against live ones: absent, same, drifted, going, or foreign.

What was rendered last time is kept in an annotation, and that is what sameness is judged against: the API server's defaults, an
autoscaler's replicas and what Kueue or a webhook added are then no difference by construction. An object without that annotation
is the same when every rendered field equals the live one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from .api import User
from .labels import LAST_APPLIED, Ownership, annotations_of, ownership
from .manifests.merge import FieldPath, leaves, show_path
from .plan.model import PlannedObject
from .redaction import REDACTED, is_credential
from .schema.quantities import quantity
from .script import unpack

Verdict = Literal["absent", "same", "drifted", "going", "foreign"]

#: Stands for a field that is not there.
ABSENT: Any = object()
#: Longest value shown in a change.
SHOWN = 60
#: What KubeRay's autoscaler writes.
AUTOSCALED = ("spec.workerGroupSpecs.*.replicas", "spec.workerGroupSpecs.*.scaleStrategy")


@dataclass(frozen=True)
class Change:
    """One field that differs: `old` as it is on the cluster, `new` as it is rendered (`ABSENT`: not there), `source` who set it."""

    path: FieldPath
    old: Any
    new: Any
    source: str = ""

    def __str__(self) -> str:
        who = f"  <- {self.source}" if self.source else ""
        return f"{show_path(self.path)}: {_shown(self.path, self.old)} -> {_shown(self.path, self.new)}{who}"


@dataclass(frozen=True)
class Judgement:
    """An object of a Plan and what is known of the live one; `owner` is the live one's, None where it is absent."""

    planned: PlannedObject
    verdict: Verdict
    live: Mapping[str, Any] | None = None
    owner: Ownership | None = None
    changes: tuple[Change, ...] = ()

    @property
    def words(self) -> str:
        """`raycluster/x`"""
        return f"{self.planned.kind.lower()}/{self.planned.name}"


def judge(planned: PlannedObject, live: Mapping[str, Any] | None, user: User, ignores: Iterable[str] = ()) -> Judgement:
    """Compare a planned object with the live one of its name, as that user.

    `ignores` are dotted fields that others write after us (`Provider.drift_ignores`; `*` is any one part): they count only where
    the live object says nothing of what was applied.
    """
    if live is None:
        return Judgement(planned, "absent")
    owner = ownership(live, user)
    if live["metadata"].get("deletionTimestamp"):
        return Judgement(planned, "going", live, owner)
    if not owner.mine:
        return Judgement(planned, "foreign", live, owner)
    applied, rendered = last_applied(live), last_applied(planned.manifest)
    if applied is not None and rendered is not None:
        changes = _between(applied, rendered, planned)
    else:
        changes = _missing(planned, live, ignores)
    return Judgement(planned, "drifted" if changes else "same", live, owner, tuple(changes))


def last_applied(obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What was rendered when the object was made; None where it does not say, or says it in a form that cannot be read."""
    text = unpack(annotations_of(obj).get(LAST_APPLIED) or "")
    try:
        found = json.loads(text or "null")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, Mapping) else None


def _between(applied: Mapping[str, Any], rendered: Mapping[str, Any], planned: PlannedObject) -> list[Change]:
    """The fields in which two renderings differ, in the order of the new one, what is gone last."""
    before, after = dict(leaves(applied)), dict(leaves(rendered))
    changed = [p for p, value in after.items() if before.get(p, ABSENT) != value]
    gone = [p for p in before if p not in after]
    return [
        Change(p, before.get(p, ABSENT), after.get(p, ABSENT), _source(planned, p) if p in after else "")
        for p in (*changed, *gone)
    ]


def _missing(planned: PlannedObject, live: Mapping[str, Any], ignores: Iterable[str]) -> list[Change]:
    """The rendered fields that the live object has otherwise."""
    skipped = [tuple(pattern.split(".")) for pattern in ignores]
    if (planned.manifest.get("spec") or {}).get("enableInTreeAutoscaling"):
        skipped += [tuple(pattern.split(".")) for pattern in AUTOSCALED]
    there = dict(leaves(live))
    changes = []
    for path, value in _own_fields(planned):
        found = there.get(path, ABSENT)
        if found is ABSENT:
            found = _at(live, path)
        if not _covers(found, value) and not any(_under(path, pattern) for pattern in skipped):
            changes.append(Change(path, found, value, _source(planned, path)))
    return changes


def _own_fields(planned: PlannedObject) -> Iterator[tuple[FieldPath, Any]]:
    for path, value in leaves(planned.manifest):
        if path != ("metadata", "annotations", LAST_APPLIED):
            yield path, value


def _at(value: Any, path: FieldPath) -> Any:
    """What stands at a path of plain keys: a map that is one field here may have fields there."""
    for part in path:
        if not isinstance(value, Mapping) or part not in value:
            return ABSENT
        value = value[part]
    return value


def _covers(live: Any, wanted: Any) -> bool:
    """Whether the live value holds all that is wanted; what a server adds to an element does not count."""
    if isinstance(wanted, Mapping):
        if not wanted:
            return live is ABSENT or isinstance(live, Mapping)
        return isinstance(live, Mapping) and all(_covers(live.get(key, ABSENT), item) for key, item in wanted.items())
    if isinstance(wanted, (list, tuple)):
        same = isinstance(live, (list, tuple)) and len(live) == len(wanted)
        return same and all(map(_covers, live, wanted))
    return bool(live == wanted) or (isinstance(live, (str, int)) and _amount(live) == _amount(wanted) is not None)


def _amount(value: Any) -> Fraction | None:
    """A quantity as a number: the API server writes `1000m` as `1` in the objects that it knows."""
    return None if isinstance(value, bool) else quantity(value)


def _under(path: FieldPath, pattern: tuple[str, ...]) -> bool:
    """Whether a path is the pattern's field or one below it."""
    return len(path) >= len(pattern) and all(w in ("*", str(p)) for p, w in zip(path, pattern, strict=False))


def _source(planned: PlannedObject, path: FieldPath) -> str:
    """Who set the field, or the nearest field around it."""
    for end in range(len(path), 0, -1):
        if path[:end] in planned.sources:
            return planned.sources[path[:end]]
    return ""


def _shown(path: FieldPath, value: Any) -> str:
    """A value in one short piece; of an environment variable its value, never a credential's."""
    if value is ABSENT:
        return "(none)"
    name = str(path[-1]).strip("[]") if path else ""
    if isinstance(value, Mapping) and value.keys() == {"name", "value"}:
        value = value["value"]
    if is_credential(name, value):
        return REDACTED
    text = value if isinstance(value, str) and value.isprintable() and value else json.dumps(value, default=str)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."
