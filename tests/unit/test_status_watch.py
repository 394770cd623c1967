"""`status -w`: a line per change when nobody draws, the end of one run, outages, and the picture's place in `watch.Follow`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from fake_cluster import FakeCluster
from status_case import DONE, NO_IMAGE, READY, RUNNING, STARTING, World

from kubectl_nrl.commands import status_watch
from kubectl_nrl.errors import ClusterError
from kubectl_nrl.watch import Follow, RunTarget


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What happens between the looks of `status -w`; after the last of it, Ctrl-C."""

    def play(*steps: Callable[[], Any]) -> None:
        left = list(steps)

        def sleep(seconds: float) -> None:
            if not left:
                raise KeyboardInterrupt
            left.pop(0)()

        monkeypatch.setattr(status_watch.time, "sleep", sleep)

    return play


def once_watched(world: World, act: Callable[[], Any]) -> None:
    """Do something as soon as somebody watches a RayJob, who has then been given it as it is."""

    def wait() -> None:
        while not world.cluster.watches("RayJob"):
            pause.wait(0.01)
        act()

    pause = threading.Event()
    threading.Thread(target=wait, daemon=True).start()


def test_several_are_told_by_a_line_per_change_until_ctrl_c(world: World, script: Callable[..., None]) -> None:
    world.rayjob("a", STARTING, {"head": NO_IMAGE})
    script(
        lambda: None,
        lambda: world.cluster.set_status("RayJob", "a", **RUNNING),
        lambda: world.rayjob("b", RUNNING, {"head": READY}),
        lambda: world.cluster.set_status("RayJob", "a", **DONE),
        lambda: world.cluster.remove("RayJob", "b"),
    )
    done = world.run("status -w")
    assert done.exit == 130
    assert done.out.splitlines() == [
        'rayjob/a: Initializing, 0/1 pods ready; head: ImagePullBackOff, image "x:typo" not found',
        'rayjob/a: Running, 0/1 pods ready; head: ImagePullBackOff, image "x:typo" not found',
        "rayjob/b: Running, 1/1 pods ready",
        "rayjob/a: SUCCEEDED, 0/1 pods ready",
        "rayjob/b: gone",
    ]
    assert "Traceback" not in done.err


def test_that_nothing_runs_is_said_once(world: World, script: Callable[..., None]) -> None:
    script(lambda: None, lambda: None)
    assert world.run("status -w").out.count("nothing of yours runs") == 1


def test_an_outage_is_said_once_and_looking_goes_on(world: World, script: Callable[..., None]) -> None:
    world.rayjob("a", RUNNING, {"head": READY})
    lost = ClusterError("cannot reach the API server", reason="Unreachable")
    script(
        lambda: world.cluster.faults.update({("list", "RayJob"): lost}),
        lambda: None,
        world.cluster.faults.clear,
    )
    done = world.run("status -w")
    assert done.exit == 130
    assert done.err.count("connection to the API server lost") == 1
    assert done.err.count("connection to the API server is back") == 1
    assert done.out.splitlines() == ["rayjob/a: Running, 1/1 pods ready"]


def test_a_refusal_in_the_middle_ends_it(world: World, script: Callable[..., None]) -> None:
    world.rayjob("a", RUNNING, {"head": READY})
    script(lambda: world.cluster.faults.update({("list", "RayJob"): ClusterError("forbidden", status=403)}))
    assert world.run("status -w").exit == 3


def test_a_named_ray_cluster_is_watched_until_it_is_gone(world: World, script: Callable[..., None]) -> None:
    world.raycluster("gym", {"head": READY})
    script(lambda: None, lambda: world.cluster.remove("RayCluster", "gym"))
    assert world.run("status gym -w").ok().out.splitlines() == ["raycluster/gym: Ready, 1/1 pods ready", "gym: gone"]


def test_one_run_is_watched_to_its_end_whatever_that_is(world: World) -> None:
    world.rayjob("a", STARTING, {"head": READY})
    failed = {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "reason": "AppFailed", "message": "exit 3"}
    once_watched(world, lambda: world.cluster.set_status("RayJob", "a", **failed))
    done = world.run("status a -w").ok()
    assert done.out.splitlines()[0] == "Initializing: its Ray cluster is starting"
    assert "rayjob/a: FAILED (AppFailed)" in done.out


def test_one_run_as_json_is_its_last_state(world: World) -> None:
    world.rayjob("a", RUNNING, {"head": READY})
    once_watched(world, lambda: world.cluster.set_status("RayJob", "a", **DONE))
    assert world.items("status a -w")[0]["state"] == "SUCCEEDED"


def test_a_run_that_is_over_is_told_at_once(world: World) -> None:
    world.rayjob("a", DONE)
    assert "rayjob/a: SUCCEEDED" in world.run("status a -w").ok().out


@pytest.mark.parametrize(
    ("gone", "code", "says"),
    [(True, 5, "nothing of it runs any more"), (False, 6, "its driver may still run: a-x-head")],
)
def test_a_run_that_is_deleted_is_over_when_nothing_of_it_is_left(
    world: World, monkeypatch: pytest.MonkeyPatch, gone: bool, code: int, says: str
) -> None:
    monkeypatch.setattr("kubectl_nrl.commands.run_deleted.GONE", 0.0)
    world.rayjob("a", RUNNING, {"head": READY})

    def delete() -> None:
        if gone:
            world.cluster.remove("Pod", "a-x-head")
            world.cluster.remove("RayCluster", "a-x")
        world.cluster.remove("RayJob", "a")

    once_watched(world, delete)
    done = world.run("status a -w")
    assert done.exit == code
    assert "was deleted before it ended, not by this command" in done.err
    assert says in done.err


def test_what_the_picture_shows_is_not_said_as_well() -> None:
    cluster = FakeCluster()
    job = cluster.put({"kind": "RayJob", "metadata": {"name": "r"}})
    said: list[str] = []
    pictures: list[Any] = []
    follow = Follow(
        cluster, RunTarget("default", "r", job["metadata"]["uid"], "id"), say=said.append, view=pictures.append,
        shown=lambda: True,
    )  # fmt: skip
    cluster.say("LOST", ClusterError("away"))
    for state, job_status in (("Initializing", ""), ("Running", "RUNNING"), ("Complete", "SUCCEEDED")):
        cluster.set_status("RayJob", "r", jobDeploymentStatus=state, jobStatus=job_status)
    try:
        assert follow.until_final(60).how == "final"
    finally:
        follow.close()
    assert pictures[-1].state == "SUCCEEDED"
    assert not [line for line in said if "connection" not in line]
