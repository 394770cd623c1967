"""The real Kueue as a process of this machine, over whatever depth has KubeRay.

Its webhooks are called at this machine's loopback address: their Service is an ExternalName, so that neither kube-proxy
nor an address of the cluster is needed. It makes its own certificate, in a Secret, as it does in a pod.
"""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from typing import Any

from waiting import PATIENCE

from . import certificates, control_plane, go_builds, packages, processes
from .control_plane import kubectl
from .errors import checked
from .state import State

NAME = "kueue"
_NAMESPACE = "kueue-system"
_SERVICE = "kueue-webhook-service"
_SECRET = "kueue-webhook-server-cert"
_CERTIFICATE = {"tls.crt", "tls.key", "ca.crt"}
#: What it manages. Webhooks of other kinds are left out: nothing of this process would answer them.
_MANAGED = {"jobs", "rayjobs", "rayclusters"}
_WEBHOOKS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


def up(state: State) -> None:
    """Start it and wait until it admits workloads; what is there already stays."""
    manifests = _manifests(state)
    kinds = [m for m in manifests if m["kind"] == "CustomResourceDefinition"]
    secrets = [m for m in manifests if m["kind"] == "Secret"]
    _ensure(state, [_namespace(), *secrets, _service(), _config_map(_config(state)), *kinds])
    names = [f"crd/{m['metadata']['name']}" for m in kinds]
    kubectl(state, "wait", "--for=condition=Established", f"--timeout={PATIENCE:.0f}s", *names)
    processes.start(state, NAME, [go_builds.kueue(), *_flags(state)])
    processes.wait_until(state, NAME, lambda: _certificate_handed_over(state))
    processes.wait_until(state, NAME, lambda: _healthy(state))
    # Last, when there is somebody to answer: a webhook without its server refuses every RayJob.
    _ensure(state, _webhooks(state, manifests))
    processes.wait_until(state, NAME, lambda: _answers(state))


def down(state: State) -> None:
    """Stop it; its kinds and every object stay, as when its pod is gone. Its webhooks go first, or no RayJob could be made."""
    if processes.running(state, "apiserver") and _ever_started(state):
        for kind in _WEBHOOKS:
            kubectl(state, "delete", kind, "--selector=app.kubernetes.io/name=kueue", "--ignore-not-found")
    processes.stop(state, NAME)


def wanted(state: State) -> bool:
    """Tell whether it was started and not stopped, so that `up` brings it back when it died."""
    return NAME in processes.names(state)


def _ever_started(state: State) -> bool:
    return (state.root / "kueue.json").exists()


def _flags(state: State) -> list[str]:
    kubeconfig = certificates.kubeconfig(
        state, "kueue-controller", "system:masters", server_url=control_plane.server_url(state)
    )
    path = state.write("kueue.json", json.dumps(_config(state)))
    # Its visibility server would be an aggregated API, reached through a Service, and takes a fixed port.
    return [f"--config={path}", f"--kubeconfig={kubeconfig}", "--feature-gates=VisibilityOnDemand=false"]


def _config(state: State) -> dict[str, Any]:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": _NAMESPACE,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{state.port('kueue-health')}"},
        "metrics": {"bindAddress": f"127.0.0.1:{state.port('kueue-metrics')}"},
        "webhook": {
            "host": "127.0.0.1",
            "port": state.port("kueue-webhook"),
            "certDir": str(state.dir("kueue-certificate")),
        },
        "leaderElection": {"leaderElect": False},
        "integrations": {"frameworks": ["batch/job", "ray.io/rayjob", "ray.io/raycluster"]},
    }


def _manifests(state: State) -> list[dict[str, Any]]:
    """Return the objects of Kueue's own kustomization; kubectl turns its YAML into JSON."""
    text = checked([packages.kubectl(), "kustomize", go_builds.kueue_config() / "default"])
    wanted_kinds = (
        "CustomResourceDefinition",
        "Secret",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    )
    documents = [d for d in text.split("\n---\n") if any(f"\nkind: {kind}\n" in f"\n{d}\n" for kind in wanted_kinds)]
    words = ("create", "--dry-run=client", "--validate=false", "--output=json", "--filename=-")
    manifests = list(_decoded(kubectl(state, *words, stdin="\n---\n".join(documents))))
    for manifest in manifests:
        for service in _services(manifest):
            service["port"] = state.port("kueue-webhook")
    return manifests


