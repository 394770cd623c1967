"""The checks of `doctor` on what a cluster serves: KubeRay and its operator, schedulers, DRA.

The operator runs in a namespace that most people may not read. Then its work is looked at: an object that it never touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import ClusterError
from ..rayjob_state import parse_time
from .doctor_cluster import Reached
from .doctor_finding import Finding

OPERATOR = "app.kubernetes.io/name=kuberay-operator"
#: Seconds within which an operator that runs has touched a new object.
TOUCHED = 60


def kuberay(reached: Reached) -> Iterator[Finding]:
    """Whether ray.io/v1 is served, and by how new a KubeRay."""
    from ..cluster.errors import KUBERAY_CHART
    from ..preflight import kuberay_check

    check = kuberay_check(reached.facts(), reached.cluster.served().get("ray.io", ()), KUBERAY_CHART)
    yield Finding("kuberay", "ok" if check.ok else "failed", check.detail, check.fix)


def operator(reached: Reached) -> Iterator[Finding]:
    """Whether KubeRay's operator runs, as far as can be seen."""
    if not reached.facts().kuberay:
        return
    untouched = _untouched(reached)
    if untouched:
        message = (
            f"{untouched[0]} was never touched by KubeRay's operator: it does not run, or does not watch this namespace"
        )
        yield Finding("operator", "failed", message, "kubectl get pods -A -l app.kubernetes.io/name=kuberay-operator")
    found = _operators(reached.cluster)
    if found is None:
        if not untouched:
            yield Finding("operator", "note", "its Deployment may not be read; nothing here waits for it")
        return
    for deployment in found:
        yield _operator_finding(deployment)
    if not found and not untouched:
        yield Finding(
            "operator", "note", "no Deployment of it is labelled as its chart labels it; nothing here waits for it"
        )


def _untouched(reached: Reached) -> list[str]:
    """RayJobs and RayClusters of the namespace without any status, though they are old enough to have one."""
    now, names = reached.session.now(), []
    for kind in ("RayJob", "RayCluster"):
        for obj in reached.cluster.list("ray.io/v1", kind, reached.namespace):
            created = parse_time(obj["metadata"].get("creationTimestamp"))
            managed = (obj.get("spec") or {}).get("managedBy") or "ray.io/kuberay-operator"
            old = created is not None and (now - created).total_seconds() > TOUCHED
            suspended = (obj.get("spec") or {}).get("suspend")
            if old and not obj.get("status") and not suspended and managed == "ray.io/kuberay-operator":
                names.append(f"{kind.lower()}/{obj['metadata']['name']}")
    return names


def _operators(cluster: Any) -> Sequence[Mapping[str, Any]] | None:
    try:
        return cluster.list("apps/v1", "Deployment", label_selector=OPERATOR, all_namespaces=True)  # type: ignore[no-any-return]
    except ClusterError as error:
        if error.status != 403:
            raise
        return None


def _operator_finding(deployment: Mapping[str, Any]) -> Finding:
    meta = deployment["metadata"]
    where = f"deployment/{meta['name']} -n {meta['namespace']}"
    containers = deployment["spec"]["template"]["spec"]["containers"]
    image = str(containers[0].get("image", ""))
    if not (deployment.get("status") or {}).get("readyReplicas"):
        return Finding("operator", "failed", f"{where} has no ready pod ({image})", f"kubectl describe {where}")
    scheduler = batch_scheduler(containers)
    told = f", batch scheduler {scheduler}" if scheduler else ""
    if scheduler == "kai-scheduler" and _version(image) < (1, 6):
        message = f"{image} with batch scheduler kai-scheduler: every RayJob stays Initializing (1.6 and newer work)"
        return Finding(
            "operator", "failed", message, f"kubectl edit {where}   # take --batch-scheduler away, or update it"
        )
    return Finding("operator", "ok", f"{where} runs {image}{told}")


def batch_scheduler(containers: Sequence[Mapping[str, Any]]) -> str:
    """The scheduler that the operator itself hands pods to, by its arguments (ray-operator/main.go); empty for none."""
    for container in containers:
        words = [str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ()))]
        for word in words:
            name, _, value = word.lstrip("-").partition("=")
            if name == "batch-scheduler" and value:
                return value
            if name == "enable-batch-scheduler" and value != "false":
                return "volcano"
    return ""


def _version(image: str) -> tuple[int, ...]:
    """(major, minor) of an image's tag; a tag that is no version counts as new."""
    import re

    match = re.search(r":v?(\d+)\.(\d+)", image)
    return (int(match[1]), int(match[2])) if match else (99,)


def schedulers(reached: Reached) -> Iterator[Finding]:
    """Which queueing schedulers are there. The default one always is."""
    facts = reached.facts()
    found = [
        f"{name} {'.'.join(map(str, version)) if version else '(version not known)'}"
        for name, there, version in (("KAI", facts.kai, facts.kai_version), ("Kueue", facts.kueue, facts.kueue_version))
        if there
    ]
    message = ", ".join(found) or "the default one only: no KAI, no Kueue"
    yield Finding("schedulers", "ok", message)
    if facts.kai and facts.kai_version and facts.kai_version < (0, 14):
        yield Finding("schedulers", "warning", "KAI before 0.14 ignores the placement of worker groups", "update KAI")


def dra(reached: Reached) -> Iterator[Finding]:
    """Whether devices can be claimed, of which classes, and whether NVLink domains can be made."""
    facts = reached.facts()
    if facts.dra_version is None:
        yield Finding("dra", "note", "resource.k8s.io is not served: no claims of NICs or NVLink domains")
        return
    domains = f"resource.nvidia.com/{facts.compute_domain_version}" if facts.compute_domain_version else "not served"
    try:
        classes = reached.cluster.list(f"resource.k8s.io/{facts.dra_version}", "DeviceClass")
        names = ", ".join(sorted(c["metadata"]["name"] for c in classes)[:6]) or "none"
    except ClusterError as error:
        if error.status != 403:
            raise
        names = "may not be listed"
    yield Finding(
        "dra", "ok", f"resource.k8s.io/{facts.dra_version}; device classes: {names}; ComputeDomains: {domains}"
    )
