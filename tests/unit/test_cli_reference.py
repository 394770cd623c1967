"""docs/commands.md is what the parsers say."""

from __future__ import annotations

from pathlib import Path

from kubectl_nrl.errors import ExitCode
from kubectl_nrl.reference import COMMAND, page

FILE = Path(__file__).parent.parent.parent / "docs" / "commands.md"


def test_the_page_is_fresh() -> None:
    assert FILE.read_text(encoding="utf-8") == page(), f"the parsers have changed; refresh the page with: {COMMAND}"


def test_every_exit_code_is_there() -> None:
    text = page()
    for code in ExitCode:
        assert f"\n| {int(code)} | " in text
