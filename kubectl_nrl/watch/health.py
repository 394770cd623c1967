"""Asks a health URL where its name resolves: by a forward to a pod of the Service that it names, never from this machine's DNS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ..errors import ClusterError
from ..reasons import being_deleted, is_ready

#: Seconds that one answer may take.
ANSWER = 10.0


@dataclass(frozen=True)
class Asked:
    """A health URL taken apart: the Service it names (with its namespace), the port, and what is asked for."""

    service: str
    namespace: str
    port: int
    path: str


def parts_of(url: str, namespace: str) -> Asked | None:
    """The Service that a URL names (`x`, `x.ns`, `x.ns.svc`, `x.ns.svc.cluster.local`); None for what a forward cannot ask."""
    parts = urlsplit(url if "//" in url else f"//{url}")
    labels = (parts.hostname or "").split(".")
    inside = len(labels) <= 2 or labels[2] == "svc"
    if not labels[0] or not inside or labels[0].isdigit() or labels == ["localhost"] or parts.scheme == "https":
        return None
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Asked(labels[0], labels[1] if len(labels) > 1 else namespace, parts.port or 80, path)


@dataclass(frozen=True)
class ServiceHealth:
    """A health URL of a Service, asked by a forward (`watch.Health`)."""

    cluster: Any
    asked: Asked

    def ask(self) -> None:
        """See `ask_health`."""
        ask_health(self.cluster, self.asked)

    def close(self) -> None:
        """Each question has a connection of its own."""


def ask_health(cluster: Any, asked: Asked) -> None:
    """Return when the URL answers with less than 400. Raises `ClusterError` with what it did instead."""
    service = cluster.get("v1", "Service", asked.service, asked.namespace)
    if service is None:
        raise ClusterError(f"service/{asked.service} does not exist", reason="NotFound")
    pod = _ready_pod(cluster, service, asked)
    port = _target_port(service, asked.port, pod)
    name = pod["metadata"]["name"]
    try:
        with cluster.forward(asked.namespace, name, port) as forward:
            answer = forward.request("GET", asked.path, {"Host": f"{asked.service}:{asked.port}"}, timeout=ANSWER)
            answer.read()
    except ClusterError as error:
        if error.reason != "PortClosed":
            raise
        raise ClusterError(f"nothing listens on port {port} of pod {name} yet", reason=error.reason) from error
    if answer.status >= 400:
        raise ClusterError(f"its health URL answers {answer.status}", reason="Unhealthy")


def _ready_pod(cluster: Any, service: Mapping[str, Any], asked: Asked) -> Mapping[str, Any]:
    selector = (service.get("spec") or {}).get("selector") or {}
    if not selector:
        raise ClusterError(f"service/{asked.service} selects no pods", reason="NoSelector")
    text = ",".join(f"{key}={value}" for key, value in selector.items())
    for pod in cluster.list("v1", "Pod", asked.namespace, label_selector=text):
        if is_ready(pod) and not being_deleted(pod):
            return pod  # type: ignore[no-any-return]
    raise ClusterError(f"no pod of service/{asked.service} is ready", reason="NoPods")


def _target_port(service: Mapping[str, Any], port: int, pod: Mapping[str, Any]) -> int:
    """The pod's port behind a port of the Service (core/v1 ServicePort: a number, or the name of a container's port)."""
    for entry in (service.get("spec") or {}).get("ports") or ():
        if entry.get("port") != port:
            continue
        target = entry.get("targetPort", port)
        if isinstance(target, int):
            return target
        for container in (pod.get("spec") or {}).get("containers") or ():
            for named in container.get("ports") or ():
                if named.get("name") == target:
                    return int(named["containerPort"])
    if (service.get("spec") or {}).get("clusterIP") not in (None, "None"):
        # Other than a headless one, as KubeRay's head Services are by default, it passes on what it lists and nothing else.
        raise ClusterError(f"service/{service['metadata']['name']} has no port {port}", reason="NoPort")
    return port
