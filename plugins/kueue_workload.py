"""Why Kueue keeps a run waiting, as the Workload says that it made of it.

Kueue writes the same thing in several conditions and keeps old ones; what counts is chosen here: an eviction while there is
no quota again, else the quota, else admission checks. Fields: Kueue's apis/kueue/v1beta2/workload_types.go; messages:
pkg/scheduler/flavorassigner, pkg/scheduler/preemption.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from kubectl_nrl.api import ClusterReader, Reason
from kubectl_nrl.errors import ClusterError
from kubectl_nrl.written import dig, maps

QUEUE = "kueue.x-k8s.io/queue-name"
#: Kueue's label of a Workload: the uid of the job that it stands for (pkg/controller/constants).
JOB_UID = "kueue.x-k8s.io/job-uid"
#: From the newest: v1beta2 is served from 0.15 on, and reading v1beta1 there goes through a conversion webhook.
VERSIONS = ("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")

#: Seconds after which a queued run without a Workload is no matter of a moment any more.
_UNSEEN = 30.0
#: What time alone does not cure, in the message of one pod set.
_LASTING = re.compile(
    r"doesn't exist|is not mapped|> maximum capacity|unavailable in ClusterQueue|untolerated taint|doesn't match node affinity"
)
#: What does: others end. It stands beside the above where a pod set may go to several flavors.
_PASSING = re.compile(r"insufficient unused quota|more needed")
_POD_SET = re.compile(r"couldn't assign flavors to pod set ([^:;]+): ")
_PREEMPTOR = re.compile(r"JobUID: ([0-9a-f-]{36})\) due to ([^;]+)")


def workload_reasons(run: Mapping[str, Any], cluster: ClusterReader) -> Iterator[Reason]:
    """Why the run (its RayJob or RayCluster) is not admitted; nothing when it is, and where it cannot be read."""
    meta = run.get("metadata") or {}
    queue = dig(meta, "labels", QUEUE)
    try:
        workloads = _workloads(cluster, meta.get("namespace"), str(meta.get("uid", "")))
    except ClusterError:
        return
    for workload in workloads:
        yield from _reasons(workload, cluster)
    if not workloads and queue and dig(run, "spec", "suspend") is True and _age(meta, cluster) > _UNSEEN:
        message = f"LocalQueue {queue}: Kueue has made no Workload of it; is its controller running?"
        yield Reason(f"queue {queue}", "NotSeenByKueue", message)


def _workloads(cluster: ClusterReader, namespace: str | None, uid: str) -> Sequence[Mapping[str, Any]]:
    """The Workloads of that job; none where no version is served. Raises `ClusterError` when they may not be read."""
    for version in VERSIONS:
        try:
            return cluster.list(version, "Workload", namespace, label_selector=f"{JOB_UID}={uid}")
        except ClusterError as error:
            if error.reason != "NotServed":
                raise
    return ()


def _reasons(workload: Mapping[str, Any], cluster: ClusterReader) -> Iterator[Reason]:
    conditions = {str(c.get("type")): c for _, c in maps(dig(workload, "status", "conditions"))}

    def holds(kind: str) -> bool:
        return conditions.get(kind, {}).get("status") == "True"

    subject = f"Workload {dig(workload, 'metadata', 'name')}"
    if holds("Finished"):
        return
    if dig(workload, "spec", "active") is False:
        evicted = conditions.get("Evicted") or conditions.get("DeactivationTarget") or {}
        message = f"Kueue has deactivated it: {evicted.get('message') or 'spec.active is false'}"
        yield Reason(subject, str(evicted.get("reason") or "Deactivated"), message, heals=False)
    elif holds("Admitted"):
        return
    elif holds("QuotaReserved"):
        yield from _admission_checks(workload, subject)
    else:
        if holds("Evicted"):
            yield _eviction(workload, conditions["Evicted"], subject, cluster)
        yield from _queued(workload, conditions, subject, cluster)


def _queued(
    workload: Mapping[str, Any], conditions: Mapping[str, Mapping[str, Any]], subject: str, cluster: ClusterReader
) -> Iterator[Reason]:
    queue = str(dig(workload, "spec", "queueName") or "")
    quota = conditions.get("QuotaReserved")
    message = str((quota or {}).get("message") or "")
    evicted = conditions.get("Evicted") or {}
    if evicted.get("status") == "True" and (not message or message == evicted.get("message")):
        return  # not looked at again since: the eviction is said already
    if quota is None:
        yield Reason(subject, "Queued", f"in LocalQueue {queue}{_pending(workload, queue, cluster)}")
        return
    reason = str(quota.get("reason") or "Pending")
    lasting = any(_LASTING.search(part) and not _PASSING.search(part) for part in message.split("; "))
    where = "" if "LocalQueue" in message else f"LocalQueue {queue}{_pending(workload, queue, cluster)}: "
    yield Reason(subject, "Queued" if reason == "Pending" else reason, where + _plain(message), heals=not lasting)


def _plain(message: str) -> str:
    """Kueue's message without its formula: `gpu: insufficient unused quota for ..., 4 more needed`."""
    return _POD_SET.sub(r"\1: ", message)


