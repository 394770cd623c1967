"""How a user is logged in to a server: credential plugins, token files, passwords, impersonation; and when it is done again."""

from __future__ import annotations

import base64
import io
import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scripted_server import POD, Asked, Server, answer, connect, in_turn, refused

from kubectl_nrl.cluster import client
from kubectl_nrl.errors import ClusterError


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PAUSES", (0.01, 0.01))


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


@pytest.mark.parametrize("token", ["sekret\nX: y", "sekr\u00e9t", "sekret\0"])
def test_a_token_that_is_none(tmp_path: Path, token: str) -> None:
    with (
        connect(tmp_path, "http://127.0.0.1:1", {"token": token}) as cluster,
        pytest.raises(ClusterError, match="characters that no token has") as caught,
    ):
        cluster.get("v1", "Pod", "a")
    assert "sek" not in caught.value.message


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
