"""Fake nodes by kwok: pods go to Running and Ready at once and run nothing, so a fleet costs no memory.

For schedules and sizes that no test machine has; nothing that needs a process in a pod (a log, a Ray job) works here.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request

from . import certificates, control_plane, go_builds, processes
from .state import State

NODES = 4


def up(state: State) -> None:
    """Start kwok and make a few nodes; tests add their own with `fake_node`."""
    kubeconfig = certificates.kubeconfig(state, "kwok", "system:masters", server_url=control_plane.server_url(state))
    port = state.port("kwok")
    flags = [f"--kubeconfig={kubeconfig}", "--manage-all-nodes=true", f"--server-address=127.0.0.1:{port}"]
    processes.start(state, "kwok", [go_builds.kwok(), *flags])
    processes.wait_until(state, "kwok", lambda: _healthy(f"http://127.0.0.1:{port}/healthz"))
    nodes = [fake_node(f"fake-{number}") for number in range(NODES)]
    control_plane.kubectl(
        state, "apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes})
    )
    control_plane.kubectl(state, "wait", "nodes", "--all", "--for=condition=Ready", "--timeout=60s")


def fake_node(name: str, labels: dict[str, str] | None = None, **extra: str) -> dict[str, object]:
    """Return a Node manifest of a large machine; `extra` are further resources, as `nvidia.com/gpu` to a count."""
    capacity = {"cpu": "144", "memory": "924Gi", "pods": "110", **extra}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "type": "kwok", **(labels or {})}},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
