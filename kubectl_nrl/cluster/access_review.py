"""Asks the API server whether the user may do a thing, before it is tried in the middle of something."""

from __future__ import annotations

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
