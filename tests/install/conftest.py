"""Machines to install on (machine.py)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from install.machine import Machine, system_tools


@pytest.fixture(scope="session")
def system(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return system_tools(tmp_path_factory.mktemp("system") / "bin")


@pytest.fixture(scope="session")
def new_machine(system: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Machine]:
    return lambda: Machine(tmp_path_factory.mktemp("machine"), system)


@pytest.fixture
def machine(new_machine: Callable[[], Machine]) -> Machine:
    return new_machine()
