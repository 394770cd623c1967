"""From a RayCluster object to the Jobs API of its head, through the Kubernetes API."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..errors import ClusterError
from ..raycluster_state import whole
from .containers import ray_container
from .head import AGENT_PORT, DASHBOARD_PORT, Head, Transport
from .jobs import RayJobs

#: Key of the token in the Secret that KubeRay makes (KubeRay: RAY_AUTH_TOKEN_SECRET_KEY).
TOKEN_KEY = "auth_token"


class KubernetesReader(Protocol):
    """What `connect` needs of `cluster.Cluster`."""

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Mapping[str, Any] | None: ...
    def list(
        self, api_version: str, kind: str, namespace: str | None = None, *, label_selector: str = ""
    ) -> Sequence[Mapping[str, Any]]: ...
    def forward(self, namespace: str, pod: str, port: int, *, inside: str = "") -> Transport: ...
    def exec(
        self, namespace: str, pod: str, command: Sequence[str], *, container: str | None = None, timeout: float = 30,
        stdin: bytes = b"",
    ) -> tuple[int, bytes, bytes]: ...  # fmt: skip


def connect(cluster: KubernetesReader, raycluster: Mapping[str, Any]) -> RayJobs:
    """The Jobs API of a RayCluster object, through port-forwards to its head pod; nothing is sent to Ray yet.

    In a pod of the cluster the dashboard is reached by the head Service's name, and the agent, whose port no Service of KubeRay has,
    by the pod's address.

    Raises `ClusterError`: reason `NoHead` when no head pod runs, `RayUnauthorized` when its token cannot be read.
    """
    metadata = raycluster["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    params = ((raycluster.get("spec") or {}).get("headGroupSpec") or {}).get("rayStartParams") or {}
    pod = head_pod(cluster, raycluster)
    pod_name = pod["metadata"]["name"]
    container = ray_container(pod)

    def run(command: Sequence[str], stdin: bytes = b"", timeout: float = 30.0) -> tuple[int, bytes, bytes]:
        return cluster.exec(namespace, pod_name, command, container=container, stdin=stdin, timeout=timeout)

    return RayJobs(
        Head(
            api=cluster.forward(namespace, pod_name, dashboard_port(raycluster), inside=_service(raycluster)),
            agent=cluster.forward(
                namespace,
                pod_name,
                _port(params, "dashboard-agent-listen-port", AGENT_PORT),
                inside=str((pod.get("status") or {}).get("podIP") or ""),
            ),
            run=run,
            token=token_of(cluster, raycluster),
            log_dir=f"{str(params.get('temp-dir') or '/tmp/ray').rstrip('/')}/session_latest/logs",
            where=f'RayCluster "{name}"',
            pod=pod_name,
            life=_life(pod, container),
        )
    )


def head_pod(cluster: KubernetesReader, raycluster: Mapping[str, Any]) -> Mapping[str, Any]:
    """The running head pod, found by KubeRay's labels; one that is going away, or has ended, does not count.

    Raises `ClusterError` (reason `NoHead`) when there is none.
    """
    metadata = raycluster["metadata"]
    selector = f"ray.io/cluster={metadata['name']},ray.io/node-type=head"
    pods = [
        pod
        for pod in cluster.list("v1", "Pod", metadata["namespace"], label_selector=selector)
        if not pod["metadata"].get("deletionTimestamp") and (pod.get("status") or {}).get("phase") == "Running"
    ]
    if not pods:
        raise ClusterError(
            f'RayCluster "{metadata["name"]}" has no running head pod',
            f"see its pods: kubectl get pods -n {metadata['namespace']} -l ray.io/cluster={metadata['name']}",
            reason="NoHead",
        )
    return max(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp") or ""))


def _service(raycluster: Mapping[str, Any]) -> str:
    """DNS name of the head's Service inside the cluster (KubeRay: status.head.serviceName)."""
    metadata, head = raycluster["metadata"], (raycluster.get("status") or {}).get("head") or {}
    return f"{head.get('serviceName') or metadata['name'] + '-head-svc'}.{metadata['namespace']}.svc"


def _life(pod: Mapping[str, Any], container: str) -> str:
    """The pod and how often its Ray container was started again: Ray keeps jobs and logs in neither case."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    restarts = next((s.get("restartCount") for s in statuses if s.get("name") == container), None) or 0
    return f"{pod['metadata'].get('uid', '')}/{restarts}"


def dashboard_port(raycluster: Mapping[str, Any]) -> int:
    """The port of the head's dashboard (`rayStartParams.dashboard-port`, else Ray's own default)."""
    params = ((raycluster.get("spec") or {}).get("headGroupSpec") or {}).get("rayStartParams") or {}
    return _port(params, "dashboard-port", DASHBOARD_PORT)


def token_secret(raycluster: Mapping[str, Any]) -> str:
    """Name of the Secret that holds Ray's token (KubeRay's, or the user's own); empty where Ray asks for none."""
    auth = (raycluster.get("spec") or {}).get("authOptions") or {}
    return str(auth.get("secretName") or raycluster["metadata"]["name"]) if auth.get("mode") == "token" else ""


def token_of(cluster: KubernetesReader, raycluster: Mapping[str, Any]) -> str | None:
    """Ray's token where `authOptions.mode` is `token`, from its Secret; else None. Raises `ClusterError`."""
    name = token_secret(raycluster)
    if not name:
        return None
    namespace = raycluster["metadata"]["namespace"]
    try:
        secret = cluster.get("v1", "Secret", name, namespace)
    except ClusterError as error:
        if error.status != 403:
            raise
        raise ClusterError(
            f"Ray requires a token; cannot read Secret {namespace}/{name} (forbidden)",
            f"ask for: kubectl auth can-i get secrets/{name} -n {namespace}",
            status=403,
            reason="RayUnauthorized",
        ) from error
    data = (secret or {}).get("data") or {}
    if TOKEN_KEY not in data:
        what = f"has no key {TOKEN_KEY}" if secret else "is not there"
        raise ClusterError(f"Ray requires a token; Secret {namespace}/{name} {what}", reason="RayUnauthorized")
    token = base64.b64decode(data[TOKEN_KEY]).decode("ascii", "replace").strip()
    if not token.isascii() or not token.isprintable():
        said = f"Ray requires a token; Secret {namespace}/{name} has characters in {TOKEN_KEY} that no token has"
        raise ClusterError(said, reason="RayUnauthorized")
    return token


def _port(params: Mapping[str, Any], key: str, default: int) -> int:
    return whole(params.get(key)) or default
