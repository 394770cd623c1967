"""What the infra file's sections demand of one another, which no schema of one section can say.

A key that another key leaves without effect is a warning: nothing that a person writes may be dropped in silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .engine import Fault
from .names import label_faults
from .words import Path, show

_ROLES = ("training", "generation", "gym")
#: Sections with a claim: the kind that holds when none is written, and the kinds that use `pvcName`.
_CLAIMS = {
    "workspace": ("rayUpload", ("lustre", "pvc", "auto")),
    "hf_cache": ("none", ("lustre", "pvc")),
    "checkpoints": ("none", ("lustre", "pvc")),
}
_MOUNTED = {
    "workspace": ("lustre", "pvc", "hostPath", "auto"),
    "hf_cache": ("lustre", "pvc", "emptyDir"),
    "checkpoints": ("lustre", "pvc"),
}


def infra_faults(infra: Mapping[str, Any]) -> Iterator[Fault]:
    """Faults between keys; where a section has the wrong type there are none, since the schema has said so."""
    yield from _claims(infra)
    yield from _mounts(infra)
    yield from _roles(infra)
    yield from label_faults(infra, ())
    for role in _ROLES:
        yield from label_faults(_at(infra, "kuberay", role), ("kuberay", role))
    for name, deployment in _at(infra, "deployments").items():
        if isinstance(deployment, Mapping):
            yield from label_faults(deployment, ("deployments", name))


def _at(value: Any, *path: str) -> Mapping[Any, Any]:
    """The mapping at a path; an empty one where there is none."""
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _claims(infra: Mapping[str, Any]) -> Iterator[Fault]:
    for section, (default, kinds) in _CLAIMS.items():
        value = _at(infra, section)
        kind = value.get("kind") or default
        if isinstance(kind, str) and value.get("pvcName") is not None and kind not in kinds:
            yield Fault((section, "pvcName"), f"has no effect when kind is {kind}", "warning")


def _mounts(infra: Mapping[str, Any]) -> Iterator[Fault]:
    """Two sections that mount something at one path: Kubernetes refuses the pod."""
    taken: dict[str, str] = {}
    for section, kinds in _MOUNTED.items():
        value = _at(infra, section)
        path = value.get("mountPath")
        if not isinstance(path, str) or value.get("kind") not in kinds:
            continue
        place = path.rstrip("/") or "/"
        if place in taken:
            yield Fault((section, "mountPath"), f"is {show(path)}, where {taken[place]} is mounted")
        taken.setdefault(place, section)


def _roles(infra: Mapping[str, Any]) -> Iterator[Fault]:
    attached = _at(infra, "launch", "attach")
    for role in _ROLES:
        own = _at(infra, "kuberay", role)
        path: Path = ("kuberay", role)
        if own.get("spec") is not None and own.get("workers") is not None:
            yield Fault((*path, "workers"), "has no effect beside a spec, whose groups say their replicas", "warning")
        name, other = own.get("name"), attached.get(role)
        if isinstance(name, str) and isinstance(other, str) and name != other:
            what = f"is {show(other)}, but kuberay.{role}.name is {show(name)}: leave one of them out"
            yield Fault(("launch", "attach", role), what)
