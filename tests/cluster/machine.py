"""What a node needs of the machine itself: who owns it, its bridge and sysctl, and the removal of every trace.

A machine holds one node: kube-proxy's rules and the bridge are machine-wide. A file in /run names the owner, so that a
second checkout refuses instead of breaking the first, and what a killed cluster left can be removed by the next.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from . import processes
from .cache import locked, say
from .control_plane import NODE_ADDRESS
from .errors import CannotRunHere, ClusterError, checked
from .state import CHECKOUT, State

RUN = Path("/run/kubectl-nrl-tests")  # sockets and containers: short paths, since a socket's may have 107 bytes
VAR = Path("/var/lib/kubectl-nrl-tests")  # the kubelet's directory, full of mounts
POD_LOGS = VAR / "pod-logs"
BRIDGE = "cni0"
POD_RANGE = "10.88.0.0/16"
NETWORK = "kubectl-nrl-tests"  # the CNI network's name; it stands in the comments of the rules that CNI plugins make

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

    Raises ClusterError that says how to stop the other.
    """
    with locked(Path("/run/lock/kubectl-nrl-tests-node")):
        owner = owner_of_machine()
        if owner and owner["state"] == str(state.root) and owner["boot"] == processes.boot_id():
            return
        if owner:
            other = State(Path(owner["state"]), "node")
            if any(processes.running(other, name) for name in processes.names(other)):
                raise ClusterError(
                    f"this machine's one node belongs to {owner['checkout']}; stop it with: "
                    f"{owner['checkout']}/tests/cluster/down --depth node"
                )
            say(f"removing what a dead node of {owner['checkout']} left")
            clean(other)
        elif _bridge_exists():
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
    if not _bridge_exists():
        checked(["ip", "link", "add", BRIDGE, "type", "bridge"])
    checked(["ip", "addr", "replace", f"{NODE_ADDRESS}/{POD_RANGE.split('/')[1]}", "dev", BRIDGE])
    checked(["ip", "link", "set", BRIDGE, "up"])
    _FORWARD.write_text("1")


def clean(state: State) -> None:
    """Remove containers, mounts, network namespaces, rules and the bridge of a node whose processes are stopped.

    Does nothing to a machine that another state owns.
    """
    owner = owner_of_machine()
    if owner is None or owner["state"] != str(state.root):
        return
    namespaces = _network_namespaces()
    _end_shims()
    _unmount_below(RUN, VAR)
    for path in namespaces:
        _unmount(path)
        path.unlink(missing_ok=True)
    _remove_rules()
    if _bridge_exists():
        subprocess.run(["ip", "link", "delete", BRIDGE], check=False)
    for link in Path("/var/log/containers").glob("*.log"):
        if link.is_symlink() and os.readlink(link).startswith(str(POD_LOGS)):
            link.unlink()
    _remove_cgroups()
    if owner["boot"] == processes.boot_id():
        _FORWARD.write_text(owner["ip_forward"])
    for directory in (VAR, RUN):
        shutil.rmtree(directory, ignore_errors=True)
        if directory.exists():
            raise ClusterError(
                f"{directory} cannot be removed; is something mounted below it? (grep {directory} /proc/mounts)"
            )


def _bridge_exists() -> bool:
    return Path(f"/sys/class/net/{BRIDGE}").exists()


def _network_namespaces() -> list[Path]:
    """Return the pods' network namespaces, as the bundles of our containers name them."""
    found = set()
    for config in RUN.glob("containerd/io.containerd.runtime.v2.task/k8s.io/*/config.json"):
        try:
            spec = json.loads(config.read_text())
        except (OSError, json.JSONDecodeError):
            continue
        for namespace in spec.get("linux", {}).get("namespaces", []):
            path = Path(namespace.get("path", ""))
            if namespace.get("type") == "network" and path.parent.name == "netns":
                found.add(path)
    return sorted(found)


def _end_shims() -> None:
    """Kill the containers and the shims that hold them: those whose command line names our containerd's socket."""
    mark = str(RUN / "containerd.sock").encode()
    shims = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if Path(words[0].decode(errors="replace")).name == "containerd-shim-runc-v2" and mark in words:
            shims.append(int(path.parent.name))
    for pid in _descendants(shims) + shims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{pid}/exe").exists() for pid in shims) and time.monotonic() < deadline:
        time.sleep(0.05)


def _descendants(pids: list[int]) -> list[int]:
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found: list[int] = []
    todo = list(pids)
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def _unmount_below(*roots: Path) -> None:
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for point in reversed(mounted):
        path = Path(point.replace("\\040", " "))
        if any(root in path.parents for root in roots):
            _unmount(path)


def _unmount(path: Path) -> None:
    subprocess.run(["umount", "--lazy", path], capture_output=True, check=False)


def _remove_cgroups() -> None:
    """Remove the kubelet's control groups, in every hierarchy; they are empty once the containers are gone."""
    for top in [*Path("/sys/fs/cgroup").glob("kubepods"), *Path("/sys/fs/cgroup").glob("*/kubepods")]:
        for directory, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):  # a container that was killed a moment ago; an empty group harms nobody
                os.rmdir(directory)


def _remove_rules() -> None:
    """Remove the chains of kube-proxy and of our CNI network, and every rule that leads to them."""
    for command in ("iptables", "ip6tables"):
        if not shutil.which(f"{command}-save"):
            continue
        saved = subprocess.run([f"{command}-save"], capture_output=True, text=True, check=False).stdout
        script = removal_script(saved)
        if script:
            checked([f"{command}-restore", "--noflush"], stdin=script)


def removal_script(saved: str) -> str:
    """Return what `iptables-restore --noflush` reads to remove our chains and rules from `saved` (iptables-save)."""
    script = []
    for table in saved.split("*")[1:]:
        name, *lines = table.splitlines()
        ours = {line[1:].split()[0] for line in lines if line.startswith(":KUBE-")}
        for line in lines:
            if line.startswith("-A") and NETWORK in line:
                ours |= {word for word in line.split() if word.startswith("CNI-")}
        ours |= {line[1:].split()[0] for line in lines if line.startswith((":CNI-HOSTPORT", ":CNI-DN-"))}
        leading = [
            "-D" + line[2:]
            for line in lines
            if line.startswith("-A ") and line.split()[1] not in ours and ours & set(line.split())
        ]
        if ours:
            chains = sorted(ours)
            script += [f"*{name}", *(f"-F {c}" for c in chains), *leading, *(f"-X {c}" for c in chains), "COMMIT"]
    return "\n".join(script) + "\n" if script else ""
