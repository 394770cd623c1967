"""The picture of clusters that come up together: all of them in one terminal, and the causes of the waiting are what goes last."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_panel import FULL, IMAGE, NOW, PULL, WAITING, text_of

from kubectl_nrl import panel, units_panel
from kubectl_nrl.cells import width
from kubectl_nrl.live import Line
from kubectl_nrl.reasons import GroupView, Snapshot, Trouble
from kubectl_nrl.testing import golden
from kubectl_nrl.units_panel import UnitView

GOLDENS = Path(__file__).parent.parent / "golden" / "expected" / "panel"
SECONDS = 72.0
SECRET = Trouble("1/1 replicas", "SecretNotFound", 'secret "judge-token" does not exist', "by hand", ("secret",))


def group(name: str, ready: int, total: int, gpus: int = 0, **states: int) -> GroupView:
    return GroupView("worker", name, ready, total, gpus, states or {"Ready": total})


GYM = UnitView(
    "raycluster/gym",
    Snapshot("Ready", "ready, 2 workers", NOW, (group("head", 1, 1), group("cpu", 2, 2)), (), 0),
    up=True,
)
GENERATION = UnitView(
    "raycluster/generation", Snapshot("Starting", "16/32 workers ready", NOW, WAITING.groups, (PULL, FULL), 76)
)
TRAINING = UnitView(
    "raycluster/training",
    Snapshot(
        "Ready", "ready, 1 worker; daemon serve of training: https://training-head-svc:9090/health has not answered (asked from there)",
        NOW, (group("head", 1, 1), group("gpu", 1, 1, 4)), (), 4,
    ),
)  # fmt: skip
JUDGE = UnitView(
    "deployment/judge",
    Snapshot("Starting", "0/1 replicas ready", NOW, (group("replicas", 0, 1, SecretNotFound=1),), (SECRET,), 0),
)
ALL = [GYM, GENERATION, TRAINING, JUDGE]


def lines(units: Sequence[UnitView], columns: int, rows: int) -> Sequence[Line]:
    return units_panel.lines(units, SECONDS, columns, rows)


@pytest.mark.parametrize("columns", [50, 80, 200])
def test_the_picture_of_clusters_that_come_up_together(columns: int) -> None:
    golden(GOLDENS / f"together-{columns}.txt", text_of(lines(ALL, columns, 60)))


@pytest.mark.parametrize("columns", [9, 20, 40, 50, 80, 81, 200])
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 7, 9, 12, 24, 60])
@pytest.mark.parametrize("count", [2, 4, 30])
def test_it_never_leaves_its_terminal(columns: int, rows: int, count: int) -> None:
    shown = lines((ALL * count)[:count], columns, rows)
    assert 0 < len(shown) <= max(rows - 1, 1)
    assert all(sum(width(text) for text, _ in line) <= columns - 1 for line in shown)


def test_one_alone_looks_as_a_run_does_and_tells_the_time_of_this_wait() -> None:
    shown = text_of(lines([GENERATION], 100, 40))
    assert shown.startswith("raycluster/generation: 16/32 workers ready, 1m12s, 76 GPUs held\n")
    rest = text_of(panel.lines(GENERATION.title, GENERATION.snapshot, NOW, 100, 40)).partition("\n")[2]
    assert shown.partition("\n")[2] == rest


def test_groups_of_all_of_them_stand_in_one_column() -> None:
    rows = [row for row in text_of(lines(ALL, 120, 60)).splitlines() if " ready" in row and row.startswith("  ")]
    assert len({row.index(" ready") for row in rows}) == 1


def test_in_a_low_terminal_what_is_up_makes_room_and_is_counted() -> None:
    shown = text_of(lines(ALL, 80, 15))
    assert shown.startswith("1 of 4 are up, 1m12s, 80 GPUs held\n")
    assert "raycluster/gym" not in shown
    assert "judge-token" in shown
    assert IMAGE[:40] in shown


def test_in_the_lowest_ones_those_that_wait_are_named_or_counted() -> None:
    assert text_of(lines(ALL, 80, 4)).splitlines()[1:] == [text_of([lines(ALL, 80, 60)[2]]).strip(), "and 2 more"]


def test_a_title_cannot_move_the_cursor() -> None:
    bad = UnitView("deployment/x", Snapshot("Starting", "\x1b[2J\r\n0/1 ready\x07", NOW, (), (), 0))
    text = text_of(lines([bad, JUDGE], 80, 24))
    assert not [c for c in text if c != "\n" and not c.isprintable()]


def test_what_stays_tells_how_long_it_took_and_what_is_held() -> None:
    up = [UnitView("raycluster/a", Snapshot("Ready", "ready", NOW, (group("gpu", 2, 2, 8),), (), 8), up=True), GYM]
    assert units_panel.last_words(up, SECONDS) == "2 of 2 are up after 1m12s, 5/5 pods ready, 8 GPUs held"
    assert units_panel.last_words([GYM], SECONDS) == "raycluster/gym is up after 1m12s, 3/3 pods ready"


@given(st.lists(st.integers(0, 40), max_size=8), st.integers(-3, 100))
def test_rows_are_dealt_out_fairly_and_none_is_lost(wanted: list[int], room: int) -> None:
    given_out = units_panel.shares(wanted, room)
    assert sum(given_out) == min(max(room, 0), sum(wanted))
    assert all(0 <= got <= want for got, want in zip(given_out, wanted, strict=True))
    short = [got for got, want in zip(given_out, wanted, strict=True) if got < want]
    assert not short or max(given_out) <= min(short) + 1
