"""The repair of a dashboard whose files are symlinks: copies in their places, nothing else touched, as often as one likes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kubectl_nrl.dashboard import Links, copy_links, repair
from kubectl_nrl.errors import ClusterError


@pytest.fixture
def build(tmp_path: Path) -> Path:
    """A build directory as uv links it, beside uv's cache."""
    build, cache = tmp_path / "ray" / "build", tmp_path / "cache"
    (build / "static" / "js").mkdir(parents=True)
    (cache / "media").mkdir(parents=True)
    (cache / "main.js").write_text("script")
    (cache / "main.js").chmod(0o640)
    (cache / "media" / "logo.svg").write_text("<svg/>")
    (build / "static" / "js" / "main.js").symlink_to(cache / "main.js")
    (build / "static" / "media").symlink_to(cache / "media")
    (build / "index.html").write_text("page")
    (build / "static" / "same.js").symlink_to("js/../../index.html")
    return build


def test_links_that_lead_out_become_copies_and_the_rest_stays(build: Path) -> None:
    done = copy_links(str(build), True)
    assert (done["links"], done["copied"], done["problem"]) == (2, 2, "")
    script = build / "static" / "js" / "main.js"
    assert (script.is_symlink(), script.read_text(), script.stat().st_mode & 0o777) == (False, "script", 0o640)
    assert not (build / "static" / "media").is_symlink()
    assert (build / "static" / "media" / "logo.svg").read_text() == "<svg/>"
    assert (build / "static" / "same.js").is_symlink()
    assert (build.parents[1] / "cache" / "main.js").read_text() == "script"
    assert not list(build.rglob("*.nrl-copy"))


def test_done_again_it_finds_nothing_to_do(build: Path) -> None:
    copy_links(str(build), True)
    assert copy_links(str(build), True)["links"] == 0


def test_counting_changes_nothing(build: Path) -> None:
    assert (copy_links(str(build), False)["links"], copy_links(str(build), False)["copied"]) == (2, 0)
    assert (build / "static" / "js" / "main.js").is_symlink()


def test_a_copy_that_was_cut_short_is_no_obstacle(build: Path) -> None:
    (build / "static" / "js" / "main.js.nrl-copy").write_text("scr")
    assert copy_links(str(build), True)["copied"] == 2
    assert (build / "static" / "js" / "main.js").read_text() == "script"


def test_a_link_to_nothing_is_said_and_no_draft_is_left(build: Path) -> None:
    (build.parents[1] / "cache" / "main.js").unlink()
    done = copy_links(str(build), True)
    assert "main.js" in str(done["problem"]) and "No such file" in str(done["problem"])
    assert not list(build.rglob("*.nrl-copy"))


@pytest.mark.parametrize("errno_name", ["EROFS", "ENOSPC"])
def test_a_file_system_that_takes_no_copy_is_said(
    build: Path, monkeypatch: pytest.MonkeyPatch, errno_name: str
) -> None:
    import errno

    number = getattr(errno, errno_name)

    def refuse(source: str, target: str) -> None:
        Path(target).write_text("s")
        raise OSError(number, os.strerror(number), target)

    monkeypatch.setattr("shutil.copy", refuse)
    done = copy_links(str(build), True)
    assert os.strerror(number) in str(done["problem"])
    assert (build / "static" / "js" / "main.js").is_symlink()
    assert not list(build.rglob("*.nrl-copy"))


def test_two_repairs_at_once_do_not_fail_each_other(build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace

    def overtaken(source: str, target: str) -> None:
        replace(source, target)
        raise FileNotFoundError(2, "No such file or directory", source)

    monkeypatch.setattr("os.replace", overtaken)
    assert copy_links(str(build), True)["problem"] == ""
    assert copy_links(str(build), True)["links"] == 0


def test_a_directory_that_is_not_there_has_no_links(tmp_path: Path) -> None:
    assert copy_links(str(tmp_path / "none"), True)["links"] == 0


class Head:
    """Runs the command's Python part here, as the shell would on a head whose dashboard is in `build`."""

    def __init__(self, build: Path) -> None:
        self.build = build

    def __call__(self, command: Sequence[str]) -> tuple[int, bytes, bytes]:
        shell, flag, _script, _name, source, mode = command
        assert (shell, flag) == ("sh", "-c")
        done = subprocess.run(
            [sys.executable, "-I", "-c", source, mode, str(self.build)], capture_output=True, check=False
        )
        return done.returncode, done.stdout, done.stderr


def test_the_head_runs_the_same_code_by_itself(build: Path) -> None:
    head = Head(build)
    assert repair(head, change=False) == Links(str(build), 2, 0, "")
    assert repair(head, change=True) == Links(str(build), 2, 2, "")
    assert repair(head, change=True) == Links(str(build), 0, 0, "")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((3, b"", b"no dashboard of Ray runs in this container\n"), "no dashboard of Ray runs in this container"),
        ((127, b"", b""), "exit 127"),
        ((0, b"motd\n", b""), "exit 0"),
        ((0, json.dumps({"folder": "x"}).encode(), b""), "exit 0"),
    ],
)
def test_a_head_that_answers_otherwise_is_an_error_of_one_line(answer: Any, said: str) -> None:
    with pytest.raises(ClusterError, match=said) as raised:
        repair(lambda command: answer, change=True)
    assert "\n" not in raised.value.message


def test_the_shell_does_not_take_itself_for_the_dashboard() -> None:
    """Its command line holds the script and the source: neither may look like the dashboard's."""
    seen: list[str] = []

    def run(command: Sequence[str]) -> tuple[int, bytes, bytes]:
        seen.extend(command)
        return 3, b"", b"no"

    with pytest.raises(ClusterError):
        repair(run, change=True)
    assert not any("/ray/dashboard/dashboard.py" in line for word in seen for line in word.splitlines())
