"""A cluster up and down, whole: which pieces each depth has, in which order.

Both directions may be repeated and may follow a kill at any point: `up` starts what is absent, `down` removes what is
there.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from . import (
    containers,
    control_plane,
    crds,
    fake_nodes,
    go_builds,
    images,
    kuberay,
    kuberay_pod,
    kueue,
    machine,
    node,
    packages,
    processes,
)
from .cache import locked, say
from .errors import ClusterError
from .state import State

_START_ORDER = ("etcd", "apiserver", "controller-manager", "scheduler", "containerd", "kubelet")  # others need these


def up(state: State, *, with_kuberay: bool = True) -> None:
    """Bring a cluster up to its depth; returns when it can be used."""
    started = time.monotonic()
    with locked(state.root.with_name(state.root.name + ".lock")):
        state.claim()
        if not any(processes.running(state, name) for name in processes.names(state)):
            _remove(state)  # what was killed as a whole (a reboot, the end of a CI run) is not worth mending
            shutil.rmtree(state.logs)
        if state.depth == "node":
            node.prepare(state)
        if state.depth == "kwok":
            fake_nodes.prepare(state)
        crds.plant(state)
        control_plane.up(state)
        crds.up(state)
        if state.depth == "kwok":
            fake_nodes.up(state)
        if state.depth == "node":
            node.up(state)
        if not with_kuberay:
            kuberay.down(state)
            kuberay_pod.down(state)
        elif state.depth != "api" and not kuberay_pod.deployed(state):
            kuberay.up(state)
        if kueue.wanted(state):
            kueue.up(state)
    say(f"{state.depth} depth is up after {time.monotonic() - started:.1f} s")


def down(state: State) -> None:
    """Stop everything and remove the state but the logs; does nothing to a cluster that is not there."""
    with locked(state.root.with_name(state.root.name + ".lock")):
        _remove(state)


def operator(state: State, how: str) -> None:
    """Have the KubeRay operator as a process (`start`), in a pod (`pod`) or not at all (`stop`)."""
    with _of_a_running_cluster(state):
        if how == "pod" and state.depth != "node":
            raise ClusterError("pods run at node depth only")
        kuberay.down(state)
        kuberay_pod.down(state)
        if how == "start":
            kuberay.up(state)
        elif how == "pod":
            kuberay_pod.up(state)


def queues(state: State, how: str) -> None:
    """Have Kueue as a process (`start`) or not at all (`stop`)."""
    with _of_a_running_cluster(state):
        if state.depth == "api":
            raise ClusterError("Kueue manages RayJobs, which nothing runs at api depth: --depth kwok, or node")
        (kueue.up if how == "start" else kueue.down)(state)


@contextmanager
def _of_a_running_cluster(state: State) -> Iterator[None]:
    with locked(state.root.with_name(state.root.name + ".lock")):
        if not processes.running(state, "apiserver"):
            raise ClusterError(f"the {state.depth} depth is not up; start it: tests/cluster/up --depth {state.depth}")
        yield


def _remove(state: State) -> None:
    for name in stop_order(processes.names(state)):
        if name == "containerd":  # the kubelet is stopped by now and restarts nothing
            containers.remove_all(state)
        processes.stop(state, name, grace=5.0)
    if state.depth == "node":
        machine.clean(state)
    if state.depth == "kwok":
        fake_nodes.clean(state)
    state.empty()


def stop_order(names: list[str]) -> list[str]:
    """Return the names so that each process is stopped before those it needs, whenever each was started."""
    return sorted(names, key=lambda name: -_START_ORDER.index(name) if name in _START_ORDER else -len(_START_ORDER))


def is_up(state: State) -> bool:
    """Tell whether every process that was started still runs."""
    started = processes.names(state)
    return bool(started) and all(processes.running(state, name) for name in started)


def build(depth: str) -> None:
    """Build every cached piece of a depth, so that a later `up` is a warm one."""
    pieces: list[Callable[[], object]] = [
        packages.kubectl,
        go_builds.etcd,
        go_builds.kubernetes,
        go_builds.kuberay_crds,
    ]
    if depth != "api":
        pieces.append(go_builds.kuberay_operator)
    if depth == "kwok":
        pieces += [go_builds.kwok, go_builds.kueue, go_builds.kueue_config]
    if depth == "node":
        pieces += [go_builds.coredns, images.pause_image, images.ray_image, images.symlink_image, packages.browser]
    for piece in pieces:
        piece()
