"""`pip install`: the wheel in an environment of its own, run outside the checkout, with all its data."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from install.machine import EXAMPLES, LIBRARIES, PYTHON, ROOT, SOURCES


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the programs that a wheel brings; the libraries are the tests' own."""
    root = tmp_path_factory.mktemp("wheel")
    copy = root / "copy"
    copy.mkdir()
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, copy)
    subprocess.run([PYTHON, "-m", "venv", root / "venv"], check=True)
    site = root / "venv" / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    (site / "libraries.pth").write_text(f"{LIBRARIES}\n")
    pip = [root / "venv" / "bin" / "python", "-m", "pip"]
    subprocess.run([*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", root, copy], check=True)
    (wheel,) = root.glob("*.whl")
    subprocess.run([*pip, "install", "-q", "--no-deps", "--force-reinstall", wheel], check=True)
    shutil.rmtree(copy)
    return root / "venv" / "bin"


def run(programs: Path, cwd: Path, *words: str) -> str:
    env = {"HOME": str(cwd), "PATH": f"{programs}:{os.defpath}", "NRL_K8S_USER": "rl-user"}
    done = subprocess.run(
        [programs / words[0], *words[1:]], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_it_is_the_wheel_that_runs(programs: Path, tmp_path: Path) -> None:
    code = "import kubectl_nrl, nrl_plugins, nrl_schemas; print(kubectl_nrl.__file__, nrl_plugins.__file__, nrl_schemas.__file__)"
    for file in run(programs, tmp_path, "python", "-c", code).split():
        assert Path(file).is_relative_to(programs.parent)


@pytest.mark.parametrize(
    "recipe", ["grpo-4n.yaml --infra gb300.infra.yaml", "grpo-64n.yaml --infra grpo-64n.gb300.prod.infra.yaml"]
)
def test_check_has_its_profiles_and_schemas(recipe: str, programs: Path, tmp_path: Path) -> None:
    work = shutil.copytree(EXAMPLES, tmp_path / "work") / "03-gb300"
    data = json.loads(run(programs, work, "kubectl-nrl", "check", *recipe.split(), "-o", "json"))
    assert data
    assert "kind: RayJob" in run(programs, work, "kubectl-nrl", "check", *recipe.split(), "--manifests-only")


def test_what_init_writes_passes_check(programs: Path, tmp_path: Path) -> None:
    run(programs, tmp_path, "kubectl-nrl", "init", "mine", "--profile", "gb300")
    run(programs, tmp_path, "kubectl-nrl", "check", "mine.yaml", "--infra", "mine.infra.yaml")


def test_plugins_schema_and_completion(programs: Path, tmp_path: Path) -> None:
    plugins = json.loads(run(programs, tmp_path, "kubectl-nrl", "plugins", "-o", "json"))["plugins"]
    assert len(plugins) > 10
    assert not [plugin for plugin in plugins if plugin["broken"]]
    assert "scheduler" in json.loads(run(programs, tmp_path, "kubectl-nrl", "check", "--schema"))["properties"]
    assert "complete -F" in run(programs, tmp_path, "kubectl-nrl", "completion", "bash")
    assert run(programs, tmp_path, "kubectl_complete-nrl", "check", "--man").startswith("--manifests-only\t")
    assert json.loads(run(programs, tmp_path, "kubectl-nrl", "doctor", "--install", "-o", "json"))["failed"] == 0


def test_the_extra_holds_what_the_quickstart_imports(programs: Path, tmp_path: Path) -> None:
    """Otherwise the first run on a fresh machine ends with an ImportError."""
    import ast

    imported = set()
    for file in (EXAMPLES / "01-quickstart").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [str(node.module)]
            imported |= {name.split(".")[0] for name in names}
    # wandb is imported only where the recipe switches it on.
    own = {"quickstart", "wandb", *sys.stdlib_module_names}
    code = "from importlib.metadata import requires; print(*requires('kubectl-nrl'), sep='\\n')"
    needs = run(programs, tmp_path, "python", "-c", code).lower()
    always = {"yaml": "pyyaml", "omegaconf": "omegaconf"}
    assert imported - own
    for name in imported - own:
        assert any(line.startswith(always.get(name, name)) for line in needs.splitlines()
                   if "extra" not in line or "extra == 'ray'" in line.replace('"', "'")), name  # fmt: skip
