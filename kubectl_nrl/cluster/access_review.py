"""Asks the API server whether the user may do a thing, before it is tried in the middle of something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import ClusterError
from .client import Client


def allowed(client: Client, verb: str, what: str, namespace: str | None, name: str = "") -> bool | None:
    """Whether the user may; None when the cluster does not say. `what` is `group/resource/subresource`."""
    review = _review("SelfSubjectAccessReview", verb, what, namespace, name)
    try:
        status = _ask(client, review, "selfsubjectaccessreviews", "ask what you may do")
    except ClusterError as error:
        if error.status in (403, 404):
            return None
        raise
    return None if status.get("evaluationError") and not status.get("allowed") else bool(status.get("allowed"))


def account_allowed(client: Client, verb: str, what: str, namespace: str, account: str) -> bool:
    """Whether a service account of the namespace may. Raises `ClusterError` (403) where asking for others is forbidden."""
    review = _review("SubjectAccessReview", verb, what, namespace, "")
    review["spec"] |= {
        "user": f"system:serviceaccount:{namespace}:{account}",
        "groups": ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"],
    }
    return bool(_ask(client, review, "subjectaccessreviews", "ask what a service account may do").get("allowed"))


def _review(kind: str, verb: str, what: str, namespace: str | None, name: str) -> dict[str, Any]:
    group, resource, subresource = what.split("/")
    attributes = {"verb": verb, "group": group, "resource": resource, "subresource": subresource, "name": name}
    if namespace:
        attributes["namespace"] = namespace
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": kind,
        "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
    }


def _ask(client: Client, review: dict[str, Any], plural: str, doing: str) -> Mapping[str, Any]:
    answer = client.json("POST", f"/apis/authorization.k8s.io/v1/{plural}", None, review, doing=doing)
    return answer.get("status") or {}
