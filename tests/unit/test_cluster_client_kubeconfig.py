"""Which cluster, namespace and user: the choice that kubectl would make."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubectl_nrl.cluster import kubeconfig
from kubectl_nrl.cluster.kubeconfig import choose
from kubectl_nrl.errors import ClusterError

PEM = "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n"


def entry(name: str, **more: Any) -> dict[str, Any]:
    return {
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443", **more}}],
        "users": [{"name": f"{name}-user", "user": {"token": f"token-of-{name}"}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": f"{name}-user", "namespace": f"{name}-ns"}}],
    }


def write(path: Path, data: object) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data if isinstance(data, str) else yaml.safe_dump(data))
    return str(path)


def test_the_current_context_of_the_default_file(tmp_path: Path) -> None:
    write(tmp_path / ".kube/config", {**entry("a"), "current-context": "a"})
    access = choose(None, None, {"HOME": str(tmp_path)})
    assert (access.server, access.namespace, access.user_name, access.context) == (
        "https://a:6443",
        "a-ns",
        "a-user",
        "a",
    )


def test_a_context_by_name_and_a_file_by_flag(tmp_path: Path) -> None:
    both = {key: entry("a")[key] + entry("b")[key] for key in entry("a")}
    path = write(tmp_path / "c", {**both, "current-context": "a"})
    assert choose(path, "b", {"KUBECONFIG": "/nowhere"}).server == "https://b:6443"


def test_several_files_are_merged_and_the_first_to_say_a_thing_wins(tmp_path: Path) -> None:
    first = write(tmp_path / "1", entry("a"))
    second = write(tmp_path / "2", {**entry("b"), "current-context": "b"})
    third = write(tmp_path / "3", {**entry("b", server="https://other"), "current-context": "a"})
    env = {"KUBECONFIG": os.pathsep.join([first, "", str(tmp_path / "missing"), second, third])}
    assert choose(None, None, env).server == "https://b:6443"
    assert choose(None, "a", env).user["token"] == "token-of-a"


def test_paths_are_relative_to_their_file(tmp_path: Path) -> None:
    data = entry("a", **{"certificate-authority": "pki/ca.crt"})
    data["users"][0]["user"] = {"tokenFile": "t", "exec": {"command": "./login", "args": []}}
    path = write(tmp_path / "deep/c", {**data, "current-context": "a"})
    write(tmp_path / "deep/pki/ca.crt", PEM)
    access = choose(path, None, {})
    assert access.ca == PEM
    assert access.user["tokenFile"] == str(tmp_path / "deep/t")
    assert Path(access.user["exec"]["command"]) == tmp_path / "deep/login"


def test_inline_data_wins_over_the_path(tmp_path: Path) -> None:
    more = {"certificate-authority-data": base64.b64encode(PEM.encode()).decode(), "certificate-authority": "/none"}
    access = choose(write(tmp_path / "c", {**entry("a", **more), "current-context": "a"}), None, {})
    assert access.ca == PEM


def test_settings_of_a_cluster(tmp_path: Path) -> None:
    more = {"tls-server-name": "real", "proxy-url": "http://p:1", "insecure-skip-tls-verify": True}
    access = choose(write(tmp_path / "c", {**entry("a", **more), "current-context": "a"}), None, {})
    assert (access.server_name, access.proxy, access.insecure) == ("real", "http://p:1", True)


@pytest.mark.parametrize(
    ("data", "context", "expected"),
    [
        ({}, None, "no Kubernetes configuration"),
        (entry("a"), None, "has no current context"),
        ({**entry("prod"), "current-context": "prod"}, "prdo", 'no context "prdo" .*did you mean prod?'),
        ({**entry("a"), "clusters": [], "current-context": "a"}, None, 'no cluster "a" which context "a" names'),
        ({**entry("a"), "users": None, "current-context": "a"}, None, 'no user "a-user" which context'),
        ({**entry("a", server=""), "current-context": "a"}, None, "has no server"),
        ("- a", None, "is not a mapping"),
        ("token: [sekret", None, "is not YAML"),
        (
            {**entry("a", **{"certificate-authority": "none"}), "current-context": "a"},
            None,
            "cannot read certificate-auth",
        ),
        (
            {**entry("a", **{"certificate-authority-data": "/w=="}), "current-context": "a"},
            None,
            "is not base64 of a PEM",
        ),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, data: object, context: str | None, expected: str) -> None:
    path = write(tmp_path / "c", data)
    with pytest.raises(ClusterError, match=expected) as caught:
        choose(path, context, {})
    assert caught.value.exit_code == 3 and "sekret" not in caught.value.message


def test_a_file_that_is_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="cannot read kubeconfig"):
        choose(str(tmp_path / "none"), None, {})


def test_inside_a_pod_only_without_a_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("token", "t"), ("namespace", "mine\n"), ("ca.crt", PEM)):
        write(tmp_path / "sa" / name, text)
    monkeypatch.setattr(kubeconfig._in_cluster, "__defaults__", (tmp_path / "sa",))
    env = {"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    access = choose(None, None, env)
    assert (access.server, access.namespace, access.ca) == ("https://[fd00::1]:443", "mine", PEM)
    assert access.user == {"tokenFile": str(tmp_path / "sa/token")}
    write(tmp_path / ".kube/config", {**entry("a"), "current-context": "a"})
    assert choose(None, None, env).context == "a"
