"""The fault proxy against a real API server: invisible until asked, then exactly as harmful as asked."""

from __future__ import annotations

import base64
import contextlib
import gc
import http.client
import json
import select
import socket
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cluster import packages
from cluster.fault_proxy import FaultProxy
from cluster.fixtures import Cluster
from waiting import PATIENCE, wait_until

pytestmark = pytest.mark.api


@pytest.fixture
def proxy(api_cluster: Cluster) -> Iterator[FaultProxy]:
    with FaultProxy(api_cluster.kubeconfig) as running:
        yield running


def kubectl(proxy: FaultProxy, *args: str) -> subprocess.CompletedProcess[str]:
    words = [str(packages.kubectl()), f"--kubeconfig={proxy.kubeconfig}", *args]
    return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)


def get(proxy: FaultProxy, path: str) -> str:
    """GET through the proxy with a client that neither retries nor caches."""
    config = json.loads(Path(proxy.kubeconfig).read_text())
    server = config["clusters"][0]["cluster"]
    token = config["users"][0]["user"]["token"]
    request = urllib.request.Request(server["server"] + path, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, context=_trust(server), timeout=PATIENCE) as answer:
        return str(answer.read().decode())


def _trust(server: dict[str, str]) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=base64.b64decode(server["certificate-authority-data"]).decode())


def test_writes_and_reads_pass(proxy: FaultProxy, api_namespace: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("x" * 300_000)
    made = kubectl(proxy, "-n", api_namespace, "create", "configmap", "a", f"--from-file={tmp_path}/key")
    assert made.returncode == 0, made.stderr
    read = kubectl(proxy, "-n", api_namespace, "get", "configmap", "a", "-o", "jsonpath={.data.key}")
    assert read.stdout == "x" * 300_000
    assert ("POST", 201) in [(seen.method, seen.status) for seen in proxy.seen]


def test_a_clients_own_token_keeps_its_identity(proxy: FaultProxy, api_cluster: Cluster, api_namespace: str) -> None:
    limited = api_cluster.user(api_namespace, [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}])
    token = json.loads(limited.read_text())["users"][0]["user"]["token"]
    assert kubectl(proxy, f"--token={token}", "-n", api_namespace, "get", "pods").returncode == 0
    refused = kubectl(proxy, f"--token={token}", "-n", api_namespace, "get", "secrets")
    assert "Forbidden" in refused.stderr
    assert kubectl(proxy, "-n", api_namespace, "get", "secrets").returncode == 0


@contextmanager
def watch(proxy: FaultProxy, namespace: str) -> Iterator[subprocess.Popen[str]]:
    words = [
        str(packages.kubectl()),
        f"--kubeconfig={proxy.kubeconfig}",
        "-n",
        namespace,
        "get",
        "configmaps",
        "-w",
        "-o",
        "name",
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as watching:
        try:
            wait_until(lambda: any("watch=true" in seen.target for seen in proxy.seen))
            yield watching
        finally:
            watching.kill()


def test_watch_events_pass_while_it_is_open_and_a_cut_ends_them(
    proxy: FaultProxy, api_cluster: Cluster, api_namespace: str
) -> None:
    with watch(proxy, api_namespace) as watching:
        assert watching.stdout
        api_cluster.kubectl("-n", api_namespace, "create", "configmap", "late")
        assert watching.stdout.readline().strip() == "configmap/late"
        assert watching.poll() is None
        assert proxy.cut() == 1
        assert watching.wait(PATIENCE) is not None


def test_a_client_that_leaves_ends_its_watch_at_the_server(proxy: FaultProxy, api_namespace: str) -> None:
    with watch(proxy, api_namespace) as watching:
        assert proxy.open_connections() >= 2
        watching.kill()
        watching.wait()
        wait_until(lambda: not proxy.open_connections())


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "logged in"),
        (403, "Forbidden"),
        (409, "Conflict"),
        (410, "Expired"),
        (500, "InternalError"),
        (503, "unavailable"),
    ],
)
def test_answers_that_status_once(proxy: FaultProxy, api_namespace: str, status: int, words: str) -> None:
    rule = proxy.answer(status, method="GET", path=f"/namespaces/{api_namespace}/configmaps")
    failed = kubectl(proxy, "-n", api_namespace, "get", "configmaps")
    assert failed.returncode == 1
    assert words.lower() in failed.stderr.lower()
    assert rule.hits == 1
    assert kubectl(proxy, "-n", api_namespace, "get", "configmaps").returncode == 0


def test_429_says_when_to_come_back(proxy: FaultProxy) -> None:
    proxy.answer(429, path="^/version", retry_after=7)
    with pytest.raises(urllib.error.HTTPError) as caught:
        get(proxy, "/version")
    with caught.value as answer:
        assert answer.code == 429
        assert answer.headers["Retry-After"] == "7"
        assert json.loads(answer.read())["details"] == {"retryAfterSeconds": 7}
    assert "gitVersion" in get(proxy, "/version")


