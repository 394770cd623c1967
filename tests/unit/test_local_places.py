"""Ports, session directories and records of local runs."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import socket
import tempfile
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from types import NoneType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubectl_nrl.errors import NrlError
from kubectl_nrl.local import cleaning, finding, memory, ports, record, sessions
from kubectl_nrl.local.record import LocalRecord, Role
from kubectl_nrl.watch import read_record

NOW = datetime(2026, 1, 2, tzinfo=timezone.utc)


def test_a_session_is_short_private_and_says_whose_it_is(tmp_path: Path) -> None:
    made = sessions.make("ab12", Path("/somewhere/runs/x"), tmp_path)
    assert made == tmp_path / f"nrl-{os.getuid()}" / "ab12"
    assert (made.stat().st_mode & 0o777, made.parent.stat().st_mode & 0o777) == (0o700, 0o700)
    assert sessions.owner_of(made) == Path("/somewhere/runs/x")
    # Ray adds 67 bytes, and a socket's path ends at 107.
    assert len(f"{sessions.BASE}/nrl-4294967295/abcdef99/0") < 40


def test_a_session_of_the_same_name_is_another_directory(tmp_path: Path) -> None:
    first, second = (sessions.make("ab12", tmp_path, tmp_path) for _ in range(2))
    assert (first.name, second.name) == ("ab12", "ab121")


def test_the_last_session_takes_the_users_directory_with_it(tmp_path: Path) -> None:
    first, second = (sessions.make(name, tmp_path, tmp_path) for name in ("a", "b"))
    sessions.remove(first)
    assert sessions.existing(tmp_path) == [second]
    sessions.remove(second)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("when", ["lstat", "is_dir"])
def test_a_session_is_made_though_the_last_of_another_run_takes_the_users_directory_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Between any two steps: `mkdir` asks `is_dir` of what is there already, and what is there is looked at before it is used."""
    parent = tmp_path / f"nrl-{os.getuid()}"
    parent.mkdir(mode=0o700)
    real, left = getattr(Path, when), [parent]

    def removed_first(path: Path, **words: Any) -> Any:
        if path in left:
            left.remove(path)
            path.rmdir()
        return real(path, **words)

    monkeypatch.setattr(Path, when, removed_first)
    assert sessions.owner_of(sessions.make("ab12", tmp_path, tmp_path)) == tmp_path
    assert left == []


def test_a_file_in_the_way_of_sessions_is_named(tmp_path: Path) -> None:
    (tmp_path / f"nrl-{os.getuid()}").touch()
    with pytest.raises(NrlError, match=r"can be made under .*: File exists"):
        sessions.make("ab12", tmp_path, tmp_path)


def test_only_a_session_is_ever_removed(tmp_path: Path) -> None:
    sessions.remove(tmp_path)
    assert tmp_path.is_dir()


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / f"nrl-{os.getuid()}").symlink_to(tmp_path)
    with pytest.raises(NrlError, match="no session directory can be made"):
        sessions.make("x", tmp_path, tmp_path)


def test_two_sessions_share_no_port(tmp_path: Path) -> None:
    first, second = (sessions.make(name, tmp_path, tmp_path) for name in ("a", "b"))
    one = ports.claim(first, ["training", "gym"])
    two = ports.claim(second, ["training"])
    chosen = [port for role in (*one.values(), *two.values()) for port in role.values()]
    assert len(set(chosen)) == len(chosen) == 3 * len(ports.NAMES)
    assert all(ports.FIRST <= port <= ports.LAST for port in chosen)


def test_a_port_in_use_is_not_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr(ports, "FIRST", port)
        monkeypatch.setattr(ports, "LAST", port + 200)
        chosen = ports.claim(sessions.make("a", tmp_path, tmp_path), ["training"])
    assert port not in chosen["training"].values()


def test_a_machine_without_ports_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "is_used", lambda port: True)
    with pytest.raises(NrlError, match="no free ports are left between 20000 and 32767"):
        ports.claim(sessions.make("a", tmp_path, tmp_path), ["training"])


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = LocalRecord(
        "x", "run", roles={"training": Role("h:1", "http://h:2", {"port": 1})}, left=(3,), folder=tmp_path
    )
    record.write(made)
    assert record.read(tmp_path) == made
    assert (tmp_path / record.FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "{", "[]", '{"form": "run"}', '{"id": "x", "form": "run", "roles": 3}'])
def test_a_damaged_record_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / record.FILE).write_text(text)
    assert record.read(tmp_path) is None


#: What a crash, a full disk or another program may leave where a state file was.
ODD_KEY = st.sampled_from(["training", "address", "dashboard", "ports", "port"])
ODD_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("a\0b"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["training", "address", "dashboard", "ports", "port"]), inner, max_size=3)
    ),
    max_leaves=8,
)
ODD_FILE = st.binary(max_size=60) | ODD_JSON.map(lambda value: json.dumps(value).encode())


