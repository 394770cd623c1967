"""containerd of the node: its own root, socket and settings beside whatever the machine runs, and the images in it.

The root with the images is kept in the cache across clusters (importing 700 MB takes longer than all the rest of a warm
start); the machine has one node at a time, so one containerd at a time uses it.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from pathlib import Path

from . import images, processes
from .cache import cache_dir, say
from .errors import ClusterError, checked
from .machine import POD_RANGE
from .state import State
from .traces import NETWORK, RUN, SOCKET, end_containers

CNI_BIN = "/usr/lib/cni"


def up(state: State) -> None:
    """Start containerd and import the images that are absent or changed."""
    config = state.write("containerd.toml", _config(state))
    state.write("cni/10-bridge.conflist", json.dumps(_network(state)))
    began = not processes.running(state, "containerd")
    _start(state, config)
    if began and _forget_containers():  # those of a killed node; containerd has read them already, so read anew
        processes.stop(state, "containerd")
        _start(state, config)
    for image in (images.pause_image(), images.ray_image()):
        ensure_image(state, image)


def ensure_image(state: State, image: images.Image) -> None:
    """Import an image unless containerd holds the very same one."""
    wanted = image.id()
    known = state.facts().get("images", {})
    reference = f"docker.io/{image.name}"
    listed = ctr("images", "list", "-q", f"name=={reference}").split()
    if known.get(image.name) == wanted and listed:
        return
    if listed and _image_id(reference) == wanted:
        state.record(images={**known, image.name: wanted})
        return
    say(f"importing {image.name}")
    command = [*_CTR, "images", "import", "--digests=false", "-"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT) as importing:
        assert importing.stdin and importing.stdout
        with contextlib.suppress(BrokenPipeError):  # its own words, below, say why
            image.write(importing.stdin)
        with contextlib.suppress(BrokenPipeError):
            importing.stdin.close()
        text = importing.stdout.read().decode(errors="replace")
    if importing.returncode:
        raise ClusterError(f"containerd refuses the image {image.name}: {text.strip()}")
    state.record(images={**known, image.name: wanted})


def ctr(*args: str) -> str:
    """Run containerd's own client in the kubelet's namespace."""
    return checked([*_CTR, *args])


_CTR = ("/usr/bin/ctr", f"--address={SOCKET}", "--namespace=k8s.io")


def _answers() -> bool:
    return subprocess.run([*_CTR, "version"], capture_output=True, check=False).returncode == 0


def _image_id(reference: str) -> str:
    """Return the config digest of an image that containerd holds, empty when it cannot be told."""
    lines = ctr("images", "list", f"name=={reference}").splitlines()[1:]
    if not lines:
        return ""
    manifest = json.loads(ctr("content", "get", lines[0].split()[2]))
    return str(manifest.get("config", {}).get("digest", ""))


def remove_all(state: State) -> None:
    """End and forget all containers, while containerd still runs; the kubelet is stopped already."""
    end_containers()
    if processes.running(state, "containerd"):
        _forget_containers()


def _start(state: State, config: Path) -> None:
    processes.start(state, "containerd", ["/usr/bin/containerd", "--config", config])
    processes.wait_until(state, "containerd", _answers)


def _forget_containers() -> bool:
    """Remove what containerd knows of containers that do not run; tells whether there was any."""
    running = {line.split()[0] for line in ctr("tasks", "list").splitlines()[1:] if "RUNNING" in line}
    stale = set(ctr("containers", "list", "-q").split()) - running
    for container in stale:
        subprocess.run([*_CTR, "tasks", "delete", "--force", container], capture_output=True, check=False)
        subprocess.run([*_CTR, "containers", "delete", container], capture_output=True, check=False)
    return bool(stale)


def _root() -> Path:
    return cache_dir() / "containerd"


def _config(state: State) -> str:
    # restrict_oom_score_adj: without CAP_SYS_RESOURCE every sandbox dies ("can't get final child's PID from pipe")
    return f"""version = 2
root = "{_root()}"
state = "{RUN}/containerd"
[grpc]
  address = "{SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/{images.PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_BIN}"
    conf_dir = "{state.dir("cni")}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
"""


def _network(state: State) -> dict[str, object]:
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": POD_RANGE}]],
            "routes": [{"dst": "0.0.0.0/0"}],
            "dataDir": str(state.dir("cni-addresses")),
        },
    }
    plugins = [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}]
    return {"cniVersion": "0.4.0", "name": NETWORK, "plugins": plugins}
