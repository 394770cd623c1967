"""The test kit: isolation, goldens, and assertions that fail when they should."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path

import pytest

from kubectl_nrl import hookimpl
from kubectl_nrl.testing import UPDATE, Project, check_result, golden


def test_a_run_changes_nothing_around_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECTL_NRL_PLUGINS", "no_such_module_here")
    monkeypatch.setenv("HF_TOKEN", "hf_0123456789")
    before = dict(os.environ), Path.cwd(), sys.stdout, sys.stderr, sys.stdin
    outcome = Project(path=tmp_path).run("kubectl nrl plugins").ok()
    assert "no_such_module_here" not in outcome.err + outcome.out
    assert (dict(os.environ), Path.cwd(), sys.stdout, sys.stderr, sys.stdin) == before


def test_files_as_text_bytes_and_data(tmp_path: Path) -> None:
    project = Project({"a/b.yaml": {"x": [1]}, "t.txt": "\n    one\n      two\n", "raw": b"\xff"}, path=tmp_path)
    assert project.read("a/b.yaml") == "x:\n- 1\n"
    assert project.read("t.txt") == "one\n  two\n"
    assert (project.path / "raw").read_bytes() == b"\xff"


def test_a_temporary_project_goes_with_its_object() -> None:
    project = Project({"a": "b"})
    root = project.root
    assert root.is_dir()
    del project
    assert not root.exists()


def test_a_plugin_as_an_object_or_a_module(tmp_path: Path) -> None:
    class Hint:
        @hookimpl
        def nrl_explain_error(self, error: Exception) -> str:
            return f"from an object: {error}"

    module = types.ModuleType("whatever")
    module.nrl_explain_error = Hint().nrl_explain_error  # type: ignore[attr-defined]
    for plugin in (Hint(), module):
        outcome = Project(path=tmp_path, plugin=plugin).run("check r.yaml --infra absent.yaml -o json")
        assert outcome.exit == 2
        listed = Project(path=tmp_path, plugin=plugin).run("plugins -o json").ok().result("plugins")["plugins"]
        assert ["nrl_explain_error"] in [p["hooks"] for p in listed]


def test_goldens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "new" / "g.txt"
    monkeypatch.delenv(UPDATE, raising=False)
    with pytest.raises(AssertionError, match="NRL_UPDATE_GOLDENS=1"):
        golden(file, "a\n")
    monkeypatch.setenv(UPDATE, "1")
    golden(file, "a\n")
    monkeypatch.delenv(UPDATE)
    golden(file, "a\n")
    with pytest.raises(AssertionError, match=r"-a\n\+b"):
        golden(file, "b\n")


def test_its_assertions_fail(tmp_path: Path) -> None:
    project = Project(path=tmp_path)
    with pytest.raises(AssertionError, match="no verb"):
        project.run("nope").ok()
    with pytest.raises(AssertionError, match="stdout is no JSON"):
        _ = project.run("version").json
    with pytest.raises(AssertionError, match=r"not as version\.json says"):
        check_result("version", {"version": 1})
