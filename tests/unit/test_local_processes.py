"""Processes of a local run are found by what marks them, and nobody else's are touched."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from waiting import wait_until

from kubectl_nrl.local import processes

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="what /proc tells")

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    children: list[subprocess.Popen[bytes]] = []
    yield children
    for child in children:
        child.kill()
        child.wait()
        if child.stdout:
            child.stdout.close()


def start(started: list[subprocess.Popen[bytes]], *words: str, **how: object) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(words or ("sleep", "600"), **how)  # type: ignore[call-overload]
    started.append(child)
    return child  # type: ignore[no-any-return]


def until(found: Callable[[], object], wanted: set[int]) -> None:
    wait_until(lambda: found() == wanted, lambda: f"{wanted}, found {found()}")


def test_a_run_is_found_by_its_mark_and_not_by_its_command_line(
    started: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    mark = str(tmp_path / "runs" / "a")
    mine = start(started, env={processes.MARK: mark})
    start(started, env={processes.MARK: mark + "b"})  # an id that begins with this one
    start(started, env={})
    until(lambda: processes.of_run(mark, ""), {mine.pid})


def test_a_process_without_an_environment_is_found_by_a_file_of_the_session(
    started: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    session = tmp_path / "session"
    session.mkdir()
    with open(session / "worker.out", "wb") as out:
        worker = start(started, env={}, stdout=out)
    with open(tmp_path / "session-of-another.out", "wb") as out:
        start(started, env={}, stdout=out)
    until(lambda: processes.of_run("no mark", str(session)), {worker.pid})


def test_the_caller_itself_is_never_found(started: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
    with open(tmp_path / "open", "wb"):
        assert processes.of_run("no mark", str(tmp_path)) == set()


def test_what_ignores_a_request_is_killed(started: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
    mark = str(tmp_path)
    env = {processes.MARK: mark}
    stubborn = start(started, sys.executable, "-c", STUBBORN, env=env, stdout=subprocess.PIPE)
    assert stubborn.stdout is not None
    stubborn.stdout.readline()
    willing = start(started, env=env)
    until(lambda: processes.of_run(mark, ""), {stubborn.pid, willing.pid})
    assert processes.end(lambda: processes.of_run(mark, ""), grace=0.3) == set()
    assert (stubborn.wait(), willing.wait()) == (-9, -15)


def test_what_cannot_be_ended_is_named() -> None:
    assert processes.end(lambda: {2**22 + 1}, grace=0.05, within=0.1) == {2**22 + 1}


def test_descendants_are_found_through_all_generations(started: list[subprocess.Popen[bytes]]) -> None:
    before = processes.descendants(os.getpid())
    start(started, "sh", "-c", "sh -c 'sleep 600 & wait' & wait", start_new_session=True)
    wait_until(lambda: len(processes.descendants(os.getpid()) - before) >= 3, "three processes")
    new = processes.descendants(os.getpid()) - before
    assert len(new) == 3
    processes.end(lambda: new & processes.descendants(os.getpid()), grace=0.1)