@settings(max_examples=60)
@given(
    st.dictionaries(st.sampled_from([f.name for f in dataclasses.fields(LocalRecord)]), ODD_JSON, max_size=6), ODD_FILE
)
def test_whatever_stands_in_a_record_is_a_record_or_none(values: dict[str, Any], other: bytes) -> None:
    for content in (json.dumps({"id": "x", "form": "run", **values}).encode(), other):
        with tempfile.TemporaryDirectory() as place:
            home = Path(place, "kubectl-nrl", "runs", "x")
            home.mkdir(parents=True)
            (home / record.FILE).write_bytes(content)
            env = {"XDG_STATE_HOME": place}
            for found in finding.runs(env):
                assert found.shown_state is not None
                assert isinstance(found.age(NOW), (float, NoneType))
                assert isinstance(found.seconds(NOW), (float, NoneType))
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("kubectl_nrl.local.processes.of_run", lambda mark, session: set())
                assert all(left.words for left in cleaning.leftovers(env))


@given(ODD_FILE)
def test_whatever_stands_in_the_other_files_of_a_place_is_read_as_nothing(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name in (sessions.OWNER, "ports.json", "run.json"):
            (folder / name).write_bytes(content)
        assert all(isinstance(port, int) for port in ports._claimed(folder))
        owner = sessions.owner_of(folder)
        assert owner is None or owner.is_absolute()
        assert isinstance(read_record(folder), dict)


def test_a_file_that_is_nested_without_end_is_read_as_nothing(tmp_path: Path) -> None:
    for name in (record.FILE, "ports.json", "run.json"):
        (tmp_path / name).write_bytes(b"[" * 100_000)
    assert record.read(tmp_path) is None
    assert ports._claimed(tmp_path) == []
    assert read_record(tmp_path) == {}


def test_sessions_in_a_directory_that_somebody_else_made_are_nobodys(tmp_path: Path) -> None:
    mine = tmp_path / f"nrl-{os.getuid()}"
    (tmp_path / "elsewhere" / "x").mkdir(parents=True)
    mine.symlink_to(tmp_path / "elsewhere")
    assert sessions.existing(tmp_path) == []


def test_a_record_of_a_newer_version_can_be_read(tmp_path: Path) -> None:
    (tmp_path / record.FILE).write_text(json.dumps({"id": "x", "form": "run", "of": "tomorrow"}))
    found = record.read(tmp_path)
    assert found is not None
    assert found.id == "x"


def test_a_record_whose_lock_nobody_holds_is_orphaned(tmp_path: Path) -> None:
    import fcntl

    record.write(LocalRecord("x", "run", state="RUNNING", folder=tmp_path))
    with open(tmp_path / record.LOCK, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        living = record.read(tmp_path)
        assert living is not None
        assert living.alive
        assert not living.orphaned
    # What was read before the supervisor ended may be out of date, and is no proof that it was killed.
    assert not living.alive
    assert not living.orphaned
    left = record.read(tmp_path)
    assert left is not None
    assert (left.orphaned, left.shown_state) == (True, "ORPHANED")
    assert not replace(left, torn_down=True).orphaned


def test_memory_is_what_the_system_and_the_container_leave(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   2048 kB\n")
    assert memory.available(tmp_path, tmp_path) == 2048 * 1024
    for name, text in (("memory.max", "3000"), ("memory.current", "2500"), ("memory.stat", "inactive_file 100")):
        (tmp_path / name).write_text(text)
    assert memory.available(tmp_path, tmp_path) == 600
    (tmp_path / "memory.max").write_text("max")
    assert memory.available(tmp_path, tmp_path) == 2048 * 1024
    assert memory.available(tmp_path / "no", tmp_path / "no") is None


def test_a_machine_without_memory_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 300 * 2**20)
    with pytest.raises(NrlError, match="300 MiB of memory are free on this machine; a Ray takes about 700"):
        memory.require(1)


def test_the_end_of_a_run_that_filled_the_disk_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = LocalRecord("x", "run", state="RUNNING", phase="a phase with many words", folder=tmp_path)
    record.write(running)

    def full(path: Path, text: bytes) -> None:
        path.write_bytes(text[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(record, "_make", full)
    record.write(replace(running, state="FAILED", phase="", exit_status=1))
    found = record.read(tmp_path)
    assert found is not None and (found.state, found.exit_status) == ("FAILED", 1)
    assert [file.name for file in tmp_path.iterdir()] == [record.FILE], "what was half written is gone"
    with pytest.raises(OSError, match="No space left"):
        record.write(replace(running, message="x" * 100_000))
    assert record.read(tmp_path) == found
