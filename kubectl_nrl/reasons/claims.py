"""What pods wait for beside a node: volume claims that are not bound, device claims that are not allocated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..api import ClusterReader, Reason
from ..errors import ClusterError
from ..facts import DRA_VERSIONS
from ..raycluster_state import condition
from .causes import one_line
from .pod_judge import event_time
from .pods import being_deleted, name_of, role_of

Objects = Sequence[Mapping[str, Any]]


def volume_reasons(cluster: ClusterReader, namespace: str, pods: Objects, events: Objects) -> Iterator[Reason]:
    """The claims behind a scheduler's "unbound immediate PersistentVolumeClaims", which does not name them."""
    waiting = [p for p in pods if "unbound immediate" in str(condition(p, "PodScheduled").get("message"))]
    names = sorted({name for pod in waiting for name in _volume_claims(pod)})
    for claim in _read(cluster, "v1", "PersistentVolumeClaim", namespace) if names else ():
        if name_of(claim) in names and (claim.get("status") or {}).get("phase") == "Pending":
            said = _newest(events, str(claim["metadata"].get("uid")))
            storage = (claim.get("spec") or {}).get("storageClassName")
            words = said or (
                f'not bound (storage class "{storage}")' if storage else "not bound, and of no storage class"
            )
            yield Reason(f'PersistentVolumeClaim "{name_of(claim)}"', "Pending", words, heals=False)


def _volume_claims(pod: Mapping[str, Any]) -> Iterator[str]:
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if name:
            yield str(name)


def _newest(events: Objects, uid: str) -> str:
    about = [e for e in events if (e.get("involvedObject") or {}).get("uid") == uid]
    return one_line(max(about, key=event_time).get("message")) if about else ""


def claim_reasons(cluster: ClusterReader, namespace: str, pods: Objects) -> Iterator[Reason]:
    """Device claims (DRA) of pods that have no node yet and that nobody has allocated, one line per device class."""
    waiting = {}
    for pod in pods:
        if not being_deleted(pod) and not (pod.get("spec") or {}).get("nodeName"):
            for entry in (pod.get("status") or {}).get("resourceClaimStatuses") or ():
                waiting[str(entry.get("resourceClaimName"))] = role_of(pod)
    if not waiting:
        return
    pending: dict[str, list[str]] = {}
    for claim in _claims(cluster, namespace):
        if name_of(claim) in waiting and not (claim.get("status") or {}).get("allocation"):
            pending.setdefault(", ".join(_classes(claim)), []).append(waiting[name_of(claim)])
    for classes, owners in sorted(pending.items()):
        words = f"nothing can be allocated yet of {classes or 'no device class'}, for {', '.join(sorted(set(owners)))}"
        yield Reason(f"{len(owners)} resource claim" + "s" * (len(owners) > 1), "Unallocated", words)


def _classes(claim: Mapping[str, Any]) -> list[str]:
    """What a claim asks for: device classes, in each of DRA's spellings."""
    requests = (((claim.get("spec") or {}).get("devices")) or {}).get("requests") or ()
    found = []
    for request in requests:
        for part in [request.get("exactly") or request, *(request.get("firstAvailable") or ())]:
            if part.get("deviceClassName"):
                count = part.get("count") or 1
                found.append(f"{count} x {part['deviceClassName']}")
    return found


def _claims(cluster: ClusterReader, namespace: str) -> Sequence[Mapping[str, Any]]:
    # Newest first: the shape of a claim's status does not differ.
    for version in DRA_VERSIONS:
        found = _read(cluster, f"resource.k8s.io/{version}", "ResourceClaim", namespace)
        if found:
            return found
    return ()


def _read(cluster: ClusterReader, api: str, kind: str, namespace: str) -> Objects:
    """Nothing where it is not served or may not be read: the pods' own words stay."""
    try:
        return cluster.list(api, kind, namespace)
    except ClusterError as error:
        if error.status == 403 or error.reason == "NotServed":
            return ()
        raise