def _pending(workload: Mapping[str, Any], queue: str, cluster: ClusterReader) -> str:
    """How many workloads wait in the queue, this one included; nothing where that cannot be read.

    Said of one alone too: a reason whose words come and go would be told again and again.
    """
    version, namespace = str(workload.get("apiVersion") or VERSIONS[0]), dig(workload, "metadata", "namespace")
    try:
        found = cluster.get(version, "LocalQueue", queue, namespace)
    except ClusterError:
        return ""
    count = dig(found, "status", "pendingWorkloads")
    return f" ({count} waiting)" if isinstance(count, int) and count else ""


def _eviction(workload: Mapping[str, Any], evicted: Mapping[str, Any], subject: str, cluster: ClusterReader) -> Reason:
    """That it ran and was put back into its queue, why, and when it is tried again."""
    message = str(evicted.get("message") or "")
    taken = _PREEMPTOR.search(message)
    if taken:
        message = f"for {_preemptor(workload, taken[1], cluster)}, {taken[2]}"
    retry = dig(workload, "status", "requeueState") or {}
    again = f"; tried again at {retry['requeueAt']}" if retry.get("requeueAt") else ""
    attempt = f" (attempt {retry['count'] + 1})" if isinstance(retry.get("count"), int) else ""
    return Reason(subject, str(evicted.get("reason") or "Evicted"), f"{message}{again}{attempt}; it is queued again")


def _preemptor(workload: Mapping[str, Any], uid: str, cluster: ClusterReader) -> str:
    """The job that took its place, by name where it is in this namespace and may be read."""
    try:
        found = _workloads(cluster, dig(workload, "metadata", "namespace"), uid)
    except ClusterError:
        found = ()
    for other in found:
        for _, owner in maps(dig(other, "metadata", "ownerReferences")):
            if owner.get("uid") == uid:
                return f"{str(owner.get('kind', '')).lower()}/{owner.get('name')}"
    return "a job of another namespace"


def _admission_checks(workload: Mapping[str, Any], subject: str) -> Iterator[Reason]:
    """Quota is reserved; the checks of the ClusterQueue (a provisioning request, another cluster) are not done."""
    for _, check in maps(dig(workload, "status", "admissionChecks")):
        state = check.get("state")
        if state in ("Pending", "Retry", "Rejected"):
            said = f": {check['message']}" if check.get("message") else ""
            message = f'has quota, admission check "{check.get("name")}" is {state}{said}'
            yield Reason(subject, "AdmissionCheck", message, heals=state != "Rejected")


def _age(meta: Mapping[str, Any], cluster: ClusterReader) -> float:
    """Seconds since an object was made, by the API server's clock; 0 where it is not known."""
    try:
        made = datetime.strptime(str(meta.get("creationTimestamp")), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        return 0.0
    now = cluster.time()
    return (now - made).total_seconds() if now is not None else 0.0