def _decoded(text: str) -> Iterator[dict[str, Any]]:
    decoder, start = json.JSONDecoder(), 0
    while start < len(text):
        found, end = decoder.raw_decode(text, start)
        yield from found["items"] if found["kind"] == "List" else [found]
        start = end + len(text[end:]) - len(text[end:].lstrip())


def _services(manifest: Any) -> Iterator[dict[str, Any]]:
    """Yield every webhook's `clientConfig.service` of a manifest, those of CRD conversions too."""
    if isinstance(manifest, dict):
        if isinstance(manifest.get("clientConfig"), dict):
            yield manifest["clientConfig"]["service"]
        for value in manifest.values():
            yield from _services(value)
    elif isinstance(manifest, list):
        for value in manifest:
            yield from _services(value)


def _namespace() -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}


def _config_map(config: dict[str, Any]) -> dict[str, Any]:
    """Return the ConfigMap in which a Kueue that runs in a pod has its configuration (JSON is YAML), for who may read it."""
    meta = {"name": "kueue-manager-config", "namespace": _NAMESPACE}
    data = {"controller_manager_config.yaml": json.dumps(config)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def _service() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": _SERVICE, "namespace": _NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": "127.0.0.1"},
    }


def _webhooks(state: State, manifests: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the webhook configurations with the authority that signed the server's certificate: they work at once."""
    authority = _secret(state)["ca.crt"]
    found = [m for m in manifests if "webhooks" in m]
    for manifest in found:
        manifest["webhooks"] = [w for w in manifest["webhooks"] if _answered(w)]
        for webhook in manifest["webhooks"]:
            webhook["clientConfig"]["caBundle"] = authority
    return found


def _answered(webhook: dict[str, Any]) -> bool:
    return all(
        rule["apiGroups"] == ["kueue.x-k8s.io"] or {r.partition("/")[0] for r in rule["resources"]} <= _MANAGED
        for rule in webhook["rules"]
    )


def _ensure(state: State, manifests: list[dict[str, Any]]) -> None:
    """Create those that are not there. `create`, never `apply`: CRDs are larger than apply's annotation."""
    named = {_resource(manifest): manifest for manifest in manifests}
    words = (f"--namespace={_NAMESPACE}", "get", "--ignore-not-found", "--output=name")
    here = kubectl(state, *words, *named).split()
    absent = [manifest for name, manifest in named.items() if name not in here]
    if absent:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": absent})
        kubectl(state, "create", "--validate=false", "--filename=-", stdin=text)


def _resource(manifest: dict[str, Any]) -> str:
    """Return `kind.group/name`, as kubectl writes names."""
    group, slash, _ = manifest["apiVersion"].partition("/")
    return f"{manifest['kind'].lower()}{f'.{group}' if slash else ''}/{manifest['metadata']['name']}"


def _secret(state: State) -> dict[str, str]:
    found = kubectl(state, f"--namespace={_NAMESPACE}", "get", "secret", _SECRET, "--output=json")
    return dict(json.loads(found).get("data") or {})


def _certificate_handed_over(state: State) -> bool:
    """Copy the certificate that Kueue put into its Secret to where it waits for it, as the kubelet's mount would."""
    data = _secret(state)
    if not data.keys() >= _CERTIFICATE:
        return False
    for name in _CERTIFICATE:
        state.write(f"kueue-certificate/{name}", base64.b64decode(data[name]).decode()).chmod(0o600)
    return True


def _healthy(state: State) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{state.port('kueue-health')}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _answers(state: State) -> bool:
    """Tell whether its webhooks are called and answer: they set what a new ClusterQueue leaves out."""
    probe = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "probe"}, "spec": {}}
    words = ("create", "--dry-run=server", "--output=json", "--filename=-")
    return bool(json.loads(kubectl(state, *words, stdin=json.dumps(probe)))["metadata"].get("finalizers"))
