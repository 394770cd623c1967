"""The user's name is the one Secrets and directories carry already; only what is no DNS label is changed further."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from config_project import FUZZ, ConfigFiles
from hypothesis import given
from hypothesis import strategies as st

from kubectl_nrl.config import current_user
from kubectl_nrl.config.user import label

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@pytest.mark.parametrize(
    ("login", "name"),
    [
        ("jo", "jo"),
        ("j.doe", "j-doe"),
        ("j_doe", "j-doe"),
        ("J_Doe", "j-doe"),
        ("a--b", "a--b"),
        ("9lives", "9lives"),
        ("x" * 63, "x" * 63),
    ],
)
def test_a_login_name_is_mapped_as_secrets_are_named(login: str, name: str) -> None:
    user = current_user({"USER": login})
    assert (user.name, user.raw) == (name, login)


@pytest.mark.parametrize(
    ("login", "beginning"),
    [
        ("CORP\\Jo", "corp-jo-"),
        ("Jürgen", "jurgen-"),
        ("jo@corp", "jo-corp-"),
        ("_jo_", "jo-"),
        ("日本", "user-"),
        ("x" * 64, "x" * 50 + "-"),
        ("a b", "a-b-"),
    ],
)
def test_what_is_no_label_then_becomes_one_that_nobody_else_gets(login: str, beginning: str) -> None:
    user = current_user({"USER": login})
    assert re.fullmatch(re.escape(beginning) + "[0-9a-f]{6}", user.name)
    assert user.raw == login


def test_two_names_that_map_alike_differ_in_the_raw_name() -> None:
    one, two = current_user({"USER": "j.doe"}), current_user({"USER": "j_doe"})
    assert one.name == two.name
    assert one.raw != two.raw


def test_two_names_that_are_no_labels_never_meet() -> None:
    assert label("CORP\\jo") != label("corp@jo")


def test_the_variables_that_name_a_user_come_first() -> None:
    env = {"USER": "root", "KUBECTL_NRL_USER": "b", "NRL_K8S_USER": "a"}
    assert current_user(env).name == "a"
    assert current_user({**env, "NRL_K8S_USER": " "}).name == "b"
    assert current_user({"LOGNAME": "l", "USER": "u"}).name == "l"


@pytest.mark.parametrize("login", ["root", "ubuntu", "jovyan", "Ubuntu"])
def test_a_name_that_many_share_draws_a_warning_with_the_way_out(tmp_path: Path, login: str) -> None:
    files = ConfigFiles(tmp_path)
    files.env = {"USER": login}
    (warning,) = files.load().problems
    assert warning.severity == "warning"
    assert login in warning.message
    assert warning.hint == "export KUBECTL_NRL_USER=your-name"
    files.env = {"USER": login, "KUBECTL_NRL_USER": "root"}
    assert files.load().problems == ()


def test_a_user_the_system_does_not_know_has_a_name_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd

    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr("os.getuid", lambda: 4711)
    user = current_user({})
    assert (user.name, user.generic) == ("uid-4711", True)


def test_without_variables_the_system_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd
    from types import SimpleNamespace

    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_name="From.Passwd"))
    assert current_user({}).name == "from-passwd"


@FUZZ
@given(st.text(max_size=100))
def test_every_name_becomes_a_label(raw: str) -> None:
    name = label(raw)
    assert LABEL.fullmatch(name)
    assert len(name) <= 63
