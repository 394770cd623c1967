"""The KubeRay operator as a process of this machine.

It asks Ray's dashboard through the API server's proxy: a process outside the cluster cannot resolve Service names.
"""

from __future__ import annotations

import urllib.error
import urllib.request

from . import certificates, control_plane, go_builds, processes
from .state import State

NAME = "kuberay"


def up(state: State) -> None:
    """Start the operator and wait until it is ready."""
    kubeconfig = certificates.kubeconfig(
        state, "kuberay-operator", "system:masters", server_url=control_plane.server_url(state)
    )
    health = f"127.0.0.1:{state.port('kuberay-health')}"
    flags = [
        f"-kubeconfig={kubeconfig}",
        "-enable-leader-election=false",
        "-use-kubernetes-proxy",
        f"-metrics-addr=127.0.0.1:{state.port('kuberay-metrics')}",
        f"-health-probe-bind-address={health}",
    ]
    processes.start(state, NAME, [go_builds.kuberay_operator(), *flags])
    processes.wait_until(state, NAME, lambda: _healthy(f"http://{health}/readyz"))


def down(state: State) -> None:
    """Stop the operator; the CRDs and every object stay, as when its pod is gone."""
    processes.stop(state, NAME)


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
