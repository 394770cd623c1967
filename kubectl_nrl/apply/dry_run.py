"""The API server's strict opinion of a Plan before anything exists: each object, each distinct pod template as a Pod.

The templates are asked about on their own since the API server does not look into a RayJob's: what is wrong in one
would show only when KubeRay makes pods of it, with the other pods already holding GPUs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import ClusterError
from ..manifests.pods import PodSet, pod_sets
from .unknown_fields import unknown_fields

if TYPE_CHECKING:
    from ..plan.model import Plan, PlannedObject


@dataclass(frozen=True)
class Refusal:
    """An object or pod template (`subject`) that the API server does not take; `message` is the server's."""

    subject: str
    message: str


@dataclass(frozen=True)
class DryRun:
    """What was asked (`checked`, in order), what was refused, and what could not be asked or may heal (`notes`)."""

    checked: tuple[str, ...]
    refusals: tuple[Refusal, ...]
    notes: tuple[str, ...]


def pod_templates(plan: Plan) -> Iterator[tuple[PlannedObject, PodSet]]:
    """Each distinct Ray pod template of the Plan with its object; equal ones (segments of a group) come once.

    A Deployment's is judged with the Deployment.
    """
    seen = set()
    for obj in plan.objects:
        for pods in pod_sets(obj.manifest) if obj.kind != "Deployment" else ():
            key = json.dumps(pods.template, sort_keys=True)
            if key not in seen:
                seen.add(key)
                yield obj, pods


def dry_run(plan: Plan, cluster: Any) -> DryRun:
    """Ask about everything and report all refusals at once.

    Raises `ClusterError` only when nothing can be asked at all.
    """
    checked: list[str] = []
    refusals: list[Refusal] = []
    notes: list[str] = []
    for obj in plan.objects:
        subject = f"{obj.kind.lower()}/{obj.name}"
        checked.append(subject)
        try:
            cluster.create(obj.manifest, namespace=plan.namespace, dry_run=True)
        except ClusterError as error:
            _sort_out(error, subject, refusals, notes, unknown_fields(error.message, obj))
    if not _may_make_pods(cluster, plan.namespace):
        notes.append("pod templates were not checked by the API server: you may not create pods")
        return DryRun(tuple(checked), tuple(refusals), tuple(notes))
    for obj, pods in pod_templates(plan):
        checked.append(pods.words)
        try:
            cluster.create(_pod(pods.template), namespace=plan.namespace, dry_run=True)
        except ClusterError as error:
            _sort_out(error, pods.words, refusals, notes, unknown_fields(error.message, obj, pods.at))
    return DryRun(tuple(checked), tuple(refusals), tuple(notes))


def _may_make_pods(cluster: Any, namespace: str) -> bool:
    return cluster.can_i("create", "", "pods", namespace) is not False


def _pod(template: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {k: v for k, v in (template.get("metadata") or {}).items() if k in ("labels", "annotations")}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "generateName": "kubectl-nrl-check-"},
        "spec": template.get("spec") or {},
    }


def _sort_out(
    error: ClusterError, subject: str, refusals: list[Refusal], notes: list[str], unknown: Sequence[str]
) -> None:
    """A refusal, or a note where it is no verdict on the object: an existing name, a quota that may be free later."""
    if error.status == 0:
        raise error
    if error.reason == "AlreadyExists":
        return  # validation comes before storage, so the object is right; who holds the name is asked elsewhere
    if "exceeded quota" in error.message:
        notes.append(f"{subject} would wait: {error.message}")
    elif "does not support dry run" in error.message:
        notes.append(f"{subject} was not checked: {error.message}")
    else:
        refusals += [Refusal(subject, message) for message in unknown or (error.message,)]
