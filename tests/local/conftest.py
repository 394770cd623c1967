"""These tests start real Rays, one at a time; without Ray they are skipped, and in CI they fail."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from local_case import Local


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    if find_spec("ray") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("Ray is not installed: pip install '.[ray]'")
    made = Local(tmp_path)
    yield made
    made.end()
