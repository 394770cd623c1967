"""The node: kubelet, kube-proxy and CoreDNS as processes of this machine, on top of containerd.

The node's address is the pods' bridge, so pods, host processes and the API server reach one another with no further
routes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from . import certificates, containers, go_builds, machine, packages, processes, traces, versions
from .control_plane import NODE_ADDRESS, kubectl, server_url
from .state import State

NAME = "node-1"
DOMAIN = "cluster.local"


def up(state: State) -> None:
    """Start what is not running and wait until the node is Ready; the control plane runs already."""
    containers.up(state)
    _kubelet(state)
    _kube_proxy(state)
    _dns(state)
    processes.wait_until(state, "kubelet", lambda: _ready(state))


def prepare(state: State) -> None:
    """Take the machine and make its bridge, before the API server binds to the bridge's address."""
    machine.require_node_host()
    packages.ensure_debian(versions.NODE_PACKAGES)
    machine.claim(state)
    machine.bridge_up()


def _kubelet(state: State) -> None:
    cert, key = certificates.server(state, "kubelet", [NODE_ADDRESS])
    kubeconfig = certificates.kubeconfig(
        state, f"system:node:{NAME}", "system:nodes", server_url=server_url(state), name="kubelet"
    )
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": NODE_ADDRESS,
        "port": state.port("kubelet"),
        "healthzPort": 0,
        "tlsCertFile": str(cert),
        "tlsPrivateKeyFile": str(key),
        "authentication": {
            "x509": {"clientCAFile": str(certificates.authority(state))},
            "anonymous": {"enabled": False},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{traces.SOCKET}",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "localStorageCapacityIsolation": False,
        "clusterDomain": DOMAIN,
        "clusterDNS": [NODE_ADDRESS],
        "resolvConf": str(state.write("resolv.conf", f"nameserver {NODE_ADDRESS}\n")),
        "podLogsDir": str(traces.POD_LOGS),
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,  # an image that was imported can be pulled from nowhere
        "maxPods": 110,
        "registerWithTaints": [],
    }
    path = state.write("kubelet.json", json.dumps(config, indent=1))
    flags = {
        "config": path,
        "kubeconfig": kubeconfig,
        "hostname-override": NAME,
        "node-ip": NODE_ADDRESS,
        "root-dir": traces.VAR / "kubelet",
    }
    _component(state, "kubelet", flags)


def _kube_proxy(state: State) -> None:
    kubeconfig = certificates.kubeconfig(state, "system:kube-proxy", server_url=server_url(state))
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "clusterCIDR": machine.POD_RANGE,
        "hostnameOverride": NAME,
        "bindAddress": NODE_ADDRESS,
        "healthzBindAddress": f"{NODE_ADDRESS}:{state.port('kube-proxy-healthz')}",
        "metricsBindAddress": f"{NODE_ADDRESS}:{state.port('kube-proxy-metrics')}",
        "conntrack": {"maxPerCore": 0},
    }
    _component(state, "kube-proxy", {"config": state.write("kube-proxy.json", json.dumps(config, indent=1))})


def _component(state: State, name: str, flags: Mapping[str, object]) -> None:
    argv = [go_builds.kubernetes(), name, *(f"--{flag}={value}" for flag, value in flags.items())]
    processes.start(state, name, argv)


def _dns(state: State) -> None:
    # No forwarding: what the tests run must not depend on a name outside the cluster.
    zones = f"{DOMAIN} in-addr.arpa"
    kubeconfig = certificates.kubeconfig(state, "coredns", "system:masters", server_url=server_url(state))
    corefile = f""".:53 {{
    bind {NODE_ADDRESS}
    errors
    kubernetes {zones} {{
        kubeconfig {kubeconfig}
        pods insecure
    }}
    cache 5
}}
"""
    processes.start(state, "coredns", [go_builds.coredns(), "-conf", state.write("Corefile", corefile)])


def _ready(state: State) -> bool:
    condition = '{.items[*].status.conditions[?(@.type=="Ready")].status}'
    return kubectl(state, "get", "nodes", "-o", f"jsonpath={condition}") == "True"
