"""`cluster dashboard` of a Ray on this machine, which has its port already."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from dashboard_case import Dashboard
from scripted_server import Server

from kubectl_nrl.commands import cluster_dashboard
from kubectl_nrl.local import LocalRecord, Role, record
from kubectl_nrl.local.finding import clusters_home
from kubectl_nrl.testing import Outcome, Project

TOKEN = "very-secret-token"


class Here:
    """A long-lived cluster `c` of this machine; `looks` as in `World` of test_cluster_dashboard.py."""

    def __init__(self, server: Server, dashboard: Dashboard) -> None:
        self.server, self.dashboard = server, dashboard
        self.looks: list[Callable[[], None]] = []
        self.project = Project({"recipe.yaml": {"cluster": {"num_nodes": 1}}})
        self.folder = clusters_home(self.project.env) / "c"
        self.folder.mkdir(parents=True)
        session = self.project.root / "session"
        session.mkdir()
        (session / "token").write_text(TOKEN)
        record.write(
            LocalRecord(
                "c", "cluster", state="READY", session=str(session), folder=self.folder,
                recipe=str((self.project.path / "recipe.yaml").resolve()),
                roles={"training": Role("127.0.0.1:1", server.url, {})},
            )
        )  # fmt: skip
        self.held = open(self.folder / record.LOCK, "w")  # noqa: SIM115  # held as its supervisor would
        fcntl.flock(self.held, fcntl.LOCK_EX)

    def down(self) -> None:
        self.held.close()

    def next_look(self) -> None:
        if not self.looks:
            raise KeyboardInterrupt
        self.looks.pop(0)()

    def open(self, words: str = "c") -> Outcome:
        return self.project.run(f"cluster dashboard {words}")


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    dashboard = Dashboard(token=TOKEN)
    with Server(dashboard) as server:
        here = Here(server, dashboard)
        monkeypatch.setattr(cluster_dashboard, "between_looks", here.next_look)
        yield here
        here.down()


@pytest.mark.parametrize("words", ["c", "raycluster/c", "recipe.yaml"])
def test_its_own_port_is_the_address(here: Here, words: str) -> None:
    result = here.open(f"{words} -o json").ok().result("cluster_dashboard")
    assert result["url"] == here.server.url
    assert (result["namespace"], result["pod"], result["rayVersion"]) == ("", "", "2.52.0")


def test_another_port_leads_to_it(here: Here) -> None:
    result = here.open("c --port 0 -o json").ok().json
    assert result["url"] != here.server.url
    assert result["rayVersion"] == "2.52.0"


def test_the_token_is_told_how_to_get_and_never_shown(here: Here) -> None:
    done = here.open("c -v").ok()
    assert f"cat {here.project.root}/session/token" in done.out
    assert TOKEN not in done.out + done.err


def test_a_blank_page_is_repaired_in_the_ray_of_this_program(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = tmp_path / "lib" / "ray" / "dashboard" / "client" / "build"
    build.mkdir(parents=True)
    (tmp_path / "main.js").write_text("script")
    (build / "main.js").symlink_to(tmp_path / "main.js")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: _Spec([str(tmp_path / "lib" / "ray")]))
    here.dashboard.blank()
    # The page of this test does not read the files: only what was asked for, and its effect, is looked at.
    done = here.open()
    assert not (build / "main.js").is_symlink()
    assert "1 symlinks were replaced by copies, and it did not help" in done.err


class _Spec:
    def __init__(self, places: list[str]) -> None:
        self.submodule_search_locations = places


def test_a_cluster_that_goes_down_ends_it(here: Here) -> None:
    here.looks = [here.down]
    done = here.open()
    assert done.exit == 3
    assert "cluster c of this machine is down" in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [("c --role gym", 'has no role "gym"'), ("nosuch --local", 'no Ray of "nosuch" is up on this machine')],
)
def test_what_is_not_up_here_is_said(here: Here, words: str, said: str) -> None:
    done = here.open(words)
    assert done.exit == 2
    assert said in done.err


def test_a_cluster_that_is_down_is_not_waited_for(here: Here) -> None:
    here.down()
    done = here.open()
    assert done.exit == 2
    assert 'no Ray of "c" is up on this machine' in done.err
