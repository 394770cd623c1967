"""Clocks: what the cluster wrote is judged by the API server's, durations by one that nobody sets; a laptop's may be wrong or jump."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from scripted_server import Server, answer
from status_case import READY, STARTING, World
from test_cluster_client_requests import POD, connect

import kubectl_nrl
from kubectl_nrl.cluster.answered import Answered

STARTED = datetime(2026, 1, 2, 3, 0, tzinfo=timezone.utc)
WRONG = [timedelta(hours=-5), timedelta(), timedelta(days=9)]


def test_the_servers_time_goes_on_between_its_answers_and_is_set_anew_by_each() -> None:
    here = [100.0]
    answered = Answered(lambda: here[0])
    assert answered.now() is None
    answered.at("Fri, 02 Jan 2026 03:00:00 GMT")
    here[0] += 30
    assert answered.now() == STARTED + timedelta(seconds=30)
    answered.at("Fri, 02 Jan 2026 04:30:00 GMT")  # this machine slept, and its clock with it
    assert answered.now() == STARTED + timedelta(minutes=90)
    answered.at("")
    assert answered.now() == STARTED + timedelta(minutes=90)


@pytest.mark.parametrize("date", ["yesterday", "Fri, 99 Jan 2026 03:00:00 GMT"])
def test_a_date_that_is_none_is_no_time(date: str) -> None:
    answered = Answered()
    answered.at(date)
    assert answered.now() is None


def test_the_servers_clock_costs_no_question_once_it_has_answered(tmp_path: Path) -> None:
    dated = answer(200, POD, {"Date": "Fri, 02 Jan 2026 03:00:00 GMT"})
    with Server(lambda asked: dated) as server, connect(tmp_path, server.url) as cluster:
        cluster.get("v1", "Pod", "a")
        now = cluster.time()
        assert len(server.asked) == 1
    assert now is not None and timedelta() <= now - STARTED < timedelta(minutes=5)


@pytest.mark.parametrize(("passed", "said"), [(30, False), (600, True)])
def test_status_says_the_same_whatever_this_machines_clock_says(
    monkeypatch: pytest.MonkeyPatch, passed: int, said: bool
) -> None:
    world = World(monkeypatch)
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-02T03:00:00Z"}
    world.rayjob("a", STARTING, {"head": READY, "w0": {"phase": "Pending", "conditions": [placed]}})
    world.cluster.now = STARTED + timedelta(seconds=passed)
    told = set()
    for wrong in WRONG:
        world.project.time = world.cluster.now + wrong
        told.add((world.run("status a").ok().out, world.run("runs").ok().out))
    [(status, runs)] = told
    assert ("NotStarted, node n0 has not started it" in status) is said
    assert ("10m00s" in runs) is said


#: Who may ask this machine's clock: for the time of a run that is made, for the end of a credential, for what runs on this machine.
MAY_ASK = {"commands/session.py", "cluster/credentials.py", "local/record.py"}


def test_nothing_else_asks_this_machines_clock() -> None:
    core = Path(kubectl_nrl.__file__).parent.resolve()
    asks = re.compile(r"\btime\.time\(|datetime\.(?:now|utcnow|today)\(|time_ns\(|date\.today\(")
    found = {
        str(path.relative_to(root))
        for root in (core, core.parent / "plugins")
        for path in root.rglob("*.py")
        if asks.search(path.read_text())
    }
    assert found == MAY_ASK