def test_only_what_matches_is_hit_and_only_as_often_as_asked(proxy: FaultProxy) -> None:
    rule = proxy.answer(503, times=2, method="GET", path="^/version")
    assert "items" in get(proxy, "/api/v1/namespaces")
    for _ in range(2):
        with pytest.raises(urllib.error.HTTPError) as caught:
            get(proxy, "/version")
        caught.value.close()
    assert "gitVersion" in get(proxy, "/version")
    assert rule.hits == 2


def test_a_watch_that_expired_is_an_event(proxy: FaultProxy, api_namespace: str) -> None:
    proxy.answer(410, path=r"configmaps\?.*watch=true", in_watch=True)
    event = json.loads(get(proxy, f"/api/v1/namespaces/{api_namespace}/configmaps?watch=true"))
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


def test_cut_after_bytes(proxy: FaultProxy) -> None:
    rule = proxy.cut_after(100, path="^/openapi/v2")
    with pytest.raises(OSError, match=r"reset|EOF|closed|IncompleteRead") as caught:
        try:
            get(proxy, "/openapi/v2")
        except Exception as err:
            raise (err if isinstance(err, OSError) else OSError(repr(err))) from err
    assert caught.value
    assert rule.hits == 1
    assert len(get(proxy, "/openapi/v2")) > 100_000


def test_refuses_until_allowed(proxy: FaultProxy) -> None:
    assert "gitVersion" in get(proxy, "/version")
    proxy.refuse()
    with pytest.raises(urllib.error.URLError) as caught:
        get(proxy, "/version")
    assert isinstance(caught.value.reason, ConnectionRefusedError)
    proxy.allow()
    assert "gitVersion" in get(proxy, "/version")


def test_refuses_for_a_while(proxy: FaultProxy) -> None:
    proxy.refuse(0.2)
    wait_until(lambda: _accepts(proxy))
    assert "gitVersion" in get(proxy, "/version")


def test_a_frozen_connection_is_silent_and_new_ones_are_not(proxy: FaultProxy, api_namespace: str) -> None:
    with watch(proxy, api_namespace) as watching:
        proxy.freeze()
        assert "gitVersion" in get(proxy, "/version")
        kubectl(proxy, "-n", api_namespace, "create", "configmap", "unseen")
        assert not select.select([watching.stdout], [], [], 0.5)[0]
        assert watching.poll() is None
        proxy.allow()
        assert watching.stdout is not None
        assert watching.stdout.readline().strip() == "configmap/unseen"


def test_a_cut_within_the_head_leaves_no_answer(proxy: FaultProxy) -> None:
    rule = proxy.cut_after(9, path="^/version", whole=True)
    with pytest.raises(http.client.BadStatusLine):
        get(proxy, "/version")
    rule.arrived()
    assert "gitVersion" in get(proxy, "/version")


def test_latency_until_cleared(proxy: FaultProxy) -> None:
    proxy.latency(0.7, path="^/version")
    started = time.monotonic()
    get(proxy, "/version")
    assert time.monotonic() - started > 0.7
    proxy.latency(3600, path="^/version")
    proxy.clear()
    assert "gitVersion" in get(proxy, "/version")


def test_many_clients_at_once(proxy: FaultProxy) -> None:
    failed: list[Exception] = []

    def ask() -> None:
        try:
            for _ in range(5):
                get(proxy, "/version")
        except Exception as err:
            failed.append(err)

    threads = [threading.Thread(target=ask) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert sum(seen.target == "/version" for seen in proxy.seen) == 50


def test_nothing_listens_when_it_is_closed(api_cluster: Cluster) -> None:
    with FaultProxy(api_cluster.kubeconfig) as proxy:
        url = json.loads(proxy.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1])))
    assert not proxy.kubeconfig.exists()


def _accepts(proxy: FaultProxy) -> bool:
    try:
        get(proxy, "/version")
    except urllib.error.URLError:
        return False
    return True


@pytest.mark.parametrize("end", ["close", "refuse"])
def test_connections_accepted_at_the_very_end_are_closed(end: str, api_cluster: Cluster) -> None:
    """One left open would be reported as a leak of whichever test runs when it is collected."""
    for _ in range(20):
        with FaultProxy(api_cluster.kubeconfig) as proxy:
            server = json.loads(Path(proxy.kubeconfig).read_text())["clusters"][0]["cluster"]["server"]
            port = int(server.rpartition(":")[2])
            clients = [socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) for _ in range(10)]
            if end == "refuse":
                proxy.refuse()
                proxy.cut()
        for client in clients:
            with client, contextlib.suppress(ConnectionResetError):
                assert client.recv(1) == b""
        gc.collect()  # a socket that was left open is an error here
