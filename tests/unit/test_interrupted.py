"""Ctrl-C at every request of the commands that change something: never a word less than what is left, and how it goes on."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import test_clean
import test_job_command
from fake_cluster import FakeCluster
from long_lived_case import LongLivedWorld, Ray

from kubectl_nrl.testing import RUN_ID, Outcome

#: No command of these tests makes so many requests.
MANY = 80
WRITES = ("create", "patch", "delete")


class Strike:
    """Ctrl-C at the n-th request that the command itself makes, before it is carried out or (`late`) when it has been.

    `wrote` are the requests that had changed something by then.
    """

    def __init__(self, cluster: FakeCluster, at: int, *, late: bool, ray: Ray | None = None) -> None:
        self._left, self._late = at, late
        self.struck = False
        self.wrote: list[str] = []
        self._lock = threading.Lock()
        for verb in ("get", "list", *WRITES):
            setattr(cluster, verb, self._around(verb, getattr(cluster, verb)))
        if ray is not None:
            ray._ask = self._around("ask", ray._ask)  # type: ignore[method-assign]

    def _around(self, verb: str, carry_out: Callable[..., Any]) -> Callable[..., Any]:
        def request(*words: Any, **more: Any) -> Any:
            strikes = self._counts()
            if strikes and not self._late:
                self._strike()
            answer = carry_out(*words, **more)
            if verb in WRITES and not more.get("dry_run"):
                self.wrote.append(verb)
            if strikes and self._late:
                self._strike()
            return answer

        return request

    @staticmethod
    def _strike() -> None:
        """As a terminal does: it is the main thread that is interrupted, whichever one is at work."""
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        _thread.interrupt_main()

    def _counts(self) -> bool:
        """Whether it is this one's turn; requests of threads that only watch do not count: Ctrl-C never lands in those."""
        if threading.current_thread().name.startswith(("watch-", "driver-log")):
            return False
        with self._lock:
            self._left -= 1
            self.struck = self.struck or self._left == 0
            return self._left == 0


def everywhere(
    make: Callable[[], FakeCluster],
    run: Callable[[], Outcome],
    *,
    late: bool,
    ray: Callable[[], Ray | None] = lambda: None,
) -> Iterator[tuple[Outcome, Strike]]:
    """The command interrupted at its first request, in a fresh world at its second, and so on until it gets through."""
    for at in range(1, MANY):
        strike = Strike(make(), at, late=late, ray=ray())
        done = run()
        if not strike.struck:
            done.ok()
            return
        assert done.exit == 130, (at, done)
        yield done, strike
    raise AssertionError("it never got through")


def left_of(cluster: FakeCluster, *kinds: str) -> list[str]:
    return [f"{kind.lower()}/{name}" for kind, _, name in cluster.objects if kind in kinds]


@pytest.fixture(params=[False, True], ids=["before", "after"])
def late(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_cluster_up_names_what_stays_or_leaves_nothing(monkeypatch: pytest.MonkeyPatch, late: bool) -> None:
    worlds: list[LongLivedWorld] = []

    def make() -> FakeCluster:
        worlds.append(LongLivedWorld(monkeypatch))
        worlds[-1].infra("gym", deployment=True)
        return worlds[-1].cluster

    def up() -> Outcome:
        return worlds[-1].up()

    kinds = ("RayCluster", "Deployment", "Service")
    stayed = 0
    for done, strike in everywhere(make, up, late=late, ray=lambda: worlds[-1].ray):
        left = left_of(worlds[-1].cluster, *kinds)
        assert [name for name in left if name not in done.err] == [], done.err
        if strike.wrote:
            assert "interrupted" in done.err
        if left:
            stayed += 1
            assert "kubectl nrl cluster down recipe.yaml --infra infra.yaml" in done.err
    assert stayed


def test_cluster_down_says_what_goes_on_and_the_command_for_the_rest(
    monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    worlds: list[LongLivedWorld] = []

    def make() -> FakeCluster:
        worlds.append(LongLivedWorld(monkeypatch))
        worlds[-1].infra("gym", deployment=True)
        worlds[-1].up().ok()
        return worlds[-1].cluster

    def down() -> Outcome:
        return worlds[-1].down()

    begun = 0
    for done, strike in everywhere(make, down, late=late):
        if strike.wrote:
            begun += 1
            assert "interrupted; " in done.err
            assert "go on: kubectl nrl cluster down recipe.yaml --infra infra.yaml -n default" in done.err
    assert begun


def test_run_on_a_long_lived_cluster_says_whether_it_was_submitted(monkeypatch: pytest.MonkeyPatch, late: bool) -> None:
    worlds: list[LongLivedWorld] = []
    monkeypatch.setattr("kubectl_nrl.watch.job_follow.POLL", 0.02)

    def make() -> FakeCluster:
        worlds.append(LongLivedWorld(monkeypatch))
        return worlds[-1].cluster

    def run() -> Outcome:
        return worlds[-1].run("run recipe.yaml --infra infra.yaml --raycluster")

    for done, strike in everywhere(make, run, late=late, ray=lambda: worlds[-1].ray):
        recorded = any(kind == "ConfigMap" for kind, *_ in worlds[-1].cluster.objects)
        if worlds[-1].ray.submitted or recorded:
            assert f"follow it again: kubectl nrl job logs {RUN_ID} -f -n default" in done.err
            assert f"stop it: kubectl nrl job stop {RUN_ID} -n default" in done.err
        else:
            assert "run was submitted" in done.err or "it may be submitted" in done.err or not strike.wrote
            if left_of(worlds[-1].cluster, "RayCluster") and "it may be submitted" not in done.err:
                assert "kubectl nrl cluster down" in done.err


def test_clean_says_how_far_it_came(monkeypatch: pytest.MonkeyPatch, late: bool) -> None:
    yards: list[test_clean.Yard] = []

    def make() -> FakeCluster:
        yards.append(test_clean.Yard(monkeypatch))
        for name in "ab":
            yards[-1].stopped(name)
        yards[-1].put("ComputeDomain", "d", run="never-made")
        yards[-1].cluster.after["delete", "RayCluster"] = lambda: [
            yards[-1].cluster.remove("Pod", f"{name}-w0")
            for name in "ab"
            if ("RayCluster", "default", f"{name}-c") not in yards[-1].cluster.objects
        ]
        return yards[-1].cluster

    begun = 0
    for done, strike in everywhere(make, lambda: yards[-1].clean("--yes"), late=late):
        if strike.wrote:
            begun += 1
            assert " of 3 were removed, or their removal goes on" in done.err
            assert "the rest: kubectl nrl clean -n default" in done.err
    assert begun


@pytest.mark.parametrize("status", [test_job_command.RUNNING, test_job_command.DONE, {}], ids=["runs", "over", "waits"])
def test_job_stop_names_the_run_and_the_command_that_goes_on(
    monkeypatch: pytest.MonkeyPatch, late: bool, status: dict[str, Any]
) -> None:
    worlds: list[test_job_command.World] = []

    def make() -> FakeCluster:
        worlds.append(test_job_command.World(monkeypatch))
        worlds[-1].stops()
        worlds[-1].put(status)
        return worlds[-1].cluster

    for done, strike in everywhere(make, lambda: worlds[-1].run("job stop id-1 -n default"), late=late):
        if strike.wrote or worlds[-1].jobs.stopped:
            assert "interrupted; run id-1 may go on, or still hold its pods" in done.err
            assert "go on stopping it: kubectl nrl job stop id-1 -n default" in done.err
