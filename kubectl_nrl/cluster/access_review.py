"""Reviews that the API server answers every user: whether they may do a thing, and, beside who they are, what time it is."""

from __future__ import annotations

from datetime import datetime

from ..errors import ClusterError
from .client import Client


def allowed(client: Client, verb: str, what: str, namespace: str | None, name: str = "") -> bool | None:
    """Whether the user may; None when the cluster does not say. `what` is `group/resource/subresource`."""
    group, resource, subresource = what.split("/")
    attributes = {"verb": verb, "group": group, "resource": resource, "subresource": subresource, "name": name}
    if namespace:
        attributes["namespace"] = namespace
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    try:
        answer = client.json("POST", path, None, review, doing="ask what you may do")
    except ClusterError as error:
        if error.status in (403, 404):
            return None
        raise
    status = answer.get("status") or {}
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
