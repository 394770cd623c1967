"""docs/plugins.md is true: its plugin works, its tests pass, and every hook is there with its exact arguments."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from kubectl_nrl import api, hookspecs
from kubectl_nrl.manager import KINDS
from kubectl_nrl.testing import Project

GUIDE = (Path(__file__).parent.parent.parent / "docs" / "plugins.md").read_text(encoding="utf-8")
HOOKS = {name: spec for name, spec in vars(hookspecs).items() if name.startswith("nrl_")}


def block(name: str) -> str:
    """The Python block that begins with `# NAME`."""
    found = re.search(rf"```python\n# {re.escape(name)}\n(.*?)```", GUIDE, re.DOTALL)
    assert found, f"no block {name}"
    return found[1]


def test_every_hook_is_there_with_its_exact_arguments() -> None:
    documented = dict(re.findall(r"^### `(\w+)\((.*?)\)`$", GUIDE, re.MULTILINE))
    assert documented == {name: ", ".join(inspect.signature(spec).parameters) for name, spec in HOOKS.items()}
    assert list(documented) == list(HOOKS), "in the order of hookspecs.py"


def test_every_kind_of_provider_and_every_method_is_there() -> None:
    for kind, (base, _) in KINDS.items():
        assert f"| `nrl_{kind}` | `{base}` |" in GUIDE
    methods = {n for n, f in vars(api.Provider).items() if inspect.isfunction(f)} - {"active"}
    documented = set(re.findall(r"^\| `(\w+)\([\w, ]*\)` \|", GUIDE, re.MULTILINE))
    assert documented == methods


def test_the_guides_tests_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site.py").write_text(block("site.py"))
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(block("test_site.py"), "test_site.py", "exec"), names)
    tests = [f for n, f in names.items() if n.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        test()  # type: ignore[operator]


def test_what_the_guide_says_of_the_settings(tmp_path: Path) -> None:
    names: dict[str, object] = {}
    exec(block("test_site.py"), names)
    project = Project(names["FILES"], path=tmp_path)  # type: ignore[arg-type]
    project.write("site.py", block("site.py"))
    check = "-p ./site.py check recipe.yaml --infra infra.yaml"
    explained = project.run(f"{check} --explain").ok().out
    assert re.search(r"labels\.team: vision  <- .*site", explained)
    typo = project.run(f"{check} infra.policies.site.taem=x")
    assert typo.exit == 2
    assert "taem" in typo.err
    off = project.run(f"{check} infra.policies.site=false infra.image=elsewhere/x:1").ok()
    assert "team" not in off.out
    assert "policies:site" in project.run("-p ./site.py plugins").ok().out
