"""Fake nodes by kwok: pods go to Running and Ready at once and run nothing, so a fleet costs no memory.

The pods' addresses are made local to this machine: what is sent to a fake pod must not leave by the default route, and
fake_ray.py can answer there as the pod's Ray. kwok plays the kubelet, with fake_kubelet.py before it for port-forwards.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

from waiting import PATIENCE

from . import certificates, control_plane, fake_kubelet, fake_ray, go_builds, packages, processes, versions
from .cache import locked
from .errors import CannotRunHere, checked
from .state import CHECKOUT, State

NODES = 4


def prepare(state: State) -> None:
    """Check that this host can hold fake nodes, and take a range of addresses for their pods."""
    if sys.platform != "linux" or os.geteuid() != 0:
        raise CannotRunHere("fake nodes need Linux and root, for a local route to their pods' addresses")
    packages.ensure_debian({"iproute2": versions.NODE_PACKAGES["iproute2"]})
    with locked(Path("/run/lock/kubectl-nrl-tests-routes")):
        pod_range = state.facts().get("pod_range")
        present = checked(["ip", "route", "show", "table", "local"])
        if not pod_range:
            pod_range = next(free for n in range(256) if (free := f"10.89.{n}.0/24") not in present)
            state.record(pod_range=pod_range)
        if pod_range not in present:
            checked(["ip", "route", "add", "local", pod_range, "dev", "lo"])


def clean(state: State) -> None:
    """Give the range of addresses back."""
    pod_range = state.facts().get("pod_range")
    if pod_range:
        subprocess.run(["ip", "route", "delete", "local", pod_range, "dev", "lo"], capture_output=True, check=False)


def up(state: State) -> None:
    """Start kwok and make a few nodes; tests add their own with `fake_node`."""
    kubeconfig = certificates.kubeconfig(state, "kwok", "system:masters", server_url=control_plane.server_url(state))
    port = state.port("kwok")
    cert, key = certificates.server(state, "kwok-kubelet", ["127.0.0.1"])
    flags = [
        f"--kubeconfig={kubeconfig}",
        f"--config={state.write('kwok.yaml', _config(state))}",
        "--manage-all-nodes=true",
        # A lease that is renewed, as a kubelet's is: kwok's heartbeat alone comes every 55 s, and after 50 s the node controller
        # takes every pod's readiness away.
        "--node-lease-duration-seconds=40",
        f"--cidr={state.facts()['pod_range']}",
        f"--server-address=127.0.0.1:{port}",
        "--node-ip=127.0.0.1",
        f"--node-port={state.port('kubelet')}",
        f"--tls-cert-file={cert}",
        f"--tls-private-key-file={key}",
    ]
    processes.start(state, "kwok", [go_builds.kwok(), *flags])
    processes.wait_until(state, "kwok", lambda: _healthy(f"http://127.0.0.1:{port}/healthz"))
    _kubelet(state, cert, key)
    _heads(state)
    nodes = [fake_node(f"fake-{number}") for number in range(NODES)]
    control_plane.kubectl(
        state, "apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes})
    )
    control_plane.kubectl(state, "wait", "nodes", "--all", "--for=condition=Ready", f"--timeout={PATIENCE:.0f}s")


def fake_node(name: str, labels: dict[str, str] | None = None, **extra: str) -> dict[str, object]:
    """Return a Node manifest of a large machine; `extra` are further resources, as `nvidia.com/gpu` to a count."""
    capacity = {"cpu": "144", "memory": "924Gi", "pods": "110", **extra}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "type": "kwok", **(labels or {})}},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def pod_log(state: State, *, previous: bool = False) -> Path:
    """The file that is the log of every fake container, in the form a kubelet's have (CRI): whoever tests logs writes it."""
    path = state.dir("pod-logs") / ("previous.log" if previous else "present.log")
    path.touch()
    return path


def _config(state: State) -> str:
    """Return kwok's rules: where port-forwards lead, and what logs are read."""
    forwards = fake_kubelet.rules(state.facts()["pod_range"], (fake_ray.DASHBOARD, fake_ray.AGENT))
    logs = {"logsFile": str(pod_log(state)), "previousLogsFile": str(pod_log(state, previous=True)), "follow": True}
    of_logs = {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "ClusterLogs",
        "metadata": {"name": "ray"},
        "spec": {"logs": [logs]},
    }
    return "\n---\n".join(map(json.dumps, [*forwards, of_logs]))


def _kubelet(state: State, tls_cert: Path, tls_key: Path) -> None:
    flags = {
        "host": "127.0.0.1",
        "port": state.port("kubelet"),
        "kwok": state.port("kwok"),
        "tls-cert": tls_cert,
        "tls-key": tls_key,
        **_of_api_server(state),
    }
    _start(state, "fake-kubelet", flags)
    address = ("127.0.0.1", state.port("kubelet"))
    processes.wait_until(state, "fake-kubelet", lambda: _listens(address))


def _heads(state: State) -> None:
    flags = {
        "pod-range": state.facts()["pod_range"],
        "directory": state.dir("fake-ray"),
        "health": state.port("fake-ray"),
        **_of_api_server(state),
    }
    _start(state, "fake-ray", flags)
    url = f"http://127.0.0.1:{state.port('fake-ray')}/api/version"
    processes.wait_until(state, "fake-ray", lambda: _healthy(url))


def _of_api_server(state: State) -> dict[str, object]:
    """Where it is, and who asks."""
    cert, key = certificates.client(state, "kwok", "system:masters")
    server = control_plane.server_url(state)
    return {"server": server, "ca": certificates.authority(state), "cert": cert, "key": key}


def _start(state: State, name: str, flags: dict[str, object]) -> None:
    # Not sys.executable: whoever brings the cluster up next may be another Python, and must not restart this.
    python = shutil.which("python3", path=processes.PATH) or sys.executable
    argv = [python, "-m", f"cluster.{name.replace('-', '_')}", *(f"--{flag}={value}" for flag, value in flags.items())]
    processes.start(state, name, argv, env={"PYTHONPATH": str(CHECKOUT / "tests")})


def _listens(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=2).close()
        return True
    except OSError:
        return False


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
