"""The test cluster's cache: complete entries or none, one builder at a time, keys that follow the content."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from cluster.cache import cache_dir, cached, content_key
from cluster.errors import CannotRunHere


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("NRL_CLUSTER_NO_BUILD", raising=False)


def test_an_entry_is_built_once() -> None:
    built = []

    def build(target: Path) -> None:
        built.append(target)
        target.write_text("x")

    assert cached("piece", "1", build) == cached("piece", "1", build)
    assert len(built) == 1
    assert cached("piece", "2", build).name == "piece-2"
    assert len(built) == 2


def test_a_build_that_fails_leaves_nothing() -> None:
    def build(target: Path) -> None:
        target.write_text("half")
        raise ValueError("no space")

    with pytest.raises(ValueError, match="no space"):
        cached("piece", "1", build)
    assert [path.name for path in cache_dir().iterdir()] == [".locks"]


def test_two_builders_at_once_build_once() -> None:
    built = []

    def build(target: Path) -> None:
        time.sleep(0.2)
        built.append(threading.get_ident())
        target.write_text("x")

    threads = [threading.Thread(target=cached, args=("piece", "1", build)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1


def test_nothing_dear_is_built_where_the_environment_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NRL_CLUSTER_NO_BUILD", "1")
    with pytest.raises(CannotRunHere, match="piece is not built yet"):
        cached("piece", "1", lambda target: target.write_text("x"), about="8 min")
    assert cached("cheap", "1", lambda target: target.write_text("x") and None).exists()


def test_key_follows_names_contents_and_modes_but_not_times(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    file = tree / "sub" / "a.py"
    file.write_text("1")
    first = content_key(tree, "version 1")
    os.utime(file, (1, 1))
    (tree / "__pycache__").mkdir()
    (tree / "__pycache__" / "a.pyc").write_text("x")
    assert content_key(tree, "version 1") == first
    keys = {first, content_key(tree, "version 2")}
    file.chmod(0o755)
    keys.add(content_key(tree, "version 1"))
    file.write_text("2")
    keys.add(content_key(tree, "version 1"))
    file.rename(tree / "a.py")
    keys.add(content_key(tree, "version 1"))
    assert len(keys) == 5
    assert content_key("ab", "c") != content_key("a", "bc")
