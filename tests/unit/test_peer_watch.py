"""The watcher beside a driver, as the launch script that real shells run, with sockets of this machine for the other roles' heads."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from waiting import PATIENCE, wait_until

from kubectl_nrl import peer_watch, script

#: Seconds that a peer must be gone in these tests.
GONE = "1.2"
#: Prints its pid, then runs until it is ended; a child that ignores SIGTERM is below it.
DRIVER = "sh -c 'trap \"\" TERM; echo child $$; exec sleep 300' & echo driver $$; wait; sleep 300"


class Head:
    """A port that takes connections while it is open, and is nobody else's when it is closed."""

    def __init__(self) -> None:
        self._kept = self._bound(0)
        self.port = self._kept.getsockname()[1]
        self._socket: socket.socket | None = self._bound(self.port)
        self._socket.listen(64)

    @staticmethod
    def _bound(port: int) -> socket.socket:
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("127.0.0.1", port))
        return made

    def met(self) -> None:
        """Wait until somebody has connected."""
        assert self._socket is not None
        self._socket.settimeout(PATIENCE)
        self._socket.accept()[0].close()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def end(self) -> None:
        self.close()
        self._kept.close()

    @property
    def where(self) -> str:
        return f"127.0.0.1:{self.port}"


class Running:
    """A launch script that runs, in a process group of its own as Ray gives it."""

    def __init__(self, directory: Path, entrypoint: str, peers: dict[str, str], log_file: str | None = None) -> None:
        text = script.launch_script(entrypoint, run_id="r", recipe="a: 1\n", peers=peers, log_file=log_file)
        self.directory, self.out = directory, directory / "out"
        with self.out.open("wb") as out:
            self.process = subprocess.Popen(
                ["sh", "-c", script.encoded_line("r", text)], cwd=directory, stdin=subprocess.DEVNULL, stdout=out,
                stderr=subprocess.STDOUT, start_new_session=True,
                env={"PATH": os.environ["PATH"], "TMPDIR": str(directory), "NRL_PEER_SECONDS": GONE},
            )  # fmt: skip

    def end(self) -> int:
        return self.process.wait(PATIENCE)

    def said(self) -> str:
        return self.out.read_text()

    def watched(self) -> bool:
        """Whether the watcher runs."""
        return any("peer_watch.py" in line for line in self.group().values())

    def group(self) -> dict[int, str]:
        """Command lines of the processes that are left of it, by their ids."""
        found = {}
        for pid, (_, group) in peer_watch.processes().items():
            with contextlib.suppress(OSError):
                if group == self.process.pid and (line := Path(f"/proc/{pid}/cmdline").read_text()):
                    found[pid] = line.replace("\0", " ")
        return found

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def head() -> Iterator[Head]:
    made = Head()
    yield made
    made.end()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    made: list[Running] = []

    def run(entrypoint: str, peers: dict[str, str], **words: str) -> Running:
        made.append(Running(tmp_path, entrypoint, peers, **words))
        return made[-1]

    yield run
    for running in made:
        running.kill()


def test_a_driver_whose_peer_goes_is_ended_with_all_its_processes_and_the_role_is_named(
    start: Callable[..., Running], head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = "log/driver.log"
    running = start(DRIVER, {"generation": head.where}, log_file=log)
    wait_until(lambda: "driver" in running.said() and "child" in running.said())
    head.met()
    head.close()
    assert running.end() == script.PEER_GONE
    assert "generation (127.0.0.1) is gone for" in running.said()
    assert "generation (127.0.0.1) is gone for" in (running.directory / log).read_text()
    wait_until(lambda: running.group() == {})  # it does not wait for what it has killed
    assert sorted(path.name for path in running.directory.glob("nrl-*")) == []


@pytest.mark.parametrize("status", [0, 3])
def test_a_driver_that_ends_by_itself_keeps_its_status_and_leaves_no_watcher(
    start: Callable[..., Running], head: Head, status: int
) -> None:
    running = start(f"echo out; exit {status}", {"gym": head.where})
    assert running.end() == status
    assert (running.said(), running.group()) == ("out\n", {})


def test_a_failing_pipe_still_fails(start: Callable[..., Running], head: Head) -> None:
    assert start("false | true", {"gym": head.where}).end() == 1


def test_a_peer_that_never_answered_is_told_once_and_ends_nothing(start: Callable[..., Running], head: Head) -> None:
    head.close()
    running = start("until [ -f go ]; do sleep 0.05; done", {"gym": head.where})
    wait_until(lambda: "is not watched" in running.said())
    (running.directory / "go").touch()
    assert running.end() == 0
    assert running.said().count("is not watched") == 1


def test_a_stopped_job_leaves_nothing(start: Callable[..., Running], head: Head) -> None:
    """As Ray stops one: SIGTERM to the group."""
    running = start("echo here; exec sleep 300", {"gym": head.where})
    wait_until(lambda: "here" in running.said() and running.watched())
    os.killpg(running.process.pid, signal.SIGTERM)
    assert running.end() != 0
    wait_until(lambda: running.group() == {})


def test_a_launch_script_that_is_killed_takes_the_watcher_with_it(start: Callable[..., Running], head: Head) -> None:
    running = start("echo here; exec sleep 300", {"gym": head.where})
    wait_until(lambda: "here" in running.said() and running.watched())
    (watcher,) = (pid for pid, line in running.group().items() if "peer_watch.py" in line)
    script_pid, _ = peer_watch.processes()[watcher]
    os.kill(script_pid, signal.SIGKILL)
    wait_until(lambda: not running.watched())
    assert "is gone for" not in running.said()
    wait_until(lambda: any("sleep" in line for line in running.group().values()))  # the driver's end is Ray's to see to


def looked(peer: peer_watch.Peer, *looks: tuple[bool | None, float]) -> list[bool]:
    return [peer.gone(answers, at) for answers, at in looks]


def peer() -> peer_watch.Peer:
    return peer_watch.Peer("gym=gym-head-svc.ns.svc:6379,8265")


def test_a_minute_without_a_break_is_gone() -> None:
    looks = [(True, 0.0), *((False, 5.0 * n) for n in range(1, 14))]
    assert looked(peer(), *looks) == [False] * 13 + [True]


def test_a_restart_of_less_than_a_minute_is_not() -> None:
    looks = [(True, 0.0), *((False, 5.0 * n) for n in range(1, 12)), (True, 60.0), (False, 65.0), (False, 120.0)]
    assert not any(looked(peer(), *looks))


def test_a_name_server_that_does_not_answer_says_nothing() -> None:
    looks = [(True, 0.0), *((None, 5.0 * n) for n in range(1, 100))]
    assert not any(looked(peer(), *looks))


def test_a_process_that_slept_for_a_minute_takes_no_one_for_gone() -> None:
    assert not any(looked(peer(), (True, 0.0), (False, 5.0), (False, 500.0)))


@pytest.mark.parametrize(
    ("number", "cluster_answers", "told"),
    [(socket.EAI_NONAME, True, False), (socket.EAI_AGAIN, True, False), (socket.EAI_AGAIN, False, None)],
)
def test_a_name_that_is_gone_is_told_from_a_name_server_in_trouble(
    monkeypatch: pytest.MonkeyPatch, number: int, cluster_answers: bool, told: bool | None
) -> None:
    def fail(*args: object) -> None:
        raise socket.gaierror(number, "")

    monkeypatch.setattr(socket, "create_connection", fail)
    monkeypatch.setattr(socket, "getaddrinfo", (lambda *args: []) if cluster_answers else fail)
    assert peer().look() is told
