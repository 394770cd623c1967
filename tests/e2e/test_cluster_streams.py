"""exec and port-forward through a real API server and kubelet, to a pod that serves files."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from cluster.fault_proxy import FaultProxy
from cluster.fixtures import Cluster as Harness

from kubectl_nrl.cluster import Cluster, Forward
from kubectl_nrl.errors import ClusterError

pytestmark = pytest.mark.node

#: Serves its directory, echoes what is posted, and answers a keep-alive connection as Ray's servers do.
SERVER = """
import http.server, os, time
os.chdir("/tmp")
open("big", "wb").write(bytes(range(256)) * 40000)
class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.path == "/sleep":
            time.sleep(600)
        super().do_GET()
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words): pass
http.server.ThreadingHTTPServer(("", 8000), Handler).serve_forever()
"""
BIG = bytes(range(256)) * 40000


@pytest.fixture(scope="module")
def namespace(node_cluster: Harness) -> Iterator[str]:
    """A namespace with the running pod `files`."""
    name = node_cluster.namespace("streams")
    container: dict[str, Any] = {
        "name": "main",
        "image": node_cluster.ray_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-c", SERVER],
        "readinessProbe": {"tcpSocket": {"port": 8000}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "files"},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }
    with Cluster.connect(kubeconfig=str(node_cluster.kubeconfig)) as admin:
        admin.create(pod, namespace=name)
        for event in admin.watch("v1", "Pod", name, name="files"):
            conditions = (event.object.get("status") or {}).get("conditions") or []
            if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
                break
    yield name
    node_cluster.delete_namespace(name)


@pytest.fixture
def cluster(node_cluster: Harness) -> Iterator[Cluster]:
    with Cluster.connect(kubeconfig=str(node_cluster.kubeconfig)) as connected:
        yield connected


@pytest.fixture
def forward(cluster: Cluster, namespace: str) -> Iterator[Forward]:
    with cluster.forward(namespace, "files", 8000) as opened:
        yield opened


def test_exec_gives_both_streams_and_the_exit_code(cluster: Cluster, namespace: str) -> None:
    script = "printf 'out\\377'; printf err >&2; exit 7"
    assert cluster.exec(namespace, "files", ["sh", "-c", script]) == (7, b"out\xff", b"err")
    assert cluster.exec(namespace, "files", ["cat", "/tmp/big"]) == (0, BIG, b"")
    assert cluster.exec(namespace, "files", ["printf", "%s", "a 'b' $c\n&?"])[1] == b"a 'b' $c\n&?"


def test_exec_hands_its_input_to_the_command(cluster: Cluster, namespace: str) -> None:
    assert cluster.exec(namespace, "files", ["head", "-c", str(len(BIG))], stdin=BIG) == (0, BIG, b"")


def test_what_exec_cannot_do(cluster: Cluster, namespace: str) -> None:
    # Long enough for a busy node to begin it: what takes too long before that is told otherwise.
    with pytest.raises(ClusterError, match="took longer than 5 s") as caught:
        cluster.exec(namespace, "files", ["sleep", "600"], timeout=5)
    assert caught.value.reason == "Timeout"
    with pytest.raises(ClusterError, match="no-such-command"):
        cluster.exec(namespace, "files", ["no-such-command"])
    with pytest.raises(ClusterError, match='pods "nobody" not found') as caught:
        cluster.exec(namespace, "nobody", ["true"])
    assert (caught.value.status, caught.value.reason) == (404, "NotFound")


def test_one_connection_serves_many_requests(forward: Forward) -> None:
    for _ in range(20):
        response = forward.request("GET", "/big", {"Range": "bytes=0-1"})
        assert response.status == 200 and response.read() == BIG


def test_bodies_go_and_come_byte_by_byte(forward: Forward) -> None:
    body = os.urandom(20_000_000)
    response = forward.request("POST", "/", body=body, timeout=60)
    digest = hashlib.sha256()
    for piece in response.chunks():
        digest.update(piece)
    assert digest.digest() == hashlib.sha256(body).digest()


def test_requests_at_the_same_time_do_not_mix_and_leave_nothing_open(cluster: Cluster, namespace: str) -> None:
    before, threads_before = len(os.listdir("/proc/self/fd")), threading.active_count()
    wrong: list[str] = []
    with cluster.forward(namespace, "files", 8000) as forward:

        def work(number: int) -> None:
            for count in range(6):
                body = f"{number}-{count}".encode() * 20_000
                if forward.request("POST", "/", body=body).read() != body:
                    wrong.append(f"{number}-{count}")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert threading.active_count() <= threads_before
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_a_response_that_nobody_reads_to_its_end_is_closed(cluster: Cluster, namespace: str) -> None:
    with cluster.forward(namespace, "files", 8000) as forward:
        for _ in range(3):
            with forward.request("GET", "/big") as response:
                assert len(next(iter(response.chunks()))) > 0
        assert forward.request("GET", "/big").read() == BIG


def test_a_port_where_nobody_listens_and_a_pod_that_is_not_there(cluster: Cluster, namespace: str) -> None:
    with (
        cluster.forward(namespace, "files", 8001) as forward,
        pytest.raises(ClusterError, match="port 8001 of pod files: connection refused") as caught,
    ):
        forward.request("GET", "/")
    assert caught.value.reason == "PortClosed"
    with cluster.forward(namespace, "nobody", 8000) as forward, pytest.raises(ClusterError) as caught:
        forward.request("GET", "/")
    assert caught.value.status == 404


def test_a_cut_is_an_error_and_the_next_request_works(node_cluster: Harness, namespace: str) -> None:
    with (
        FaultProxy(node_cluster.kubeconfig) as proxy,
        Cluster.connect(kubeconfig=str(proxy.kubeconfig)) as cluster,
        cluster.forward(namespace, "files", 8000) as forward,
    ):
        assert forward.request("GET", "/big").read() == BIG
        proxy.cut()
        assert forward.request("GET", "/big").read() == BIG
        response = forward.request("GET", "/big")
        pieces = response.chunks()
        next(pieces)
        proxy.cut()
        with pytest.raises(ClusterError) as caught:
            for _ in pieces:
                pass
        assert caught.value.reason == "ConnectionLost"
        assert forward.request("GET", "/big").read() == BIG


def test_silence_ends_with_a_timeout(forward: Forward) -> None:
    assert forward.request("GET", "/big").read() == BIG  # the connection is there
    with pytest.raises(ClusterError) as caught:
        forward.request("GET", "/sleep", timeout=1)
    assert caught.value.reason == "Timeout"


def test_a_user_who_may_only_create(node_cluster: Harness, namespace: str) -> None:
    """The usual role: a WebSocket would need `get`, so SPDY carries it."""
    rules = [{"apiGroups": [""], "resources": ["pods/exec", "pods/portforward"], "verbs": ["create"]}]
    limited = node_cluster.user(namespace, rules, "creator")
    with Cluster.connect(kubeconfig=str(limited)) as cluster:
        assert cluster.exec(namespace, "files", ["sh", "-c", "echo hi; echo no >&2; exit 3"]) == (3, b"hi\n", b"no\n")
        assert cluster.exec(namespace, "files", ["cat", "/tmp/big"]) == (0, BIG, b"")
        assert cluster.exec(namespace, "files", ["head", "-c", str(len(BIG))], stdin=BIG) == (0, BIG, b"")
        assert cluster.client.spdy_only == {"exec"}
        with cluster.forward(namespace, "files", 8000) as forward:
            body = os.urandom(20_000_000)
            for _ in range(2):
                assert forward.request("GET", "/big").read() == BIG
                assert forward.request("POST", "/", body=body, timeout=60).read() == body
        with cluster.forward(namespace, "files", 8001) as forward, pytest.raises(ClusterError, match="nothing listens"):
            forward.request("GET", "/")


def test_a_user_who_may_not(node_cluster: Harness, namespace: str) -> None:
    with Cluster.connect(kubeconfig=str(node_cluster.user(namespace, [], "nobody"))) as cluster:
        with pytest.raises(ClusterError, match="cannot exec in pods") as caught:
            cluster.exec(namespace, "files", ["true"])
        assert caught.value.status == 403 and "kubectl auth can-i create pods/exec" in caught.value.hint
        with cluster.forward(namespace, "files", 8000) as forward, pytest.raises(ClusterError) as caught:
            forward.request("GET", "/")
        assert caught.value.status == 403 and "kubectl auth can-i create pods/portforward" in caught.value.hint
