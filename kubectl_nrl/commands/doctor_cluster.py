"""The checks of `doctor` that concern the way to a cluster: kubectl, the kubeconfig, whether the server answers."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping

from ..errors import ClusterError
from .connecting import open_cluster
from .doctor_finding import Finding
from .session import Session


def kubectl(env: Mapping[str, str], seconds: float) -> Iterator[Finding]:
    """Whether there is a kubectl, and its version: without one `kubectl-nrl` works and `kubectl nrl` does not."""
    file = shutil.which("kubectl", path=env.get("PATH"))
    if file is None:
        yield Finding("kubectl", "failed", "not on PATH; `kubectl-nrl VERB` works without it",
                      "./install.sh   # in the checkout: it brings one")  # fmt: skip
        return
    words = [file, "version", "--client", "-o", "json"]
    try:
        done = subprocess.run(words, env=dict(env), capture_output=True, timeout=seconds, check=False)
        version = str(json.loads(done.stdout)["clientVersion"]["gitVersion"])
    except subprocess.TimeoutExpired:
        yield Finding("kubectl", "warning", f"{file} does not say its version within {seconds:g} s",
                      f"{file} version --client")  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"{file} does not say its version ({type(error).__name__}): is it kubectl?"
        yield Finding("kubectl", "failed", message, f"{file} version --client")
    else:
        yield Finding("kubectl", "ok", f"{version} ({file})")


def cluster(session: Session) -> Iterator[Finding]:
    """The kubeconfig, then the server it names, then what the server must serve."""
    try:
        reached = open_cluster(session)
    except ClusterError as error:
        yield Finding("kubeconfig", "failed", error.message, error.hint)
        return
    where = f"context {reached.context}" if reached.context else reached.server
    yield Finding("kubeconfig", "ok", f"{where}, namespace {session.namespace or reached.namespace}")
    try:
        version = reached.server_version()
    except ClusterError as error:
        yield Finding("cluster", "failed", error.message, error.hint)
        return
    yield Finding("cluster", "ok", f"{reached.server} answers: Kubernetes {version}")
    try:
        served = reached.served()
    except ClusterError as error:
        yield Finding("kuberay", "note", f"not known: {error.message}", error.hint)
        return
    if "v1" in served.get("ray.io", ()):
        yield Finding("kuberay", "ok", "ray.io/v1 is served")
    else:
        message = "this cluster does not serve ray.io/v1, so no run can start on it"
        yield Finding("kuberay", "failed", message, "helm install kuberay-operator kuberay/kuberay-operator")
