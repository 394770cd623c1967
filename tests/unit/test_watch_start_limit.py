"""When a start is given up, what is said of it how often, and whose clock counts."""

from __future__ import annotations

from typing import Any

from waiting_pods import at, stamp

from kubectl_nrl.reasons import Trouble
from kubectl_nrl.reasons.server_clock import ServerClock
from kubectl_nrl.watch.start_limit import StartLimit
from kubectl_nrl.watch.telling import Readiness, Telling


def trouble(heals: Any = "by hand", key: str = "a", who: str = "head") -> Trouble:
    return Trouble(who, "R", "m", heals, (key,))


def test_what_heals_alone_is_waited_for_without_a_limit() -> None:
    limit = StartLimit(60)
    for now in (0, 1e3, 1e6):
        assert limit.strikes([trouble("alone")], now) is None


def test_what_is_certain_is_not_waited_for_at_all() -> None:
    assert StartLimit(900).strikes([trouble("never")], 5.0) == (trouble("never"), 0.0)


def test_what_needs_a_hand_gets_its_time() -> None:
    limit = StartLimit(60)
    assert [limit.strikes([trouble()], now) for now in (0, 20, 40, 59)] == [None] * 4
    assert limit.strikes([trouble()], 60) == (trouble(), 60)


def test_a_cause_that_went_away_starts_anew() -> None:
    limit = StartLimit(60)
    limit.strikes([trouble()], 0)
    limit.strikes([], 20)
    limit.strikes([], 55)
    assert limit.strikes([trouble()], 61) is None
    assert limit.strikes([trouble()], 121) == (trouble(), 60)


def test_a_moment_between_two_tries_does_not_make_a_cause_new() -> None:
    limit = StartLimit(60)
    for now in range(0, 60, 10):
        assert limit.strikes([trouble()] if now % 20 == 0 else [], now) is None
    assert limit.strikes([trouble()], 60) == (trouble(), 60)


def test_two_causes_have_two_clocks() -> None:
    limit = StartLimit(60)
    limit.strikes([trouble()], 0)
    assert limit.strikes([trouble(key="b")], 40) is None
    assert limit.strikes([trouble(key="b")], 70) is None
    assert limit.strikes([trouble(key="b")], 100) == (trouble(key="b"), 60)


def test_time_in_which_nothing_was_seen_does_not_count() -> None:
    limit = StartLimit(60)
    limit.strikes([trouble()], 0)
    limit.skip(500)
    assert limit.strikes([trouble()], 520) is None
    assert limit.strikes([trouble()], 560) == (trouble(), 60)


def test_no_limit_gives_nothing_up() -> None:
    limit = StartLimit(None)
    assert limit.strikes([trouble("never"), trouble()], 0) is None
    assert limit.strikes([trouble("never"), trouble()], 1e6) is None


class Heard:
    """A Telling with a clock that a test sets."""

    def __init__(self) -> None:
        self.now, self.lines = 0.0, list[str]()
        self.telling = Telling(lambda t: self.lines.append(t.line), lambda: self.now)

    def tell(self, now: float, *troubles: Trouble) -> int:
        self.now = now
        self.telling.tell(troubles)
        return len(self.lines)


def test_a_trouble_is_said_once_while_it_lasts() -> None:
    heard = Heard()
    assert [heard.tell(now, trouble()) for now in (0, 1, 100, 1000)] == [1, 1, 1, 1]


def test_a_trouble_that_comes_and_goes_all_day_makes_a_handful_of_lines() -> None:
    heard = Heard()
    for second in range(86400):
        heard.tell(second, *([trouble()] if second % 2 else []))
    assert 2 <= len(heard.lines) <= 12


def test_a_count_that_grows_is_news_after_a_while() -> None:
    heard = Heard()
    assert heard.tell(0, trouble(who="1/64 workers of w")) == 1
    assert heard.tell(1, trouble(who="64/64 workers of w")) == 1
    assert heard.tell(60, trouble(who="64/64 workers of w")) == 2
    assert heard.lines[-1].startswith("64/64")
    assert heard.tell(1000, trouble(who="64/64 workers of w")) == 2


def test_pods_that_come_up_are_counted_one_by_one_and_pods_that_come_and_go_are_not() -> None:
    now, lines = [0.0], list[str]()
    count = Readiness(lines.append, lambda: now[0])
    for ready in range(5):
        count.tell(ready, 4)
    assert lines == [f"{ready}/4 pods ready" for ready in range(5)]
    for second in range(6 * 3600):
        now[0] = float(second)
        count.tell(3 + second // 10 % 2, 4)
    assert len(lines) < 60
    now[0] += 600
    count.tell(4, 4)
    assert lines[-1] == "4/4 pods ready"


def test_the_servers_time_is_learnt_from_what_arrives_and_goes_on_by_our_own_seconds() -> None:
    now = [100.0]
    clock = ServerClock(lambda: now[0])
    assert clock.now() is None
    clock.saw({"metadata": {"creationTimestamp": stamp(0)}})
    now[0] = 107.0
    assert clock.now() == at(7)


def test_an_old_object_does_not_set_the_servers_time_back_and_a_fresh_one_sets_it_forward() -> None:
    """As after a night in which the laptop slept: our seconds stood still, and the first change that arrives tells."""
    now = [0.0]
    clock = ServerClock(lambda: now[0])
    clock.saw({"metadata": {"creationTimestamp": stamp(50)}})
    clock.saw({"metadata": {"creationTimestamp": stamp(0), "managedFields": [{"time": stamp(20)}, {}]}})
    assert clock.now() == at(50)
    clock.saw({"metadata": {"creationTimestamp": stamp(0), "managedFields": [{"time": stamp(30000)}]}})
    assert clock.now() == at(30000)
