"""Requests against a server that misbehaves: what is tried again, what never is, and what a person is told."""

from __future__ import annotations

import base64
import io
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scripted_server import Asked, Server, answer, refused

from kubectl_nrl.cluster import Cluster, client, pool, sockets
from kubectl_nrl.errors import ClusterError

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "team"}}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PAUSES", (0.01, 0.01))


def connect(
    tmp_path: Path, url: str, user: dict[str, Any] | None = None, env: dict[str, str] | None = None, **more: Any
) -> Cluster:
    config = {
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": url, **more}}],
        "users": [{"name": "u", "user": user or {"token": "first"}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "team"}}],
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    return Cluster.connect(kubeconfig=str(path), env=env or {})


def in_turn(*replies: bytes | None) -> Callable[[Asked], bytes | None]:
    """Each reply once; the last one for ever."""
    left = list(replies)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def test_a_get_is_authenticated_and_reuses_its_connection(tmp_path: Path) -> None:
    with Server(in_turn(answer(200, POD))) as server, connect(tmp_path, f"{server.url}/prefix") as cluster:
        assert cluster.get("v1", "Pod", "a") == POD
        assert cluster.get("v1", "Pod", "a/b?c", "other") == POD
        first, second = server.asked
    assert first.target == "/prefix/api/v1/namespaces/team/pods/a"
    assert second.target == "/prefix/api/v1/namespaces/other/pods/a%2Fb%3Fc"
    assert first.headers["authorization"] == "Bearer first"
    assert (first.connection, second.connection) == (1, 1)


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_would_mean_all_objects_of_a_kind_means_none(tmp_path: Path, name: str) -> None:
    """A DELETE of the address that such a name makes would delete everything of that kind in the namespace."""
    with Server(in_turn(answer(200, POD))) as server, connect(tmp_path, server.url) as cluster:
        assert cluster.get("v1", "Pod", name) is None
        assert cluster.metadata("v1", "Pod", name) is None
        assert cluster.delete("v1", "Pod", name) is False
        assert server.asked == []


def test_create_is_strict_and_says_who_writes(tmp_path: Path) -> None:
    with Server(in_turn(answer(201, POD))) as server, connect(tmp_path, server.url) as cluster:
        cluster.create(POD, namespace="rl", dry_run=True)
        asked = server.asked[0]
    assert asked.method == "POST" and json.loads(asked.body) == POD
    assert asked.target == ("/api/v1/namespaces/rl/pods?fieldManager=kubectl-nrl&fieldValidation=Strict&dryRun=All")


def test_a_get_survives_a_cut_and_a_server_error(tmp_path: Path) -> None:
    with (
        Server(in_turn(None, answer(503, b"no"), answer(200, POD))) as server,
        connect(tmp_path, server.url) as cluster,
    ):
        assert cluster.get("v1", "Pod", "a") == POD
        assert len(server.asked) == 3


def test_a_get_gives_up_at_last(tmp_path: Path) -> None:
    with Server(in_turn(None)) as server, connect(tmp_path, server.url) as cluster:
        with pytest.raises(ClusterError, match=r'lost the API server .* "a" in namespace "team"') as caught:
            cluster.get("v1", "Pod", "a")
        assert caught.value.reason == "ConnectionLost" and len(server.asked) == 3


@pytest.mark.parametrize(
    "reply", [None, answer(500, refused(500, "InternalError", "etcd is away")), answer(503, b"no")]
)
def test_a_create_is_never_sent_twice(tmp_path: Path, reply: bytes | None) -> None:
    with Server(in_turn(reply)) as server, connect(tmp_path, server.url) as cluster:
        with pytest.raises(ClusterError):
            cluster.create(POD)
        assert len(server.asked) == 1


def test_a_connection_that_was_closed_while_idle_is_replaced_even_for_a_create(tmp_path: Path) -> None:
    with Server(in_turn(answer(201, POD)), close_after=True) as server, connect(tmp_path, server.url) as cluster:
        cluster.create(POD)
        server.until_closed()
        cluster.create(POD)
        assert [asked.connection for asked in server.asked] == [1, 2]


