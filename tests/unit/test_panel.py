"""The picture of a run: within its terminal whatever the size, and the cause of the waiting is what goes last."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubectl_nrl import panel
from kubectl_nrl.cells import cut, printable, width, wrap
from kubectl_nrl.live import Line
from kubectl_nrl.reasons import GroupView, Snapshot, Trouble
from kubectl_nrl.testing import golden

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=timezone.utc)
GOLDENS = Path(__file__).parent.parent / "golden" / "expected" / "panel"

IMAGE = "registry.example/team/with/a/long/path/nemo-rl-experimental-builds-of-the-week:v0.7.0-rc3-cuda13.1-py312-typo-nobody-sees"
PULL = Trouble("3/16 workers of gpu-0", "ImagePullBackOff", f'image "{IMAGE}" not found', "by hand", ("pull",))
FULL = Trouble(
    "13/16 workers of gpu-0",
    "Unschedulable",
    "0/72 nodes are available: 18 Insufficient nvidia.com/gpu, 54 node(s) didn't match Pod's node affinity/selector.",
    "alone",
    ("full",),
)
WAITING = Snapshot(
    "Initializing",
    "Initializing: its Ray cluster is starting",
    NOW - timedelta(seconds=192),
    (
        GroupView("head", "head", 1, 1, 0, {"Ready": 1}),
        GroupView("worker", "gpu-0", 0, 16, 12, {"ImagePullBackOff": 3, "Pending": 13}),
        GroupView("worker", "gpu-1", 16, 16, 64, {"Ready": 16}),
    ),
    (PULL, FULL),
    76,
    ("events may not be read with these permissions",),
)


def text_of(lines: Sequence[Line]) -> str:
    return "".join("".join(text for text, _ in line) + "\n" for line in lines)


@pytest.mark.parametrize("columns", [80, 200])
def test_the_picture_of_a_waiting_run(columns: int) -> None:
    golden(GOLDENS / f"waiting-{columns}.txt", text_of(panel.lines("rayjob/jo-grpo-kvt6", WAITING, NOW, columns, 40)))


@pytest.mark.parametrize("columns", [20, 40, 80, 81, 200])
@pytest.mark.parametrize("rows", [2, 3, 5, 9, 24, 60])
def test_it_never_leaves_its_terminal(columns: int, rows: int) -> None:
    groups = tuple(GroupView("worker", f"gpu-segment-{n}", n % 2, 1, 4, {"Pending": 1}) for n in range(40))
    many = Snapshot("Initializing", "Initializing", NOW, groups, (PULL, FULL) * 5, 160, ("note",) * 3)
    lines = panel.lines("rayjob/" + "x" * 47, many, NOW, columns, rows)
    assert 0 < len(lines) <= rows - 1
    assert all(sum(width(text) for text, _ in line) <= columns - 1 for line in lines)


def test_a_name_that_is_broken_over_lines_loses_no_character() -> None:
    lines = panel.lines("rayjob/x", WAITING, NOW, 60, 40)
    assert IMAGE in text_of(lines).replace("\n", "").replace(" ", "")


def test_in_a_low_terminal_ready_groups_make_room_for_the_cause() -> None:
    groups = tuple(GroupView("worker", f"ready-{n}", 2, 2, 8, {"Ready": 2}) for n in range(20))
    waiting = GroupView("worker", "late", 0, 2, 0, {"ImagePullBackOff": 2})
    low = Snapshot("Initializing", "Initializing", NOW, (*groups, waiting), (PULL,), 160)
    text = text_of(panel.lines("rayjob/x", low, NOW, 120, 12))
    assert "late" in text
    assert "more groups" in text
    assert IMAGE in text.replace("\n", "").replace(" ", "")


def test_a_message_cannot_move_the_cursor() -> None:
    bad = Trouble("head", "Error", "\x1b[2J\x1b[1;1Hgone\r\nline two\x07", "alone", ("x",))
    picture = Snapshot(
        "Running", "Running\x1b[31m", NOW, (GroupView("head", "h\n", 0, 1, 0, {"E\r": 1}),), (bad,), 0, ("\x9b",)
    )
    text = text_of(panel.lines("rayjob/x", picture, NOW, 80, 24))
    assert not [c for c in text if c != "\n" and not c.isprintable()]
    assert "gone line two" in text


def test_held_gpus_and_the_time_are_told() -> None:
    assert panel.headline("rayjob/x", WAITING, NOW).endswith("starting, 3m12s, 76 GPUs held")
    early = Snapshot("Created", "Created", NOW + timedelta(seconds=5), (), (), 1)  # the cluster's clock is ahead
    assert panel.headline("rayjob/x", early, NOW) == "rayjob/x: Created, 0s, 1 GPU held"


@given(st.text(), st.integers(1, 60))
@settings(max_examples=200, deadline=None)
def test_cells_hold_for_any_text(text: str, columns: int) -> None:
    clean = printable(text)
    assert width(cut(clean, columns)) <= columns
    lines = wrap(clean, columns)
    assert "".join(lines).replace(" ", "") == clean.replace(" ", "")
    assert all(width(line) <= columns or len(line) == 1 for line in lines)
