"""Whether what the pods refer to exists: without it they wait, with their GPUs, for something that nobody makes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..api import Check, ClusterFacts
from ..errors import ClusterError
from ..unreadable import unreadable
from .references import Reference

_API = {
    "PersistentVolumeClaim": "v1",
    "ServiceAccount": "v1",
    "PriorityClass": "scheduling.k8s.io/v1",
    "RuntimeClass": "node.k8s.io/v1",
}
#: What the control plane itself makes (pkg/apis/scheduling/types.go); it may not be listed by everybody.
_BUILT_IN = ("system-cluster-critical", "system-node-critical")


def reference_checks(cluster: Any, namespace: str, facts: ClusterFacts, refs: Sequence[Reference]) -> Iterator[Check]:
    """The check of one object, given all references to it."""
    yield _check(cluster, namespace, facts, refs)


def _check(cluster: Any, namespace: str, facts: ClusterFacts, refs: Sequence[Reference]) -> Check:
    kind, name = refs[0].kind, refs[0].name
    title = f'{kind} "{name}"' + (f" ({sources})" if (sources := _sources(refs)) else "")
    try:
        if kind in ("Secret", "ConfigMap"):
            return _data_check(cluster, namespace, refs, title)
        if kind == "PriorityClass" and name in _BUILT_IN:
            return Check(title, True)
        api = _API.get(kind) or f"resource.k8s.io/{facts.dra_version or 'v1'}"
        found = cluster.get(api, kind, name, namespace)
    except ClusterError as error:
        return unreadable(error, title, not_served=(error.message, "leave it out of the spec, or use another cluster"))
    if found is None:
        return Check(title, False, _where(kind, namespace), _make(kind, name, namespace))
    return _JUDGES.get(kind, _exists)(title, found, namespace, cluster)


def _sources(refs: Sequence[Reference]) -> str:
    """The places in the files that name it: `workspace (infra.yaml:6)` is infra.yaml:6."""
    found = (re.search(r"\(([^()]+:\d+)\)$", ref.source) for ref in refs)
    places = [match[1] if match else ref.source for match, ref in zip(found, refs, strict=True)]
    return ", ".join(dict.fromkeys(place for place in places if place))


def _where(kind: str, namespace: str) -> str:
    scoped = kind in ("PriorityClass", "RuntimeClass")
    return "not found" if scoped else f'not found in namespace "{namespace}"'


def _make(kind: str, name: str, namespace: str) -> str:
    """What makes it, or shows what there is instead."""
    name, namespace = shlex.quote(name), shlex.quote(namespace)
    commands = {
        "PersistentVolumeClaim": f"kubectl get pvc -n {namespace}   # then name one of them, or ask an admin for {name}",
        "ServiceAccount": f"kubectl create serviceaccount {name} -n {namespace}",
        "PriorityClass": "kubectl get priorityclasses   # then name one of them",
        "RuntimeClass": "kubectl get runtimeclasses   # then name one of them",
        "ResourceClaim": f"kubectl get resourceclaims -n {namespace}   # create {name}, or leave the claim out of the spec",
        "ResourceClaimTemplate": f"kubectl get resourceclaimtemplates -n {namespace}   "
        f"# create {name}, or leave the claim out of the spec",
    }
    return commands[kind]


def _exists(title: str, found: Mapping[str, Any], namespace: str, cluster: Any) -> Check:
    if (found.get("metadata") or {}).get("deletionTimestamp"):
        return Check(title, False, "is being deleted", "wait until it is gone and made again, or name another")
    return Check(title, True)


def _claim(title: str, found: Mapping[str, Any], namespace: str, cluster: Any) -> Check:
    """A claim that waits for its first pod is as good as a bound one."""
    name = found["metadata"]["name"]
    describe = f"kubectl describe pvc {name} -n {namespace}"
    if found["metadata"].get("deletionTimestamp"):
        return Check(title, False, "is being deleted: pods that are new cannot mount it", "name another claim")
    phase = (found.get("status") or {}).get("phase") or "Pending"
    if phase == "Lost":
        return Check(title, False, "has lost its volume", describe)
    if phase == "Pending" and not _waits_for_pod(found, cluster):
        return Check(title, None, "is not bound yet: pods wait until it is", describe)
    return Check(title, True, phase.lower())


def _waits_for_pod(claim: Mapping[str, Any], cluster: Any) -> bool:
    name = (claim.get("spec") or {}).get("storageClassName")
    if not name:
        return False
    try:
        found = cluster.get("storage.k8s.io/v1", "StorageClass", name)
    except ClusterError as error:
        if error.status != 403:
            raise
        return True  # unknown, and most classes wait for the pod
    return bool(found) and found.get("volumeBindingMode") == "WaitForFirstConsumer"


_JUDGES: Mapping[str, Callable[[str, Mapping[str, Any], str, Any], Check]] = {"PersistentVolumeClaim": _claim}


def _data_check(cluster: Any, namespace: str, refs: Sequence[Reference], title: str) -> Check:
    """A Secret or ConfigMap and its keys. Values are asked for only where keys are, and are dropped at once."""
    kind, name = refs[0].kind, refs[0].name
    needed = [ref for ref in refs if not ref.optional]
    keys = [ref.key for ref in refs if ref.key]
    read = cluster.get if keys else cluster.metadata
    found = read("v1", kind, name, namespace)
    if found is None:
        if not needed:
            return Check(title, None, f"not there; it is optional: {_create(kind, name, namespace, keys)}")
        blocks = any(ref.use != "pull" for ref in needed)
        detail = f'not found in namespace "{namespace}"'
        return Check(title, False, detail, _create(kind, name, namespace, keys, _is_pull(refs)), blocks)
    there = {*(found.get("data") or {}), *(found.get("binaryData") or {})}
    del found
    missing = list(dict.fromkeys(ref.key for ref in needed if ref.key and ref.key not in there))
    if missing:
        detail = f"has no key {_quoted(missing)} (its keys: {', '.join(sorted(there)) or 'none'})"
        return Check(title, False, detail, _add_key(kind, name, namespace, missing[0]))
    lost = list(dict.fromkeys(ref.key for ref in refs if ref.key and ref.key not in there))
    if lost:
        return Check(title, None, f"has no key {_quoted(lost)}; it is optional")
    return Check(title, True)


def _is_pull(refs: Sequence[Reference]) -> bool:
    return any(ref.use == "pull" for ref in refs)


def _create(kind: str, name: str, namespace: str, keys: Sequence[str], pull: bool = False) -> str:
    """A command that keeps the value off the command line; the names come from a file, and mean nothing to a shell."""
    name, namespace, keys = shlex.quote(name), shlex.quote(namespace), [shlex.quote(key) for key in keys]
    if pull:
        return f"kubectl create secret docker-registry {name} -n {namespace} --from-file=.dockerconfigjson=$HOME/.docker/config.json"
    # A name in capitals is an environment variable; beside `=` the program's own redaction would hide what follows it.
    variables = [key for key in dict.fromkeys(keys) if key == key.upper()]
    files = [f"--from-file={key}=FILE" for key in dict.fromkeys(keys) if key not in variables]
    if variables or not files:
        files.append(
            "--from-env-file=FILE" + (f"   # with a line for each of {', '.join(variables)}" if variables else "")
        )
    generic = "secret generic" if kind == "Secret" else "configmap"
    return f"kubectl create {generic} {name} -n {namespace} {' '.join(files)}"


def _add_key(kind: str, name: str, namespace: str, key: str) -> str:
    """An editor keeps the value off the command line, where others could see it."""
    data = "stringData" if kind == "Secret" else "data"
    words = shlex.join(["kubectl", "edit", kind.lower(), name, "-n", namespace])
    return f"{words}   # add under {data}: {' '.join(key.split())}: VALUE"


def _quoted(keys: Sequence[str]) -> str:
    return ", ".join(f'"{key}"' for key in keys)


def namespace_check(cluster: Any, namespace: str) -> Iterator[Check]:
    """Whether the namespace exists and is not going away; it is cluster-scoped and often may not be read."""
    title = f'namespace "{namespace}"'
    try:
        found = cluster.get("v1", "Namespace", namespace)
    except ClusterError as error:
        yield unreadable(error, title)
        return
    if found is None:
        yield Check(title, False, f"{title} does not exist", f"kubectl create namespace {shlex.quote(namespace)}")
    elif (found.get("status") or {}).get("phase") == "Terminating":
        yield Check(title, False, f"{title} is being deleted", "choose another: -n NAMESPACE")
    else:
        yield Check(title, True)
