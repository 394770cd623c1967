"""Reviews that the API server answers every user: whether they may do a thing, and, beside who they are, what time it is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
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


def server_time(client: Client) -> datetime | None:
    """The time at which the API server answered, from a SelfSubjectReview's creationTimestamp; None when it gives none.

    Ages are judged by it, since a laptop's clock may be wrong.
    """
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    try:
        answer = client.json("POST", path, None, review, doing="ask who you are")
        return datetime.fromisoformat(str(answer["metadata"]["creationTimestamp"]).replace("Z", "+00:00"))
    except ClusterError as error:
        if error.status in (403, 404):
            return None
        raise
    except (KeyError, TypeError, ValueError):
        return None


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
