"""Why runs wait, by a real kubelet and a real container runtime: none of these RayJobs ever runs Ray."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from cluster.fixtures import Cluster
from waiting_rayjobs import Looking, rayjob

pytestmark = pytest.mark.node


class Registry(BaseHTTPRequestHandler):
    """A registry that has nothing, and shows `private` to nobody."""

    def do_GET(self) -> None:
        private = "/private/" in self.path
        self.send_response(200 if self.path == "/v2/" else 401 if private else 404)
        if private:
            self.send_header("WWW-Authenticate", 'Basic realm="registry"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[str]:
    """Its address; the runtime speaks plain HTTP to a registry on its own machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join(60)


def image(name: str, **spec: Any) -> dict[str, Any]:
    return {"container": {"image": name}, **spec}


def volume(**source: Any) -> dict[str, Any]:
    return {
        "volumes": [{"name": "v", **source}],
        "container": {"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
    }


def env(image: str, **words: Any) -> dict[str, Any]:
    return {"container": {"image": image, "imagePullPolicy": "IfNotPresent", **words}}


def commanded(image: str, *command: str, memory: str = "64Mi") -> dict[str, Any]:
    """A container that runs that and not Ray."""
    resources = {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": memory}}
    pulled = {"image": image, "imagePullPolicy": "IfNotPresent"}
    return {"container": {**pulled, "command": list(command), "resources": resources}}


def test_what_kubelet_and_runtime_say_is_named(node_cluster: Cluster, node_namespace: str, registry: str) -> None:
    """One namespace full of runs that wait, each for another reason."""
    look, ray = Looking(node_cluster, node_namespace), node_cluster.ray_image
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "there"}, "stringData": {"key": "x"}}
    key = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "there", "key": "other"}}}
    token = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "token"}}}
    fills_memory = ("python3", "-c", "x = [b'x' * (1 << 20) for _ in range(300)]")
    heads = {
        "typo": image(f"{registry}/typo:1"),
        "private": image(f"{registry}/private/rl:1"),
        "pull-secret": image(f"{registry}/private/rl:1", imagePullSecrets=[{"name": "regcred"}]),
        "unreachable": image("127.0.0.1:1/rl:1"),
        "no-host": image("registry.invalid/rl:1"),
        "env": env(ray, env=[token]),
        "env-from": env(ray, envFrom=[{"secretRef": {"name": "hf-token"}}]),
        "key": env(ray, env=[key]),
        "volume": volume(secret={"secretName": "tls"}),
        "config": volume(configMap={"name": "settings"}),
        "memory": commanded(ray, *fills_memory),
    }
    look.create(secret)
    for name, head in heads.items():
        job = rayjob(name, head=head, workers=0)
        job["metadata"]["annotations"] = {"ray.io/overwrite-container-cmd": "true"}
        look.create(job)
    look.lines(
        {
            "typo": f'head: ImagePullBackOff, image "{registry}/typo:1" not found',
            "private": f'head: ImagePullBackOff, image "{registry}/private/rl:1" may not be pulled',
            "pull-secret": f'head: ImagePullBackOff, image "{registry}/private/rl:1" may not be pulled (imagePullSecrets?); '
            "pull secret regcred does not exist",
            "unreachable": 'head: ImagePullBackOff, image "127.0.0.1:1/rl:1" cannot be pulled, its registry does not answer',
            "no-host": 'head: ImagePullBackOff, image "registry.invalid/rl:1" cannot be pulled, its registry',
            "env": 'head: SecretNotFound, secret "hf-token" does not exist',
            "env-from": 'head: SecretNotFound, secret "hf-token" does not exist',
            "key": "head: KeyNotFound, couldn't find key other in Secret",
            "volume": 'head: SecretNotFound, secret "tls" does not exist',
            "config": 'head: ConfigMapNotFound, configmap "settings" does not exist',
            "memory": "head: OOMKilled, container ray ",
        }
    )
    for name in ("typo", "private", "env", "volume"):
        assert [trouble.heals for trouble in look.troubles(name)] == ["by hand"]
    again = look.until("memory", lambda trouble: "ends again and again" in trouble.message)
    assert again.reason == "OOMKilled"


def test_workers_that_wait_for_their_head_say_so(node_cluster: Cluster, node_namespace: str) -> None:
    """The head's container lives and is no Ray: without a word, that is Initializing for ever."""
    look, ray = Looking(node_cluster, node_namespace), node_cluster.ray_image
    worker = {"container": {"image": ray, "imagePullPolicy": "IfNotPresent"}}
    job = rayjob("waits", head=commanded(ray, "sleep", "600"), worker=worker, workers=1)
    job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["metadata"] = {
        "annotations": {"ray.io/overwrite-container-cmd": "true"}
    }
    look.create(job)
    waits = look.until("waits", lambda trouble: trouble.reason == "WaitsForHead", later=61)
    assert waits.line == "1/1 workers of w: WaitsForHead, Ray's head does not answer yet"
    look.lines({"waits": "head: NotReady, container ray has run for over 90 s"}, later=100)
