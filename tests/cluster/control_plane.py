"""The control plane: etcd, the API server, the controller manager, and for nodes the scheduler.

Even the api depth runs the controller manager, with a few of its controllers: without them no namespace ever ends,
nothing is collected with its owner, and no pod is admitted because its namespace has no service account.
"""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request

from . import certificates, go_builds, packages, processes, versions
from .errors import checked
from .state import State

SERVICE_RANGE = "10.96.0.0/16"
SERVICE_ADDRESS = "10.96.0.1"  # of the Service `kubernetes`: the first of the range
NODE_ADDRESS = "10.88.0.1"

_API_CONTROLLERS = ",".join(
    f"{name}-controller"
    for name in ("serviceaccount", "serviceaccount-token", "namespace", "garbage-collector", "clusterrole-aggregation")
)


def address(state: State) -> str:
    """Return the IP address the API server listens on: pods must reach it, so a node's is not the loopback."""
    return NODE_ADDRESS if state.depth == "node" else "127.0.0.1"


def server_url(state: State) -> str:
    """Return the API server's address as clients write it."""
    return f"https://{address(state)}:{state.port('apiserver')}"


def up(state: State) -> None:
    """Start what is not running, wait until the API server is ready and service accounts are made."""
    serve(state)
    _controller_manager(
        state
    )  # not before: until the API server has made its roles, the others are refused and give up
    if state.depth != "api":
        _scheduler(state)
    service_account = "/api/v1/namespaces/default/serviceaccounts/default"
    processes.wait_until(state, "controller-manager", lambda: _get(state, service_account))


def serve(state: State) -> None:
    """Start etcd and the API server and wait until it is ready."""
    packages.ensure_debian(versions.API_PACKAGES)
    _etcd(state)
    _apiserver(state)
    certificates.kubeconfig(state, "admin", "system:masters", server_url=server_url(state))
    processes.wait_until(state, "apiserver", lambda: _get(state, "/readyz"))


def kubectl(state: State, *args: str, stdin: str | None = None) -> str:
    """Run kubectl as the administrator and return its stdout; raises ClusterError when it fails."""
    return checked([packages.kubectl(), f"--kubeconfig={state.kubeconfig}", *args], stdin=stdin)


def _etcd(state: State) -> None:
    if processes.running(state, "etcd"):
        return  # never replaced while it runs: the data of one version are not for another
    client, peer = state.port("etcd"), state.port("etcd-peer")
    urls = {
        "listen-client-urls": f"http://127.0.0.1:{client}",
        "advertise-client-urls": f"http://127.0.0.1:{client}",
        "listen-peer-urls": f"http://127.0.0.1:{peer}",
        "initial-advertise-peer-urls": f"http://127.0.0.1:{peer}",
        "initial-cluster": f"default=http://127.0.0.1:{peer}",
        "data-dir": str(state.dir("etcd")),
    }
    flags = [f"--{name}={value}" for name, value in urls.items()]
    processes.start(state, "etcd", [go_builds.etcd(), "--unsafe-no-fsync", "--log-level=warn", *flags])


def _apiserver(state: State) -> None:
    here = address(state)
    names = [
        here,
        SERVICE_ADDRESS,
        "127.0.0.1",
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
    ]
    cert, key = certificates.server(state, "apiserver", [*dict.fromkeys(names), "kubernetes.default.svc.cluster.local"])
    admin_cert, admin_key = certificates.client(state, "admin", "system:masters")
    public, private = certificates.service_account_keys(state)
    flags = {
        "etcd-servers": f"http://127.0.0.1:{state.port('etcd')}",
        "bind-address": here,
        "advertise-address": here,
        "secure-port": state.port("apiserver"),
        "tls-cert-file": cert,
        "tls-private-key-file": key,
        "client-ca-file": certificates.authority(state),
        "authorization-mode": "Node,RBAC",
        "kubelet-client-certificate": admin_cert,
        "kubelet-client-key": admin_key,
        "kubelet-preferred-address-types": "InternalIP",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": public,
        "service-account-signing-key-file": private,
        "service-cluster-ip-range": SERVICE_RANGE,
        "allow-privileged": "true",
        "profiling": "false",
    }
    if here == "127.0.0.1":  # a Service `kubernetes` that leads to a loopback address is refused, and nobody needs it
        flags["endpoint-reconciler-type"] = "none"
    argv = [go_builds.kubernetes(), "kube-apiserver", *(f"--{name}={value}" for name, value in flags.items())]
    processes.start(state, "apiserver", argv)


def _controller_manager(state: State) -> None:
    config = certificates.kubeconfig(state, "system:kube-controller-manager", server_url=server_url(state))
    flags = {
        "kubeconfig": config,
        "service-account-private-key-file": certificates.service_account_keys(state)[1],
        "root-ca-file": certificates.authority(state),
        "use-service-account-credentials": "true",
        "leader-elect": "false",
        "bind-address": "127.0.0.1",
        "secure-port": state.port("controller-manager"),
    }
    if state.depth == "api":
        flags["controllers"] = _API_CONTROLLERS
    argv = [go_builds.kubernetes(), "kube-controller-manager", *(f"--{name}={value}" for name, value in flags.items())]
    processes.start(state, "controller-manager", argv)


def _scheduler(state: State) -> None:
    config = certificates.kubeconfig(state, "system:kube-scheduler", server_url=server_url(state))
    flags = {
        "kubeconfig": config,
        "leader-elect": "false",
        "bind-address": "127.0.0.1",
        "secure-port": state.port("scheduler"),
    }
    argv = [go_builds.kubernetes(), "kube-scheduler", *(f"--{name}={value}" for name, value in flags.items())]
    processes.start(state, "scheduler", argv)


def _get(state: State, path: str) -> bool:
    """Tell whether the administrator gets an answer below 400 (kubectl would cost 60 ms a try)."""
    context = ssl.create_default_context(cafile=str(certificates.authority(state)))
    context.load_cert_chain(*certificates.client(state, "admin", "system:masters"))
    try:
        with urllib.request.urlopen(server_url(state) + path, context=context, timeout=5) as answer:
            return bool(answer.status < 400)
    except (urllib.error.URLError, OSError):
        return False
