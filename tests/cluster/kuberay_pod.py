"""The KubeRay operator as users have it: a Deployment with its own service account, roles and cluster DNS.

The tests run it as a process of the machine, which starts in a second; this one shows that nothing rests on that.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path

from waiting import PATIENCE

from . import control_plane, go_builds, images, versions
from .cache import cached
from .containers import ensure_image
from .state import State

NAMESPACE = "kuberay-system"
NAME = "kuberay-operator"
IMAGE = f"kubectl-nrl-tests/kuberay-operator:v{versions.KUBERAY}"


def up(state: State) -> None:
    """Deploy the operator and wait until it is available; the operator of kuberay.py is stopped already.

    From now on `tests/cluster/up` leaves it so: two operators at once make every pod twice.
    """
    state.record(kuberay_in_pod=True)
    ensure_image(state, _image())
    roles = go_builds.kuberay_roles()
    run = _kubectl(state)
    run("create", "namespace", NAMESPACE)
    run("create", f"--filename={roles}")
    account = f"--serviceaccount={NAMESPACE}:{NAME}"
    run("create", "clusterrolebinding", NAME, f"--clusterrole={NAME}", account)
    run("create", "rolebinding", NAME, f"--role={NAME}-leader-election", account)
    run("create", "--filename=-", stdin=json.dumps(_deployment()))
    run("rollout", "status", f"deployment/{NAME}", f"--timeout={PATIENCE:.0f}s")


def deployed(state: State) -> bool:
    """Tell whether the operator was put into a pod."""
    return bool(state.facts().get("kuberay_in_pod"))


def down(state: State) -> None:
    """Remove the Deployment and all that came with it; does nothing where it is not."""
    state.record(kuberay_in_pod=False)
    if control_plane.kubectl(state, "get", "namespace", NAMESPACE, "--ignore-not-found"):
        _kubectl(state)("delete", "namespace", NAMESPACE)
        for kind in ("clusterrolebinding", "clusterrole"):
            control_plane.kubectl(state, "delete", kind, NAME)


def _kubectl(state: State) -> Callable[..., str]:
    def run(*args: str, stdin: str | None = None) -> str:
        return control_plane.kubectl(state, f"--namespace={NAMESPACE}", *args, stdin=stdin)

    return run


def _image() -> images.Image:
    def build(target: Path) -> None:
        with tarfile.open(target, "w") as layer:
            layer.add(go_builds.kuberay_operator(), "manager")

    return images.Image(IMAGE, (cached("layer-kuberay", versions.KUBERAY, build),), command=("/manager",))


def _deployment() -> dict[str, object]:
    """Return the Deployment of the module's config/manager/manager.yaml, with the image of this machine."""
    labels = {"app.kubernetes.io/name": "kuberay", "app.kubernetes.io/component": NAME}
    probe = {"httpGet": {"path": "/metrics", "port": "http"}, "periodSeconds": 2}
    container = {
        "name": NAME,
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/manager"],
        "args": ["--enable-leader-election=true"],
        "ports": [{"name": "http", "containerPort": 8080}],
        "readinessProbe": probe,
        "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    pod = {
        "serviceAccountName": NAME,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532},
        "terminationGracePeriodSeconds": 10,
        "containers": [container],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
