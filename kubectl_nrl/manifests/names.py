"""Names of objects and the labels they carry: what Kubernetes and KubeRay allow, and how a generated name is cut.

A name that a person wrote is never cut, only refused; a generated one that is too long keeps its start and ends in a hash of the
whole, so that two long names never become one.
"""

from __future__ import annotations

import hashlib
import re

#: Lengths KubeRay's operator refuses beyond (facts 5.3: controllers/ray/utils/validation.go).
RAYJOB_MAX = 47
RAYCLUSTER_MAX = 53
LABEL_MAX = 63

_DNS1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_RUN_ID = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def cut(name: str, limit: int) -> str:
    """`name`, or its start and a hash of the whole where it is longer than `limit` characters."""
    if len(name) <= limit:
        return name
    return f"{name[: limit - 7].rstrip('-.')}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def dns_label(text: str) -> str:
    """The nearest DNS-1035 label to any text: lower case, `-` for everything else, starting with a letter."""
    label = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return label if label[:1].isalpha() else f"x-{label}".rstrip("-")


def name_fault(name: str, kind: str, limit: int = LABEL_MAX) -> str | None:
    """What is wrong with a name that a person wrote, in one clause; None when nothing is."""
    if not name:
        return f"{kind} has an empty name"
    if len(name) > limit:
        allowed = "KubeRay allows" if kind in ("RayJob", "RayCluster") else "Kubernetes allows"
        why = " (it appends suffixes)" if kind in ("RayJob", "RayCluster") else ""
        return f'{kind} name "{name}" is {len(name)} characters; {allowed} {limit}{why}'
    if not _DNS1035.fullmatch(name):
        return f'{kind} name "{name}" is no DNS label: lower-case letters, digits and "-", starting with a letter'
    return None


def run_id_fault(run_id: str) -> str | None:
    """What is wrong with a run id: it becomes a label's value, Ray's submission id and a part of names."""
    if _RUN_ID.fullmatch(run_id):
        return None
    return "--run-id may contain only letters, digits, '.', '_' and '-', starts and ends with a letter or digit, at most 63"


def label_value(text: str) -> str:
    """The nearest valid label value to any text."""
    return cut(re.sub(r"[^A-Za-z0-9_.-]+", "-", text), LABEL_MAX).strip("-_.")
