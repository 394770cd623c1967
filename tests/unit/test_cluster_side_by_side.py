"""Questions are asked side by side, answered in order, and nothing goes on behind a failure."""

from __future__ import annotations

import threading

import pytest

from kubectl_nrl.cluster.side_by_side import AT_ONCE, side_by_side, within


def test_answers_come_in_the_order_of_the_questions_whoever_is_first() -> None:
    second = threading.Event()

    def slow() -> str:
        assert second.wait(60)
        return "slow"

    def quick() -> str:
        second.set()
        return "quick"

    assert side_by_side([slow, quick]) == ["slow", "quick"]
    assert side_by_side([]) == []


def test_no_more_than_a_few_at_once() -> None:
    now, most, lock = 0, 0, threading.Lock()
    full = threading.Barrier(AT_ONCE)

    def ask() -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        full.wait(60)
        with lock:
            now -= 1

    side_by_side([ask] * (AT_ONCE * 3))
    assert most == AT_ONCE


def test_a_failure_is_raised_at_once_though_another_never_answers() -> None:
    never = threading.Event()

    def refused() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        side_by_side([lambda: never.wait(600), refused])
    never.set()


def test_what_has_not_begun_is_left_out_after_a_failure() -> None:
    asked: list[int] = []
    started = threading.Barrier(AT_ONCE)

    def refused() -> None:
        started.wait(60)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        side_by_side([refused] * AT_ONCE + [lambda: asked.append(1)] * 3)
    for thread in threading.enumerate():
        if thread.name == "side-by-side":
            thread.join(60)
    assert asked == []


def test_what_is_late_is_not_waited_for() -> None:
    never, done = threading.Event(), list[bool]()
    within(0.01, [lambda: done.append(never.wait(600))])
    assert done == []
    never.set()


def test_all_that_is_in_time_is_waited_for() -> None:
    both = threading.Barrier(2)
    done: list[int] = []

    def task() -> None:
        done.append(both.wait(60))

    within(60, [task, task])
    assert sorted(done) == [0, 1]
