"""`cluster up` and `run --raycluster` on a terminal: one picture while clusters come up, then the lines that stay; lines elsewhere."""

from __future__ import annotations

import contextlib
import io
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any, TextIO

import pytest
import yaml
from long_lived_case import CONDITIONS, LongLivedWorld
from terminal import Terminal, on_a_terminal

from kubectl_nrl.commands import up_panel
from kubectl_nrl.errors import ClusterError
from kubectl_nrl.watch import until_ready


class World(LongLivedWorld):
    """Clusters that stay as they were created until a test says otherwise, and a terminal on which people look."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        self.monkeypatch = monkeypatch
        self.terminal = Terminal(100, 40)
        self.keeps_down |= {"RayCluster", "Deployment"}
        self.written: list[str] = []
        monkeypatch.setattr(up_panel, "monotonic", lambda: 0.0)
        monkeypatch.setattr(until_ready, "JUDGE", 0.02)
        monkeypatch.setattr(until_ready, "PROBE", 0.02)

    def on_a_terminal(self, stdout: TextIO | None = None) -> None:
        on_a_terminal(self.monkeypatch, self.terminal, stdout)
        write = self.terminal.write
        self.monkeypatch.setattr(self.terminal, "write", lambda text: self.written.append(text) or write(text))

    @property
    def moved(self) -> bool:
        """Whether the cursor was moved, as only a picture does."""
        return bool(re.search(r"\x1b\[\d*[AJKM]", "".join(self.written)))

    def starts(self, name: str, **head: Any) -> None:
        """Its head pod exists, in that status."""
        labels = {"ray.io/cluster": name, "ray.io/node-type": "head"}
        pod = {"metadata": {"name": f"{name}-head", "labels": labels}, "spec": {}, "status": head}
        self.cluster.put({"kind": "Pod", **pod})

    def gets_up(self, kind: str, name: str) -> None:
        up = {"conditions": CONDITIONS} if kind == "RayCluster" else {"availableReplicas": 1, "updatedReplicas": 1}
        self.cluster.set_status(kind, name, **up)

    def made(self, count: int) -> bool:
        return len(self.names("RayCluster") + self.names("Deployment")) >= count

    def sees(self, text: str) -> Callable[[], bool]:
        return lambda: any(text in row for row in list(self.terminal.screen))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


@contextlib.contextmanager
def meanwhile(*steps: tuple[Callable[[], bool], Callable[[], Any]]) -> Iterator[None]:
    """Each act as soon as its condition holds, in a thread beside the test."""
    over, pause = threading.Event(), threading.Event()

    def run() -> None:
        for holds, act in steps:
            while not holds():
                if over.is_set():
                    return
                pause.wait(0.01)
            act()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


NEW = "accepted, KubeRay has not looked at it yet"
NO_IMAGE = {
    "phase": "Pending",
    "containerStatuses": [
        {"name": "ray", "image": "x:typo", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}}
    ],
}


def test_all_of_them_are_one_picture_and_lines_stay(world: World) -> None:
    world.infra("gym", deployment=True)
    world.on_a_terminal()
    seen: list[list[str]] = []
    with meanwhile(
        (lambda: world.made(3), lambda: world.starts("t", **NO_IMAGE)),
        (world.sees('image "x:typo" not found'), lambda: world.gets_up("RayCluster", "gym")),
        (world.sees("1 of 3 are up"), lambda: seen.append(list(world.terminal.screen))),
        (lambda: True, lambda: world.gets_up("Deployment", "judge")),
        (world.sees("2 of 3 are up"), lambda: world.gets_up("RayCluster", "t")),
    ):
        assert world.up().exit == 0
    picture = seen[0][next(at for at, row in enumerate(seen[0]) if "of 3 are up" in row) :]
    assert [row for row in picture if row.startswith(("raycluster/", "deployment/"))] == [
        "raycluster/gym: ready, 0 workers, 2/2 pods ready",
        f"raycluster/t: {NEW}",
        "deployment/judge: 0/1 replicas ready",
    ]
    assert '  head: ImagePullBackOff, image "x:typo" not found' in picture
    after = world.terminal.screen[next(at for at, row in enumerate(world.terminal.screen) if "created in" in row) :]
    assert after == [
        'raycluster/gym created in namespace "default"',
        'raycluster/t created in namespace "default"',
        'deployment/judge created in namespace "default"',
        "3 of 3 are up after 0s, 5/5 pods ready",
        "raycluster/gym: created, ready, 0 workers",
        "raycluster/t: created, ready, 0 workers",
        "deployment/judge: created, ready, 1 replica",
    ]


def test_what_is_up_already_is_never_drawn(world: World) -> None:
    world.keeps_down.clear()
    world.up().ok()
    world.on_a_terminal()
    assert world.up().exit == 0
    assert "raycluster/t is ready\n" in world.written
    assert not world.moved


def test_a_pipe_gets_a_line_per_change(world: World) -> None:
    with meanwhile(
        (lambda: world.made(1), lambda: world.starts("t", **NO_IMAGE)),
        (lambda: "list" in {verb for verb, kind, _ in world.cluster.calls if kind == "Event"}, lambda: world.gets_up("RayCluster", "t")),
    ):  # fmt: skip
        done = world.up().ok()
    assert done.err.splitlines()[-4:] == [
        'raycluster/t created in namespace "default"',
        f"raycluster/t: {NEW}",
        'raycluster/t: head: ImagePullBackOff, image "x:typo" not found',
        "raycluster/t is ready",
    ]


@pytest.mark.parametrize(("flags", "env"), [("-q", {}), ("", {"TERM": "dumb"})])
def test_where_no_picture_is_wanted_none_is_drawn(world: World, flags: str, env: dict[str, str]) -> None:
    world.on_a_terminal()
    with meanwhile((lambda: world.made(1), lambda: world.gets_up("RayCluster", "t"))):
        assert world.up(flags, env=env).exit == 0
    assert not world.moved
    assert ("raycluster/t is ready\n" in world.written) == (not flags)


def test_no_colour_draws_without_colours(world: World) -> None:
    world.on_a_terminal()
    with meanwhile((world.sees(f"raycluster/t: {NEW}, 0s"), lambda: world.gets_up("RayCluster", "t"))):
        assert world.up(env={"NO_COLOR": "1"}).exit == 0
    assert world.moved
    assert "\x1b[0m" not in "".join(world.written)
    assert "raycluster/t is up after 0s, 2/2 pods ready" in world.terminal.screen


def test_json_stands_alone_on_stdout_and_the_picture_on_the_terminal_of_stderr(world: World) -> None:
    out = io.StringIO()
    world.on_a_terminal(stdout=out)
    with meanwhile((world.sees("raycluster/t: accepted"), lambda: world.gets_up("RayCluster", "t"))):
        assert world.up("-o json").exit == 0
    assert out.getvalue().startswith("{")
    assert "\x1b" not in out.getvalue()


def test_a_cluster_is_not_up_before_its_daemon_is(world: World) -> None:
    answers: list[str] = []

    def ask(self: Any) -> None:
        if not answers:
            raise ClusterError("its health URL answers 503", reason="Unhealthy")

    world.monkeypatch.setattr("kubectl_nrl.watch.UrlHealth.ask", ask)
    world.infra("gym")
    infra = yaml.safe_load(world.project.read("infra.yaml"))
    infra["kuberay"]["gym"]["daemon"] = {"entrypoint": "serve", "healthCheckUrl": "http://gym-head-svc:9090/"}
    world.project.write("infra.yaml", infra)
    world.on_a_terminal()
    world.keeps_down.clear()
    with meanwhile(
        (world.sees("1 of 2 are up"), lambda: None),
        (
            world.sees("raycluster/gym: ready, 0 workers; daemon gym-daemon of gym: its health URL answers 503"),
            lambda: answers.append("200"),
        ),
    ):
        assert world.up().exit == 0
    assert "2 of 2 are up after 0s, 4/4 pods ready" in world.terminal.screen
    assert not [row for row in world.terminal.screen if "503" in row]


def test_clusters_that_are_used_as_they_are_share_a_picture(world: World) -> None:
    world.infra("gym", "generation")
    world.keeps_down.clear()
    world.up("--target kuberay.gym --target kuberay.generation").ok()
    for name in ("gym", "generation"):
        world.cluster.set_status("RayCluster", name, conditions=[])
    attach = {"gym": "gym", "generation": "generation"}
    world.infra(launch={"entrypoint": "true", "codeSource": "image", "codePath": "/opt/x", "attach": attach})
    world.on_a_terminal()
    with meanwhile(
        (world.sees("0 of 2 are up"), lambda: world.gets_up("RayCluster", "gym")),
        (world.sees("1 of 2 are up"), lambda: world.gets_up("RayCluster", "generation")),
    ):
        assert world.run("run recipe.yaml --infra infra.yaml --raycluster").exit == 0
    assert "2 of 2 are up after 0s, 4/4 pods ready" in world.terminal.screen
    assert "launch.attach.generation: raycluster/generation is up" in world.terminal.screen


def test_what_was_waited_for_in_vain_stays_on_the_screen(world: World) -> None:
    world.infra("gym")
    world.on_a_terminal()
    with meanwhile(
        (lambda: world.made(2), lambda: world.starts("t", **NO_IMAGE)),
        (world.sees('image "x:typo" not found'), lambda: world.cluster.remove("RayCluster", "gym")),
    ):
        assert world.up().exit == 3
    text = "\n".join(world.terminal.screen)
    assert text.index('  head: ImagePullBackOff, image "x:typo" not found') < text.index("raycluster/t stay")


def test_replicas_of_a_deployment_are_told_as_a_group(world: World) -> None:
    world.infra(deployment=True)
    world.on_a_terminal()
    world.keeps_down.remove("RayCluster")

    def pods() -> None:
        labels = world.cluster.objects["Deployment", "default", "judge"]["spec"]["selector"]["matchLabels"]
        owner = {"kind": "ReplicaSet", "name": "judge-1", "uid": "rs"}
        meta = {"name": "judge-1-a", "labels": labels, "ownerReferences": [owner]}
        world.cluster.put({"kind": "Pod", "metadata": meta, "spec": {}, "status": NO_IMAGE})

    with meanwhile(
        (lambda: world.made(2), pods),
        (world.sees("  replicas  0/1 ready  1 ImagePullBackOff"), lambda: None),
        (
            world.sees('  1/1 replicas: ImagePullBackOff, image "x:typo" not found'),
            lambda: world.gets_up("Deployment", "judge"),
        ),
    ):
        assert world.up().exit == 0


def test_a_deployment_whose_pods_are_refused_says_what_refuses_them(world: World) -> None:
    world.infra(deployment=True)
    world.on_a_terminal()
    world.keeps_down.remove("RayCluster")
    message = 'pods "judge-1-a" is forbidden: exceeded quota: small, requested: cpu=8, used: cpu=0, limited: cpu=4'
    refused = [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}]
    with meanwhile(
        (lambda: world.made(2), lambda: world.cluster.set_status("Deployment", "judge", conditions=refused)),
        (
            world.sees("  1/1 replicas: QuotaExceeded, exceeded quota: small"),
            lambda: world.gets_up("Deployment", "judge"),
        ),
    ):
        assert world.up().exit == 0
