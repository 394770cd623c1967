"""Build the Go programs of the cluster from their published modules.

Nothing prebuilt is downloaded: the Go module proxy is the only source, and every module is checked by Go's checksums.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

from . import versions
from .cache import cached, content_key
from .errors import CannotRunHere, checked

HERE = Path(__file__).resolve().parent
KUBERNETES_SOURCE = HERE / "kubernetes"
ETCD_SOURCE = HERE / "etcd"
PAUSE_SOURCE = HERE / "pause"


def kubernetes() -> Path:
    """Return the binary that is kube-apiserver, kubelet and the rest by its first argument (about 7 min cold)."""
    variables = {
        "gitVersion": f"v{versions.KUBERNETES}",
        "gitMajor": versions.KUBERNETES.split(".")[0],
        "gitMinor": versions.KUBERNETES.split(".")[1],
        "gitTreeState": "clean",
    }
    flags = " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in variables.items())

    def build(target: Path) -> None:
        _go(["build", "-trimpath", "-ldflags", f"-s -w {flags}", "-o", str(target), "."], cwd=KUBERNETES_SOURCE)

    key = f"{versions.KUBERNETES}-{content_key(KUBERNETES_SOURCE, flags)}"
    return cached("kubernetes", key, build, about="8 min on two cores")


def etcd() -> Path:
    """Return etcd's binary, of the version that this Kubernetes is built against."""

    def build(target: Path) -> None:
        _go(["build", "-trimpath", "-ldflags", "-s -w", "-o", str(target), "."], cwd=ETCD_SOURCE)

    return cached("etcd", f"{versions.ETCD}-{content_key(ETCD_SOURCE)}", build, about="1 min")


def kuberay_operator() -> Path:
    """Return the KubeRay operator's binary."""
    return _installed("kuberay", f"{_KUBERAY_MODULE}@v{versions.KUBERAY}", "ray-operator", "2 min")


def kuberay_crds() -> Path:
    """Return a directory with the CRDs of that KubeRay version, as its module carries them."""
    return _kuberay_manifests("kuberay-crds", "crd/bases/*.yaml")


def kuberay_roles() -> Path:
    """Return a directory with the operator's service account and roles, as its module carries them."""
    return _kuberay_manifests(
        "kuberay-roles", "rbac/service_account.yaml", "rbac/role.yaml", "rbac/leader_election_role.yaml"
    )


def coredns() -> Path:
    """Return CoreDNS's binary."""
    return _installed("coredns", f"github.com/coredns/coredns@v{versions.COREDNS}", "coredns", "3 min")


def kwok() -> Path:
    """Return kwok's binary (fake nodes and pods)."""
    return _installed("kwok", f"sigs.k8s.io/kwok/cmd/kwok@v{versions.KWOK}", "kwok", "3 min")


def kueue() -> Path:
    """Return the Kueue controller's binary."""
    return _installed("kueue", f"{_KUEUE_MODULE}/cmd/kueue@v{versions.KUEUE}", "kueue", "6 min")


def kueue_config() -> Path:
    """Return a directory with Kueue's own kustomization (CRDs, roles, webhooks), as its module carries it."""

    def build(target: Path) -> None:
        shutil.copytree(_module(_KUEUE_MODULE, versions.KUEUE) / "config", target, copy_function=shutil.copyfile)

    return cached("kueue-config", versions.KUEUE, build)


def pause() -> Path:
    """Return a static program that sleeps until it is told to end: what a pod sandbox runs."""

    def build(target: Path) -> None:
        _go(["build", "-trimpath", "-ldflags", "-s -w", "-o", str(target), "."], cwd=PAUSE_SOURCE)

    return cached("pause", content_key(PAUSE_SOURCE), build)


_KUBERAY_MODULE = "github.com/ray-project/kuberay/ray-operator"
_KUEUE_MODULE = "sigs.k8s.io/kueue"


def _module(name: str, version: str) -> Path:
    """Return the (read-only) directory of a module, downloaded when absent."""
    return Path(json.loads(_go(["mod", "download", "-json", f"{name}@v{version}"], cwd=HERE.anchor))["Dir"])


def _kuberay_manifests(name: str, *patterns: str) -> Path:
    def build(target: Path) -> None:
        config = _module(_KUBERAY_MODULE, versions.KUBERAY) / "config"
        target.mkdir()
        for pattern in patterns:
            for manifest in config.glob(pattern):
                shutil.copyfile(manifest, target / manifest.name)

    return cached(name, versions.KUBERAY, build)


def _installed(name: str, package: str, binary: str, about: str) -> Path:
    def build(target: Path) -> None:
        bin_dir = target.with_name("bin")
        _go(["install", "-trimpath", "-ldflags", "-s -w", package], cwd=HERE.anchor, GOBIN=str(bin_dir))
        os.rename(bin_dir / binary, target)

    return cached(name, package.rsplit("@v", 1)[1], build, about=about)


def _go(args: list[str], cwd: str | Path, **extra: str) -> str:
    env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off", **extra}
    return checked(["nice", "-n", "10", _go_command(), *args], cwd=Path(cwd), env=env)


def _go_command() -> str:
    go = shutil.which("go") or "/usr/local/go/bin/go"
    if not os.path.exists(go):
        raise CannotRunHere("the test cluster builds Kubernetes from source and needs Go 1.25 or newer on PATH")
    found = re.search(r"go(\d+)\.(\d+)", checked([go, "version"]))
    if found and (int(found[1]), int(found[2])) < (1, 25):
        raise CannotRunHere(f"the test cluster needs Go 1.25 or newer, {go} is {found[0]}")
    return go
