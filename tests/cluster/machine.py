"""What a node needs of the machine itself: to be its only node, a bridge, forwarding.

A machine holds one node: kube-proxy's rules and the bridge are machine-wide. A file in /run names the owner, so that a
second checkout refuses instead of breaking the first, and what a killed cluster left can be removed by the next.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from . import processes, traces
from .cache import locked, say
from .control_plane import NODE_ADDRESS
from .errors import CannotRunHere, ClusterError, checked
from .state import CHECKOUT, State
from .traces import BRIDGE, RUN, bridge_exists

POD_RANGE = "10.88.0.0/16"

_OWNER = RUN / "owner.json"
_FORWARD = Path("/proc/sys/net/ipv4/ip_forward")


def require_node_host() -> None:
    """Raise CannotRunHere when this host cannot run a node."""
    if sys.platform != "linux":
        raise CannotRunHere("a node runs on Linux only; use --kubeconfig with a cluster that exists (kind, k3d)")
    if os.geteuid() != 0:
        raise CannotRunHere("a node needs root (containerd, iptables, mounts); run this with sudo")


def claim(state: State) -> None:
    """Make this state the machine's owner; refuses while another's node lives, removes what a dead one left.

    Raises CannotRunHere, which says how to stop the other.
    """
    with locked(Path("/run/lock/kubectl-nrl-tests-node")):
        owner = owner_of_machine()
        if owner and owner["state"] == str(state.root) and owner["boot"] == processes.boot_id():
            return
        if owner:
            other = State(Path(owner["state"]), "node")
            if any(processes.running(other, name) for name in processes.names(other)):
                raise CannotRunHere(
                    f"this machine's one node belongs to {owner['checkout']}; stop it with: "
                    f"{owner['checkout']}/tests/cluster/down --depth node"
                )
            say(f"removing what a dead node of {owner['checkout']} left")
            clean(other)
        elif bridge_exists():
            raise ClusterError(
                f"a bridge {BRIDGE} exists that is not ours (another Kubernetes or podman on this host?)"
            )
        RUN.mkdir(mode=0o711, exist_ok=True)
        facts = {"state": str(state.root), "checkout": str(CHECKOUT), "boot": processes.boot_id()}
        _OWNER.write_text(json.dumps({**facts, "ip_forward": _FORWARD.read_text().strip()}))


def owner_of_machine() -> dict[str, str] | None:
    """Return what the owner file says (state, checkout, boot, ip_forward), None when nobody owns the machine."""
    try:
        return dict(json.loads(_OWNER.read_text()))
    except (OSError, json.JSONDecodeError):
        return None


def bridge_up() -> None:
    """Make the bridge with the node's address before anything binds to it, and let the kernel forward."""
    if not bridge_exists():
        checked(["ip", "link", "add", BRIDGE, "type", "bridge"])
    checked(["ip", "addr", "replace", f"{NODE_ADDRESS}/{POD_RANGE.split('/')[1]}", "dev", BRIDGE])
    checked(["ip", "link", "set", BRIDGE, "up"])
    _FORWARD.write_text("1")


def clean(state: State) -> None:
    """Remove every trace of a node whose processes are stopped, and give the machine up.

    Does nothing to a machine that another state owns.
    """
    owner = owner_of_machine()
    if owner is None or owner["state"] != str(state.root):
        return
    traces.remove()
    if owner["boot"] == processes.boot_id():
        _FORWARD.write_text(owner["ip_forward"])
