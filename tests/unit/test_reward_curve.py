"""The reward is read off logs of several kinds, and drawn."""

from __future__ import annotations

import pytest

from kubectl_nrl.commands.reward_curve import RewardCurve, plot

OURS = b"step 1/3 reward 0.100 accuracy 0\nstep 2/3 reward 0.2\nstep 2/3 validation: reward 0.9\nstep 3/3 reward 0.35\n"
NEMO = "====== Step 1/3 ======\n  • Avg Reward: 0.1000\n=== Step 2/3 ===\n • Avg Reward: 0.2\n== Step 3/3 ==\n • Avg Reward: 0.35\n"


@pytest.mark.parametrize("log", [OURS, NEMO.encode()])
@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_it_is_read_from_any_pieces(log: bytes, piece: int) -> None:
    curve = RewardCurve()
    for at in range(0, len(log), piece):
        curve.feed(log[at : at + piece])
    assert curve.values == [0.1, 0.2, 0.35]
    assert curve.steps == 3


def test_lines_of_any_length_and_bytes_that_are_no_text_cost_nothing() -> None:
    curve = RewardCurve()
    curve.feed(b"x" * 5_000_000)
    curve.feed(b"x" * 5_000_000 + b"\n\xff\xfe step 4 reward -1e-3\n")
    assert curve.points == {4: -0.001}


def test_a_plot_has_its_ends() -> None:
    curve = RewardCurve()
    curve.feed(b"".join(b"step %d/100 reward %f\n" % (n, n / 100) for n in range(1, 101)))
    drawn = plot(curve, width=40, height=4)
    lines = drawn.splitlines()
    assert len(lines) == 5
    assert lines[0].startswith("        1 ┤")
    assert lines[0].rstrip()[-1] == "█"
    assert lines[3].startswith("     0.01 ┤")
    assert lines[4].split() == ["step", "1", "100"]
    assert plot(curve, plain=True).isascii()


def test_one_point_is_no_curve() -> None:
    curve = RewardCurve()
    curve.feed(b"step 1 reward 1\n")
    assert plot(curve) == ""


def test_a_level_reward_is_a_level_line() -> None:
    curve = RewardCurve()
    curve.feed(b"step 1 reward 0.5\nstep 2 reward 0.5\nstep 3 reward 0.5\n")
    *above, lowest, _ = plot(curve).splitlines()
    assert set(lowest.rpartition("┤")[2]) == {"▂"}
    assert all(line.rpartition("│")[2].rpartition("┤")[2].strip() == "" for line in above)
