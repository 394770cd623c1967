"""Remove every trace that a node leaves on the machine: containers, mounts, network namespaces, rules, the bridge.

Each thing is known to be ours by something of our own in it (the socket on a shim's command line, the CNI network's
name, our directories), never by its kind: other container runtimes of the machine must not notice.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from .errors import ClusterError, checked

RUN = Path("/run/kubectl-nrl-tests")  # sockets and containers: short paths, since a socket's may have 107 bytes
VAR = Path("/var/lib/kubectl-nrl-tests")  # the kubelet's directory, full of mounts
POD_LOGS = VAR / "pod-logs"
SOCKET = RUN / "containerd.sock"
BRIDGE = "cni0"
NETWORK = "kubectl-nrl-tests"  # the CNI network's name; it stands in the comments of the rules that CNI plugins make

_CNI_RESULTS = Path("/var/lib/cni/results")


def remove() -> None:
    """Remove it all; the node's own processes are stopped already."""
    end_containers()
    _unmount_below(RUN, VAR)
    _remove_networks()
    _remove_rules()
    if bridge_exists():
        subprocess.run(["ip", "link", "delete", BRIDGE], check=False)
    for link in Path("/var/log/containers").glob("*.log"):
        if link.is_symlink() and os.readlink(link).startswith(str(POD_LOGS)):
            link.unlink()
    _remove_cgroups()
    for directory in (VAR, RUN):
        shutil.rmtree(directory, ignore_errors=True)
        if directory.exists():
            raise ClusterError(
                f"{directory} cannot be removed; what is mounted below it? (grep {directory} /proc/mounts)"
            )


def bridge_exists() -> bool:
    """Tell whether the pods' bridge exists."""
    return Path(f"/sys/class/net/{BRIDGE}").exists()


def end_containers() -> None:
    """Kill the containers and the shims that hold them: those whose command line names our containerd's socket."""
    mark = str(SOCKET).encode()
    shims = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if os.path.basename(words[0]) == b"containerd-shim-runc-v2" and mark in words:
                shims.append(int(path.parent.name))
    for pid in _descendants(shims) + shims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any(_runs(pid) for pid in shims) and time.monotonic() < deadline:
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/exe") != ""  # a zombie has none
    except OSError:
        return False


def _descendants(pids: list[int]) -> list[int]:
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rsplit(")", 1)[1].split()
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


def _remove_networks() -> None:
    """Remove the pods' network namespaces (and with them their interfaces) and what the CNI library noted of them."""
    for result in _CNI_RESULTS.glob(f"{NETWORK}-*"):
        for namespace in sandboxes(result.read_text()):
            if namespace.exists():
                _unmount(namespace)
                namespace.unlink(missing_ok=True)
        container = result.name.removeprefix(f"{NETWORK}-").rsplit("-", 1)[0]
        (_CNI_RESULTS / f"cni-loopback-{container}-lo").unlink(missing_ok=True)
        result.unlink()


def sandboxes(result: str) -> set[Path]:
    """Return the network namespaces that a cached CNI result names."""
    try:
        interfaces = json.loads(result)["result"].get("interfaces", [])
    except (json.JSONDecodeError, KeyError):
        return set()
    return {Path(interface["sandbox"]) for interface in interfaces if interface.get("sandbox")}


def _remove_cgroups() -> None:
    """Remove the kubelet's control groups, in every hierarchy; they are empty once the containers are gone."""
    for top in [*Path("/sys/fs/cgroup").glob("kubepods"), *Path("/sys/fs/cgroup").glob("*/kubepods")]:
        for directory, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):  # a container that was killed a moment ago; an empty group harms nobody
                os.rmdir(directory)


def _remove_rules() -> None:
    for command in ("iptables", "ip6tables"):
        if shutil.which(f"{command}-save"):
            saved = subprocess.run([f"{command}-save"], capture_output=True, text=True, check=False).stdout
            script = removal_script(saved)
            if script:
                checked([f"{command}-restore", "--noflush"], stdin=script)


def removal_script(saved: str) -> str:
    """Return what `iptables-restore --noflush` reads to remove our chains and rules from `saved` (iptables-save).

    Ours are the chains of kube-proxy and kubelet, those that a rule of our CNI network leads to, and portmap's.
    """
    script = []
    for table in ("\n" + saved).split("\n*")[1:]:
        name, *lines = table.splitlines()
        chains = [line[1:].split()[0] for line in lines if line.startswith(":")]
        ours = {chain for chain in chains if chain.startswith(("KUBE-", "CNI-HOSTPORT-", "CNI-DN-"))}
        for line in lines:
            if line.startswith("-A") and NETWORK in line:
                ours |= {word for word in line.split() if word in chains and word.startswith("CNI-")}
        if not ours:
            continue
        rules = [line for line in lines if line.startswith("-A ") and line.split()[1] not in ours]
        leading = ["-D" + line[2:] for line in rules if ours & set(line.split())]
        ordered = sorted(ours)
        script += [f"*{name}", *(f"-F {c}" for c in ordered), *leading, *(f"-X {c}" for c in ordered), "COMMIT"]
    return "\n".join(script) + "\n" if script else ""
