"""What `cluster down` says while pods and clusters go: a line when something changes, one line that moves on a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from long_lived_case import LongLivedWorld
from terminal import Terminal, on_a_terminal

from kubectl_nrl.commands.going_panel import words_of_left


@pytest.mark.parametrize(
    ("left", "words"),
    [
        (["raycluster/t", "pod/a", "pod/b"], "2 pods, raycluster/t"),
        (
            ["raycluster/a", "raycluster/b (held by finalizer x/y)"],
            "raycluster/b (held by finalizer x/y), raycluster/a",
        ),
        (
            ["pod/a", "pod/b (held by finalizer x/y)", "pod/c", "deployment/d"],
            "2 pods, 1 pod (held by finalizer x/y), deployment/d",
        ),
    ],
)
def test_pods_are_counted_and_what_is_held_comes_first(left: Sequence[str], words: str) -> None:
    assert words_of_left(left) == words


class World(LongLivedWorld):
    """Two clusters whose pods go one after the other, an object or two a look."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        self.infra("gym")
        self.up().ok()
        for name in ("t", "gym"):
            for number in range(2):
                labels = {"ray.io/cluster": name, "ray.io/node-type": "worker"}
                self.cluster.put({"kind": "Pod", "metadata": {"name": f"{name}-{number}", "labels": labels}})
        self.cluster.after["delete", "RayCluster"] = lambda: None
        self.looks: list[Callable[[], Any]] = [
            *(partial(self.gone, pod) for pod in ("gym-head", "gym-0", "gym-1")), partial(self.hold, "t-head"),
            *(partial(self.gone, pod) for pod in ("t-0", "t-1", "t-head")),
        ]  # fmt: skip
        monkeypatch.setattr(time, "sleep", lambda seconds: self.looks.pop(0)())

    def gone(self, pod: str) -> None:
        self.cluster.remove("Pod", pod)

    def hold(self, pod: str) -> None:
        held = self.cluster.objects["Pod", "default", pod]
        held["metadata"]["finalizers"] = ["batch/job"]
        self.cluster.put(held)


def test_a_pipe_is_told_what_is_waited_for_and_not_of_every_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    done = world.down().ok()
    assert [line for line in done.err.splitlines() if "waiting" in line] == [
        "waiting for 6 pods",
        "waiting for 2 pods, 1 pod (held by finalizer batch/job)",
        "waiting for 1 pod (held by finalizer batch/job)",
    ]
    assert done.out.splitlines() == ["raycluster/gym: deleted", "raycluster/t: deleted"]


def test_a_terminal_sees_one_line_that_goes_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    world, terminal, seen = World(monkeypatch), Terminal(100, 30), list[str]()
    on_a_terminal(monkeypatch, terminal)
    looks = world.looks
    world.looks = [lambda look=look: (seen.append(terminal.screen[-1]), look()) for look in looks]  # type: ignore[misc]
    assert world.down().exit == 0
    assert [line.split(" ", 1)[1].rpartition("  ")[0] for line in seen[:3]] == [
        "waiting for 6 pods", "waiting for 5 pods", "waiting for 4 pods",
    ]  # fmt: skip
    assert terminal.screen[-4:] == [
        "raycluster/gym: deleting", "raycluster/t: deleting", "raycluster/gym: deleted", "raycluster/t: deleted",
    ]  # fmt: skip
