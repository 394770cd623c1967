"""The goldens themselves: each belongs to a case, none holds what differs from one machine or Python to the next."""

from __future__ import annotations

from pathlib import Path

import test_examples
import test_upstream

EXPECTED = Path(__file__).parent / "expected"


def test_each_golden_belongs_to_a_case() -> None:
    cases = {f"upstream/{case}" for case in test_upstream.CASES} | {f"examples/{case}" for case in test_examples.CASES}
    wanted = {f"{case}.{suffix}" for case in cases for suffix in ("txt", "sh" if "local" in case else "yaml")}
    wanted |= {f"panel/waiting-{columns}.txt" for columns in (80, 200)}  # tests/unit/test_panel.py
    wanted |= {f"panel/together-{columns}.txt" for columns in (50, 80, 200)}  # tests/unit/test_units_panel.py
    assert {path.relative_to(EXPECTED).as_posix() for path in EXPECTED.rglob("*.*")} == wanted


def test_no_golden_holds_packed_bytes_or_a_place_on_this_machine() -> None:
    for path in EXPECTED.rglob("*.*"):
        text = path.read_text()
        assert "H4sI" not in text, path  # base64 of gzip's first bytes
        assert "/tmp/pytest" not in text, path
        assert str(Path.home()) + "/" not in text.replace("/root/.cache/huggingface", ""), path
