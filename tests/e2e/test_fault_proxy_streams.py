"""The fault proxy lets exec, port-forward and a followed log through, and cuts them when asked."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from cluster import packages
from cluster.fault_proxy import FaultProxy
from cluster.fixtures import Cluster
from waiting import PATIENCE

pytestmark = pytest.mark.node

SERVER = "for i in 1 2 3; do echo line $i; done; cd /etc; python3 -u -m http.server 8000 2>&1"


@pytest.fixture(scope="module")
def pod(node_cluster: Cluster) -> Iterator[str]:
    namespace = node_cluster.namespace()
    container = {
        "name": "c",
        "image": node_cluster.ray_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", SERVER],
        "readinessProbe": {"tcpSocket": {"port": 8000}, "periodSeconds": 1},
    }
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "streams"},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }
    node_cluster.kubectl("-n", namespace, "create", "-f", "-", stdin=json.dumps(manifest))
    node_cluster.kubectl("-n", namespace, "wait", "--for=condition=Ready", "pod/streams", f"--timeout={PATIENCE:.0f}s")
    yield namespace
    node_cluster.delete_namespace(namespace)


@pytest.fixture
def proxy(node_cluster: Cluster) -> Iterator[FaultProxy]:
    with FaultProxy(node_cluster.kubeconfig) as running:
        yield running


@contextmanager
def kubectl(proxy: FaultProxy, namespace: str, *args: str) -> Iterator[subprocess.Popen[str]]:
    words = [str(packages.kubectl()), f"--kubeconfig={proxy.kubeconfig}", "-n", namespace, *args]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_exec_passes_both_ways(proxy: FaultProxy, pod: str) -> None:
    with kubectl(proxy, pod, "exec", "-i", "streams", "--", "sh", "-c", "wc -c; exit 7") as process:
        out, _ = process.communicate("x" * 500_000, timeout=PATIENCE)
        assert out.startswith("500000")
        assert process.returncode == 7


def test_port_forward_passes_until_it_is_cut(proxy: FaultProxy, pod: str) -> None:
    with kubectl(proxy, pod, "port-forward", "pod/streams", ":8000") as process:
        assert process.stdout
        port = int(process.stdout.readline().split("127.0.0.1:")[1].split()[0])
        for _ in range(3):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/passwd", timeout=PATIENCE) as answer:
                assert b"root:" in answer.read()
        assert proxy.cut() >= 1
        with pytest.raises(OSError, match=r".*"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/passwd", timeout=PATIENCE)
        assert process.wait(PATIENCE) != 0


def test_a_followed_log_arrives_line_by_line_and_breaks_off_where_asked(proxy: FaultProxy, pod: str) -> None:
    with kubectl(proxy, pod, "logs", "-f", "streams") as process:
        assert process.stdout
        assert [process.stdout.readline() for _ in range(3)] == ["line 1\n", "line 2\n", "line 3\n"]
        assert process.poll() is None
    rule = proxy.cut_after(9, path="/log")
    with kubectl(proxy, pod, "logs", "-f", "streams") as process:
        out, _ = process.communicate(timeout=PATIENCE)
    assert rule.hits == 1
    assert "line 3" not in out