def test_a_connection_that_was_forgotten_on_the_way_is_replaced_when_nothing_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A firewall drops an idle connection without a word: no end ever comes, and the next one works."""
    monkeypatch.setattr(pool, "REUSED_SILENCE", 0.2)
    over = threading.Event()

    def reply(asked: Asked) -> bytes | None:
        silent = asked.connection == 1 and len(server.asked) > 1
        if silent:
            over.wait(60)
        return None if silent else answer(200, POD)

    with Server(reply) as server, connect(tmp_path, server.url) as cluster:
        assert [cluster.get("v1", "Pod", "a") for _ in range(3)] == [POD] * 3
        assert [asked.connection for asked in server.asked] == [1, 1, 2, 2]
        over.set()


def test_429_is_waited_for_as_told(tmp_path: Path) -> None:
    busy = answer(429, refused(429, "TooManyRequests", "slow down"), {"Retry-After": "1"})
    started = time.monotonic()
    with Server(in_turn(busy, answer(201, POD))) as server, connect(tmp_path, server.url) as cluster:
        assert cluster.create(POD) == POD
        assert len(server.asked) == 2
    assert time.monotonic() - started > 0.9


def test_429_without_a_time_or_with_too_long_a_one_is_an_answer(tmp_path: Path) -> None:
    for headers in ({}, {"Retry-After": "3600"}, {"Retry-After": "Tue, 01 Jan"}):
        busy = answer(429, refused(429, "TooManyRequests", "no budget"), headers)
        with Server(in_turn(busy)) as server, connect(tmp_path, server.url) as cluster:
            with pytest.raises(ClusterError, match="no budget"):
                cluster.get("v1", "Pod", "a")
            assert len(server.asked) == 1


def test_nobody_listens(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with connect(tmp_path, f"http://127.0.0.1:{port}") as cluster, pytest.raises(ClusterError) as caught:
        cluster.list("v1", "Pod")
    assert caught.value.reason == "Unreachable" and "Connection refused" in caught.value.message
    assert f"127.0.0.1:{port}" in caught.value.message and "\n" not in caught.value.message


def test_a_page_that_is_no_json_is_named(tmp_path: Path) -> None:
    page = answer(200, b"<html>login")
    with (
        Server(in_turn(page)) as server,
        connect(tmp_path, server.url) as cluster,
        pytest.raises(ClusterError, match="the answer is not JSON") as caught,
    ):
        cluster.get("v1", "Pod", "a")
    assert caught.value.reason == "NotKubernetes"


def test_lists_come_page_by_page_with_their_kind(tmp_path: Path) -> None:
    def page(names: list[str], more: str) -> bytes:
        items = [{"metadata": {"name": name}} for name in names]
        metadata = {"resourceVersion": "7", "continue": more}
        return answer(200, {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items})

    with Server(in_turn(page(["a"], "next"), page(["b"], ""))) as server, connect(tmp_path, server.url) as cluster:
        pods = cluster.list("v1", "Pod", "rl", label_selector="x=y,z", field_selector="a=b")
        assert "continue=next" in server.asked[1].target
        assert "labelSelector=x%3Dy%2Cz" in server.asked[0].target and "fieldSelector=a%3Db" in server.asked[0].target
    assert [(pod["kind"], pod["metadata"]["name"]) for pod in pods] == [("Pod", "a"), ("Pod", "b")]


def test_a_list_whose_pages_expired_begins_again_whole(tmp_path: Path) -> None:
    first = answer(200, {"kind": "PodList", "metadata": {"continue": "old"}, "items": [{"metadata": {"name": "a"}}]})
    gone = answer(410, refused(410, "Expired", "too old"))
    whole = answer(200, {"kind": "PodList", "metadata": {}, "items": [{"metadata": {"name": n}} for n in "ab"]})
    with Server(in_turn(first, gone, whole)) as server, connect(tmp_path, server.url) as cluster:
        assert [pod["metadata"]["name"] for pod in cluster.list("v1", "Pod")] == ["a", "b"]
        assert "limit" not in server.asked[2].target


def test_a_kind_that_is_not_served_is_never_an_absent_object(tmp_path: Path) -> None:
    with Server(in_turn(answer(404, b"404 page not found\n"))) as server, connect(tmp_path, server.url) as cluster:
        for ask in (
            lambda: cluster.get("ray.io/v1", "RayJob", "a"),
            lambda: cluster.list("ray.io/v1", "RayJob"),
            lambda: cluster.delete("ray.io/v1", "RayJob", "a"),
            lambda: cluster.get("unheard.of/v1", "Thing", "a"),
            lambda: next(cluster.watch("ray.io/v1", "RayJob")),
        ):
            with pytest.raises(ClusterError) as caught:
                ask()
            assert caught.value.reason == "NotServed"


def test_delete_says_whether_it_was_there_and_spares_another_uid(tmp_path: Path) -> None:
    absent = answer(404, refused(404, "NotFound", "", name="a", kind="pods"))
    other = answer(409, refused(409, "Conflict", "Precondition failed: UID in precondition: x, UID in object meta: y"))
    with Server(in_turn(answer(200, POD), absent, other)) as server, connect(tmp_path, server.url) as cluster:
        assert [cluster.delete("v1", "Pod", "a", uid="x") for _ in range(3)] == [True, False, False]
        options = json.loads(server.asked[0].body)
    assert options["preconditions"] == {"uid": "x"} and options["propagationPolicy"] == "Background"


def test_gzip_is_understood(tmp_path: Path) -> None:
    import gzip

    packed = answer(200, gzip.compress(json.dumps(POD).encode()), {"Content-Encoding": "gzip"})
    with Server(in_turn(packed)) as server, connect(tmp_path, server.url) as cluster:
        assert cluster.get("v1", "Pod", "a") == POD


def plugin(tmp_path: Path, body: str) -> dict[str, Any]:
    """A kubeconfig user with a credential plugin; `count` is the number of its runs."""
    script = tmp_path / "login.py"
    script.write_text(
        "import json, os, pathlib, sys\n"
        f"path = pathlib.Path({str(tmp_path / 'count')!r})\n"
        "count = int(path.read_text()) + 1 if path.exists() else 1\n"
        "path.write_text(str(count))\n"
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n" + body
    )
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": [str(script)]}}


def test_a_plugin_is_asked_again_when_its_token_is_refused(tmp_path: Path) -> None:
    user = plugin(tmp_path, "print(json.dumps({'status': {'token': f't{count}'}}))\n")
    denied = answer(401, refused(401, "Unauthorized", "Unauthorized"))
    with Server(lambda asked: answer(200, POD) if asked.headers["authorization"] == "Bearer t2" else denied) as server:
        with connect(tmp_path, server.url, user) as cluster:
            assert [cluster.get("v1", "Pod", "a") for _ in range(2)] == [POD, POD]
        assert [asked.headers["authorization"] for asked in server.asked] == ["Bearer t1", "Bearer t2", "Bearer t2"]


def test_a_plugin_is_asked_once_more_only(tmp_path: Path) -> None:
    user = plugin(tmp_path, "print(json.dumps({'status': {'token': f't{count}'}}))\n")
    with Server(in_turn(answer(401, b""))) as server, connect(tmp_path, server.url, user) as cluster:
        with pytest.raises(ClusterError, match=r'credentials of user "u" \(401\)'):
            cluster.get("v1", "Pod", "a")
        assert len(server.asked) == 2


def test_a_plugin_is_asked_again_when_its_credential_ends(tmp_path: Path) -> None:
    user = plugin(
        tmp_path,
        "print(json.dumps({'status': {'token': f't{count}', 'expirationTimestamp': '2020-01-01T00:00:00.123456789Z'}}))\n",
    )
    with Server(in_turn(answer(200, POD))) as server, connect(tmp_path, server.url, user) as cluster:
        cluster.get("v1", "Pod", "a")
        cluster.get("v1", "Pod", "a")
        assert server.asked[-1].headers["authorization"] == "Bearer t" + (tmp_path / "count").read_text()
    assert int((tmp_path / "count").read_text()) >= 2


def test_a_credential_of_a_few_seconds_is_used_until_it_ends_and_then_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = float(int(time.time()))
    monkeypatch.setattr("kubectl_nrl.cluster.credentials.time", SimpleNamespace(time=lambda: now))
    user = plugin(
        tmp_path,
        "import datetime\n"
        f"end = datetime.datetime.fromtimestamp({now} + 5 * count, datetime.timezone.utc)\n"
        "print(json.dumps({'status': {'token': f't{count}', 'expirationTimestamp': end.isoformat()}}))\n",
    )
    with Server(in_turn(answer(200, POD))) as server, connect(tmp_path, server.url, user) as cluster:
        for passed in (0, 4, 1, 4):
            now += passed
            cluster.get("v1", "Pod", "a")
        assert [asked.headers["authorization"] for asked in server.asked] == [f"Bearer t{n}" for n in (1, 1, 2, 2)]


def test_a_plugin_gets_the_cluster_it_asks_for_and_its_environment(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("the authority")
    user = plugin(
        tmp_path,
        "cluster = info['spec']['cluster']\n"
        "import base64\n"
        "ca = base64.b64decode(cluster['certificate-authority-data']).decode().replace(' ', '-')\n"
        "said = [ca, cluster['config']['realm'], os.environ['REALM'], str(info['spec']['interactive'])]\n"
        "print(json.dumps({'status': {'token': '.'.join(said)}}))\n",
    )
    user["exec"] |= {"provideClusterInfo": True, "interactiveMode": "Never", "env": [{"name": "REALM", "value": "x"}]}
    more = {
        "certificate-authority": "ca.pem",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"realm": "hpc"}}],
    }
    with Server(in_turn(answer(200, POD))) as server, connect(tmp_path, server.url, user, **more) as cluster:
        cluster.get("v1", "Pod", "a")
        assert server.asked[0].headers["authorization"] == "Bearer the-authority.hpc.x.False"


def test_a_plugin_that_must_ask_is_not_run_without_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    user = plugin(tmp_path, "print(json.dumps({'status': {'token': 't'}}))\n")
    user["exec"]["interactiveMode"] = "Always"
    expected = 'of user "u" must ask on a terminal, and there is none'
    with connect(tmp_path, "http://127.0.0.1:1", user) as cluster, pytest.raises(ClusterError, match=expected):
        cluster.get("v1", "Pod", "a")
    assert not (tmp_path / "count").exists()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("sys.exit(3)\n", "ended with 3"),
        ("print('sekret')\n", "printed no ExecCredential"),
        ("print(json.dumps({'status': {'sekret': 1}}))\n", "neither a token nor a certificate"),
    ],
)
def test_a_plugin_that_fails_is_named_without_its_words(tmp_path: Path, body: str, expected: str) -> None:
    user = plugin(tmp_path, body)
    with (
        connect(tmp_path, "http://127.0.0.1:1", user) as cluster,
        pytest.raises(ClusterError, match=expected) as caught,
    ):
        cluster.get("v1", "Pod", "a")
    assert "sekret" not in caught.value.message and caught.value.reason == "Unauthorized"


def test_a_plugin_that_is_not_there_shows_its_install_hint(tmp_path: Path) -> None:
    user = {"exec": {"command": "no-such-login", "installHint": "get it from the intranet"}}
    with connect(tmp_path, "http://127.0.0.1:1", user) as cluster, pytest.raises(ClusterError) as caught:
        cluster.get("v1", "Pod", "a")
    assert 'cannot run credential plugin "no-such-login"' in caught.value.message
    assert caught.value.hint == "get it from the intranet"


def test_a_token_file_is_read_again_after_a_401(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old\n")

    def reply(asked: Asked) -> bytes:
        if asked.headers["authorization"] == "Bearer new":
            return answer(200, POD)
        (tmp_path / "token").write_text("new\n")
        return answer(401, b"")

    with Server(reply) as server, connect(tmp_path, server.url, {"tokenFile": "token"}) as cluster:
        assert cluster.get("v1", "Pod", "a") == POD


def test_a_token_file_is_read_again_in_time_though_the_clock_was_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(time=lambda: 1e9, monotonic=lambda: 50.0)
    monkeypatch.setattr("kubectl_nrl.cluster.credentials.time", clock)
    (tmp_path / "token").write_text("old\n")
    with Server(in_turn(answer(200, POD))) as server, connect(tmp_path, server.url, {"tokenFile": "token"}) as cluster:
        cluster.get("v1", "Pod", "a")
        (tmp_path / "token").write_text("new\n")
        cluster.get("v1", "Pod", "a")
        clock.time, clock.monotonic = (lambda: 1e9 - 3600), (lambda: 111.0)
        cluster.get("v1", "Pod", "a")
        assert [asked.headers["authorization"] for asked in server.asked] == ["Bearer old", "Bearer old", "Bearer new"]


def test_impersonation_of_a_user_with_groups_and_extras(tmp_path: Path) -> None:
    user = {
        "token": "t",
        "as": "jane",
        "as-uid": "7",
        "as-groups": ["a", "b c"],
        "as-user-extra": {"dept/x": ["1", "2"]},
    }
    with Server(in_turn(answer(200, POD))) as server, connect(tmp_path, server.url, user) as cluster:
        cluster.get("v1", "Pod", "a")
        sent = [line for line in server.asked[0].lines if line.startswith("Impersonate")]
    assert sent == [
        "Impersonate-User: jane", "Impersonate-Uid: 7", "Impersonate-Group: a", "Impersonate-Group: b c",
        "Impersonate-Extra-dept%2Fx: 1", "Impersonate-Extra-dept%2Fx: 2",
    ]  # fmt: skip


def test_impersonation_and_passwords(tmp_path: Path) -> None:
    user = {"username": "n", "password": "p", "as": "admin", "as-groups": ["g"]}
    with Server(in_turn(answer(200, POD))) as server, connect(tmp_path, server.url, user) as cluster:
        cluster.get("v1", "Pod", "a")
        headers = server.asked[0].headers
    assert headers["authorization"] == "Basic bjpw"
    assert (headers["impersonate-user"], headers["impersonate-group"]) == ("admin", "g")


def test_the_trace_has_no_header_and_no_query(tmp_path: Path) -> None:
    lines: list[str] = []
    with Server(in_turn(answer(200, POD))) as server, connect(tmp_path, server.url) as cluster:
        cluster.client._trace = lines.append
        cluster.create(POD)
    assert len(lines) == 1 and lines[0].startswith("POST /api/v1/namespaces/team/pods 200 in ")


def test_loopback_is_never_captured_by_a_proxy_of_the_environment(tmp_path: Path) -> None:
    env = {"HTTP_PROXY": "http://127.0.0.1:1", "HTTPS_PROXY": "http://127.0.0.1:1", "http_proxy": "http://127.0.0.1:1"}
    with Server(in_turn(answer(200, POD))) as server, connect(tmp_path, server.url, env=env) as cluster:
        assert cluster.get("v1", "Pod", "a") == POD


@pytest.fixture
def tunnel() -> Iterator[tuple[str, list[str]]]:
    """An HTTP proxy that knows CONNECT, and what it was asked."""
    listener = socket.create_server(("127.0.0.1", 0))
    asked: list[str] = []
    threads: list[threading.Thread] = []

    def pump(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def serve() -> None:
        while True:
            try:
                inner, _ = listener.accept()
            except OSError:
                return
            head = inner.recv(65536).decode()
            asked.append(head)
            host, _, port = head.split(" ")[1].rpartition(":")
            outer = socket.create_connection(("127.0.0.1" if host == "api.example" else host, int(port)))
            inner.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            with inner, outer:
                back = threading.Thread(target=pump, args=(outer, inner))
                back.start()
                pump(inner, outer)
                back.join(60)

    threads.append(threading.Thread(target=serve))
    threads[0].start()
    yield f"127.0.0.1:{listener.getsockname()[1]}", asked
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    threads[0].join(60)


def test_proxy_url_is_used_and_its_password_is_not_shown(tmp_path: Path, tunnel: tuple[str, list[str]]) -> None:
    address, asked = tunnel
    with Server(in_turn(answer(200, POD))) as server:
        url = f"http://api.example:{server.port}"
        with connect(tmp_path, url, **{"proxy-url": f"http://me:p%40ss@{address}"}) as cluster:
            assert cluster.get("v1", "Pod", "a") == POD
    assert asked[0].startswith(f"CONNECT api.example:{server.port} HTTP/1.1\r\n")
    assert "Proxy-Authorization: Basic bWU6cEBzcw==" in asked[0]
    with (
        connect(tmp_path, url, **{"proxy-url": "http://me:sekret@127.0.0.1:1"}) as cluster,
        pytest.raises(ClusterError, match=r"through proxy http://127.0.0.1:1") as caught,
    ):
        cluster.get("v1", "Pod", "a")
    assert "sekret" not in caught.value.message


def test_a_body_that_cannot_be_unpacked(tmp_path: Path) -> None:
    broken = answer(200, b"\x1f\x8bnonsense", {"Content-Encoding": "gzip"})
    with (
        Server(in_turn(broken)) as server,
        connect(tmp_path, server.url) as cluster,
        pytest.raises(ClusterError, match="cannot be unpacked"),
    ):
        cluster.get("v1", "Pod", "a")


@pytest.mark.parametrize("url", ["https://a:port", "ftp://a", "https://", "https://[::1", "http://a:99999"])
def test_a_server_that_is_no_address(tmp_path: Path, url: str) -> None:
    with pytest.raises(ClusterError, match=r"is not an http\(s\) address"):
        connect(tmp_path, url)


@pytest.mark.parametrize("token", ["sekret\nX: y", "sekr\u00e9t", "sekret\0"])
def test_a_token_that_is_none(tmp_path: Path, token: str) -> None:
    with (
        connect(tmp_path, "http://127.0.0.1:1", {"token": token}) as cluster,
        pytest.raises(ClusterError, match="characters that no token has") as caught,
    ):
        cluster.get("v1", "Pod", "a")
    assert "sek" not in caught.value.message


def test_an_address_that_swallows_everything_does_not_hide_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(in_turn(answer(200, POD))) as server, socket.socket() as full:
        # A listener whose queue is full answers no further connection.
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        real = socket.getaddrinfo

        def both(host: str, port: int, **words: Any) -> list[Any]:
            return [(*real("127.0.0.1", 0, **words)[0][:4], full.getsockname()), real("127.0.0.1", port, **words)[0]]

        monkeypatch.setattr(sockets.socket, "getaddrinfo", both)
        monkeypatch.setattr(sockets, "NEXT_ADDRESS_SECONDS", 0.3)
        with connect(tmp_path, server.url) as cluster:
            assert cluster.get("v1", "Pod", "a") == POD
        for filler in fillers:
            filler.close()


def test_several_threads_at_once(tmp_path: Path) -> None:
    def reply(asked: Asked) -> bytes:
        time.sleep(0.01)
        return answer(200, {"path": asked.target})

    wrong: list[str] = []
    with Server(reply) as server, connect(tmp_path, server.url) as cluster:

        def work(number: int) -> None:
            for count in range(10):
                got = cluster.get("v1", "Pod", f"{number}-{count}")
                if got != {"path": f"/api/v1/namespaces/team/pods/{number}-{count}"}:
                    wrong.append(f"{number}-{count}")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({asked.connection for asked in server.asked}) <= 8 and len(server.asked) == 80
    assert wrong == []


def test_neither_kubernetes_nor_ray_is_imported() -> None:
    code = (
        "import sys; import kubectl_nrl.cluster, kubectl_nrl.ray_jobs, kubectl_nrl.facts\n"
        "kubectl_nrl.cluster.Cluster.connect\n"
        "print(sorted({'kubernetes', 'ray', 'requests', 'urllib3', 'yaml', 'email', 'asyncio'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_user_with_an_auth_provider_is_logged_in_by_the_kubernetes_package(tmp_path: Path) -> None:
    def part(data: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(data).encode()).decode().rstrip("=")

    token = f"{part({'alg': 'RS256'})}.{part({'exp': 4102444800})}.c2ln"
    settings = {"id-token": token, "client-id": "c", "idp-issuer-url": "https://idp.example"}
    user = {"auth-provider": {"name": "oidc", "config": settings}}
    with Server(in_turn(answer(200, POD))) as server, connect(tmp_path, server.url, user) as cluster:
        assert cluster.get("v1", "Pod", "a") == POD
        assert server.asked[0].headers["authorization"] == f"Bearer {token}"


def test_an_auth_provider_that_fails_says_what_to_do_and_no_more(tmp_path: Path) -> None:
    user = {"auth-provider": {"name": "oidc", "config": {"id-token": "sekret.x.y"}}}
    with (
        connect(tmp_path, "http://127.0.0.1:1", user) as cluster,
        pytest.raises(ClusterError, match='cannot log in user "u" with its auth-provider') as caught,
    ):
        cluster.get("v1", "Pod", "a")
    assert "sekret" not in caught.value.message and "kubectl" in caught.value.hint
