"""When a dashboard counts as working: what its page loads, what is waited for, and what waiting does not mend."""

from __future__ import annotations

import time

import pytest
from dashboard_case import PAGE, Dashboard
from scripted_server import Server

from kubectl_nrl.dashboard import Seen, Trouble, asker, assets_of, can_show, look, until_decided
from kubectl_nrl.errors import ClusterError, NrlError

WORKS = Seen(200, ("/a.js",), (), 200, "2.52.0")
STARTS = Seen(503, (), (), 503)


def seen(dashboard: Dashboard, token: str = "") -> Seen:
    with Server(dashboard) as server:
        ask, close = asker(server.port, {"x-ray-authorization": f"Bearer {token}"} if token else {})
        try:
            return look(ask)
        finally:
            close()


def test_scripts_and_styles_of_the_page_count_and_nothing_else() -> None:
    assert assets_of(PAGE) == ("/static/js/main.js", "/static/css/main.css")


@pytest.mark.parametrize(
    ("html", "assets"),
    [
        ('<script src="/a.js?v=1"></script><script src="a.js?v=1"></script>', ("/a.js?v=1",)),
        ('<script src="https://cdn.example/x.js"></script><script>1</script>', ()),
        ('<script src="//cdn.example/x.js"></script>', ()),
        ('<link rel="modulepreload" href="m.js"><LINK REL="Stylesheet" HREF="s.css">', ("/m.js", "/s.css")),
        ('<script src="broken', ()),
        ("", ()),
    ],
)
def test_only_what_comes_from_the_dashboard_itself_is_asked_for(html: str, assets: tuple[str, ...]) -> None:
    assert assets_of(html) == assets


def test_a_dashboard_works_when_page_files_and_version_answer() -> None:
    found = seen(Dashboard())
    assert found.works
    assert found.ray == "2.52.0"


def test_a_token_that_is_not_known_does_not_hide_that_the_page_works() -> None:
    without, with_it = seen(Dashboard(token="s3cret")), seen(Dashboard(token="s3cret"), "s3cret")
    assert (without.works, without.version, without.ray) == (True, 401, "")
    assert (with_it.works, with_it.version, with_it.ray) == (True, 200, "2.52.0")


@pytest.mark.parametrize("status", [403, 404])
def test_a_page_whose_files_are_refused_is_blank(status: int) -> None:
    found = seen(Dashboard(faults={"/static/js/main.js": status}))
    assert found.blank and not found.works
    assert found.refused == (("/static/js/main.js", status),)


@pytest.mark.parametrize("faults", [{"/static/js/main.js": 500}, {"/api/version": 503}, {"/": 502}])
def test_a_server_error_is_waited_for_and_never_repaired(faults: dict[str, int]) -> None:
    found = seen(Dashboard(faults=faults))
    assert not (found.works or found.blank or found.missing)
    assert found.words


@pytest.mark.parametrize("dashboard", [Dashboard(faults={"/": 404}), Dashboard(page="<html>hello</html>")])
def test_ray_without_a_page_is_told_from_one_that_starts(dashboard: Dashboard) -> None:
    assert seen(dashboard).missing


def test_what_is_waited_for_is_said_once_per_change() -> None:
    answers = iter([ConnectionResetError("reset"), STARTS, STARTS, WORKS])
    said: list[str] = []

    def see() -> Seen:
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    assert until_decided(see, Trouble(), said.append, time.monotonic() + 60, lambda seconds: None) is WORKS
    assert said == ["waiting for the dashboard: reset", "waiting for the dashboard: /api/version answers 503"]


def test_the_reason_behind_the_local_port_is_said_instead_of_its_503() -> None:
    trouble, said = Trouble(), []
    answers = iter([STARTS, WORKS])
    trouble.note(ClusterError("the head starts", reason="NoHead"))
    until_decided(lambda: next(answers), trouble, said.append, time.monotonic() + 60, lambda seconds: None)
    assert said == ["waiting for the dashboard: the head starts"]


@pytest.mark.parametrize("error", [ClusterError("no", status=403), ClusterError("no", reason="Gone")])
def test_what_can_never_be_reached_is_not_waited_for(error: ClusterError) -> None:
    trouble = Trouble()
    trouble.note(error)
    with pytest.raises(ClusterError) as raised:
        until_decided(lambda: STARTS, trouble, lambda text: None, time.monotonic() + 60, lambda seconds: None)
    assert raised.value is error


def test_the_end_of_patience_names_what_was_missing() -> None:
    with pytest.raises(NrlError, match="api/version answers 503") as raised:
        until_decided(lambda: STARTS, Trouble(), lambda text: None, time.monotonic(), lambda seconds: None)
    assert raised.value.exit_code == 4


@pytest.mark.parametrize(
    ("env", "platform", "shows"),
    [
        ({}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({"DISPLAY": "localhost:10", "SSH_CONNECTION": "a 1 b 2"}, "linux", False),
        ({}, "darwin", True),
        ({"SSH_TTY": "/dev/ttys1"}, "darwin", False),
        ({"BROWSER": "firefox"}, "linux", True),
    ],
)
def test_a_browser_is_opened_only_where_the_person_sees_it(env: dict[str, str], platform: str, shows: bool) -> None:
    assert can_show(env, platform) is shows
