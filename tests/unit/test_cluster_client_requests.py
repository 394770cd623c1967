"""Requests against a server that misbehaves: what is tried again, what never is, and what a person is told."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from scripted_server import POD, Asked, Server, answer, connect, in_turn, refused

from kubectl_nrl.cluster import client, pool, sockets
from kubectl_nrl.errors import ClusterError


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PAUSES", (0.01, 0.01))


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
        assert [cluster.get("v1", "Pod", "a") for _ in range(2)] == [POD] * 2
        monkeypatch.setattr(pool, "REUSED_SILENCE", 60.0)  # a slow answer of the next one is none of these
        assert cluster.get("v1", "Pod", "a") == POD
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
    with socket.socket() as taken:  # so that nobody else gets the port meanwhile
        taken.bind(("127.0.0.1", 0))
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


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_what_no_object_is_called_is_neither_read_nor_deleted(tmp_path: Path, name: str) -> None:
    """A DELETE of the URL that is left would delete every object of the kind."""
    with Server(in_turn(answer(200, POD))) as server, connect(tmp_path, server.url) as cluster:
        assert cluster.get("v1", "Pod", name) is None
        assert cluster.metadata("v1", "Pod", name) is None
        assert cluster.delete("v1", "Pod", name) is False
    assert server.asked == []


def test_gzip_is_understood(tmp_path: Path) -> None:
    import gzip

    packed = answer(200, gzip.compress(json.dumps(POD).encode()), {"Content-Encoding": "gzip"})
    with Server(in_turn(packed)) as server, connect(tmp_path, server.url) as cluster:
        assert cluster.get("v1", "Pod", "a") == POD


def test_the_trace_has_no_header_and_no_query(tmp_path: Path) -> None:
    lines: list[str] = []
    with Server(in_turn(answer(200, POD))) as server, connect(tmp_path, server.url) as cluster:
        cluster.client._trace = lines.append
        cluster.create(POD)
    assert len(lines) == 1 and lines[0].startswith("POST /api/v1/namespaces/team/pods 200 in ")


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
