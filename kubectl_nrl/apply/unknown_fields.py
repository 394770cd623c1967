"""A strict refusal ("unknown field") in words that name the line: a cluster is older than the files, or a field is a typo.

The API server names the field's path (`spec.rayClusterSpec.workerGroupSpecs[0].x`); the Plan knows who set it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..manifests.merge import FieldPath, keyed_path

if TYPE_CHECKING:
    from ..plan.model import PlannedObject

#: As apimachinery's strict decoder says it (k8s.io/apimachinery/pkg/runtime/error.go, sigs.k8s.io/json).
_UNKNOWN = re.compile(r'unknown field "([^"]+)"')
_PART = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def unknown_fields(message: str, obj: PlannedObject, below: FieldPath = ()) -> list[str]:
    """A line for each field that the message says is unknown; empty when it is about something else.

    `below` is where the refused template stands in the object, when that was asked about as a Pod.
    """
    lines = []
    for written in dict.fromkeys(_UNKNOWN.findall(message)):
        path = tuple(int(index) if index else name for name, index in _PART.findall(written))
        source = obj.source((*below, *keyed_path(_at(obj, below), path)))
        place = f"{source}: " if source else ""
        lines.append(f'{place}unknown field "{written}": this cluster serves no such field of {_served(obj, below)}')
    return lines


def _served(obj: PlannedObject, below: FieldPath) -> str:
    if below:
        return "a pod"
    old = " (its KubeRay is older than the field)" if obj.api_version.startswith("ray.io/") else ""
    return f"{obj.kind} {obj.api_version}{old}"


def _at(obj: PlannedObject, below: FieldPath) -> object:
    """The value at a keyed path of the manifest."""
    value: object = obj.manifest
    for part in below:
        if isinstance(value, list):
            value = next((item for item in value if f"[{item.get('groupName')}]" == part), None)
        else:
            value = value.get(part) if isinstance(value, dict) else None
    return value
