"""What `pip install .` installs: every module and data file of the checkout, and nothing else.

setup.cfg lists packages by hand, so a new one is easily forgotten, and an editable install would not notice.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Directory in the checkout -> import package; as `package_dir` in setup.cfg.
PACKAGES = {"kubectl_nrl": "kubectl_nrl", "plugins": "nrl_plugins", "schemas": "nrl_schemas"}
#: Run from the checkout only: what makes the derived schemas.
NOT_INSTALLED = ("schemas/derive/",)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    copy = tmp_path_factory.mktemp("checkout") / "copy"
    copy.mkdir()
    for name in ("setup.cfg", "pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for name in PACKAGES:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    words = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(copy),
        str(copy),
    ]
    subprocess.run(words, check=True)
    return set(zipfile.ZipFile(next(copy.glob("*.whl"))).namelist())


def _wanted() -> set[str]:
    files = set()
    for directory, package in PACKAGES.items():
        for path in (ROOT / directory).rglob("*"):
            name = path.relative_to(ROOT).as_posix()
            if path.is_file() and "__pycache__" not in path.parts and not name.startswith(NOT_INSTALLED):
                files.add(package + name.removeprefix(directory))
    return files


def test_everything_of_the_packages_is_installed(wheel: set[str]) -> None:
    assert _wanted() - wheel == set()


def test_nothing_else_is_installed(wheel: set[str]) -> None:
    assert {name for name in wheel if ".dist-info/" not in name} - _wanted() == set()


def test_the_licence_and_the_programs_are(wheel: set[str]) -> None:
    (licence,) = (name for name in wheel if name.endswith("LICENSE"))
    assert ".dist-info/" in licence
    assert any(name.endswith("entry_points.txt") for name in wheel)
