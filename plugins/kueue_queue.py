"""A Kueue queue on a live cluster: whether it can ever admit a workload, and what it could give now.

LocalQueues are in the namespace, ClusterQueues are not, and reading the latter is often forbidden: that is a note, never a
failure. Fields: Kueue's apis/kueue/v1beta2/{localqueue,clusterqueue}_types.go (v1beta1: `cohort` for `cohortName`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kubectl_nrl.api import Capacity, Check, ClusterReader
from kubectl_nrl.errors import ClusterError
from kubectl_nrl.manifests.amounts import Amounts, show
from kubectl_nrl.schema.quantities import quantity
from kubectl_nrl.unreadable import unreadable
from kubectl_nrl.written import dig, maps


@dataclass(frozen=True)
class Quota:
    """Of one resource: a queue's own, and what it may borrow of its cohort (None: as much as there is)."""

    nominal: Fraction = Fraction(0)
    borrowable: Fraction | None = Fraction(0)

    @property
    def most(self) -> Fraction | None:
        """All that it could ever give; None where nothing limits it."""
        return None if self.borrowable is None else self.nominal + self.borrowable


def check_queue(
    cluster: ClusterReader, name: str, namespace: str, version: str, needed: Mapping[str, Fraction]
) -> Iterator[Check]:
    """The LocalQueue, its ClusterQueue, and whether that could ever admit what is needed."""
    title = f'Kueue LocalQueue "{name}"'
    queue, answer = _read(cluster, version, "LocalQueue", name, namespace, title)
    if queue is None:
        fix = f"kubectl get localqueues -n {namespace}, then set scheduler.queue"
        yield answer or Check(title, False, f'not found in namespace "{namespace}"', fix)
        return
    stopped = _inactive(queue)
    if stopped:
        yield Check(title, False, f"is not active: {stopped}", f"kubectl describe localqueue {name} -n {namespace}")
        return
    yield Check(title, True)
    above = dig(queue, "spec", "clusterQueue")
    if above:
        yield from _check_cluster_queue(cluster, str(above), version, needed)


def _check_cluster_queue(
    cluster: ClusterReader, name: str, version: str, needed: Mapping[str, Fraction]
) -> Iterator[Check]:
    title = f'Kueue ClusterQueue "{name}"'
    queue, answer = _read(cluster, version, "ClusterQueue", name, None, title)
    if queue is None:
        yield answer or Check(title, False, "does not exist", f"ask Kueue's admin for ClusterQueue {name}")
        return
    stopped = _inactive(queue)
    ask = f"ask Kueue's admin (kubectl describe clusterqueue {name})"
    if stopped:
        yield Check(title, False, f"is not active: {stopped}", ask)
        return
    quotas, left_out = _quotas(queue), _left_out(cluster)
    needed = {resource: amount for resource, amount in needed.items() if not resource.startswith(left_out or ())}
    absent = sorted(set(needed) - set(quotas))
    if absent:
        never = f"does not cover {', '.join(absent)}, so the run would never be admitted"
        unless = "" if left_out is not None else ", unless Kueue's configuration leaves that out (it may not be read)"
        known = None if unless else False
        yield Check(title, known, never + unless, f"leave the requests out, or {ask}")
    short = [
        f"{show(resource, amount)} {resource} of at most {show(resource, most)}"
        for resource, amount in sorted(needed.items())
        if resource in quotas and (most := quotas[resource].most) is not None and amount > most
    ]
    if short:
        yield Check(title, False, f"its quota is too small for the run: {'; '.join(short)}", f"ask for less, or {ask}")
    if not absent and not short:
        yield Check(title, True)


def _left_out(cluster: ClusterReader) -> tuple[str, ...] | None:
    """Prefixes of resources that Kueue does not count as they are requested, by its configuration; None: not known.

    The ConfigMap's name is that of Kueue's own manifests and chart.
    """
    import yaml

    try:
        found = cluster.get("v1", "ConfigMap", "kueue-manager-config", "kueue-system")
        config = yaml.safe_load(str(dig(found, "data", "controller_manager_config.yaml") or ""))
    except (ClusterError, yaml.YAMLError):
        return None
    if not isinstance(config, dict):
        return None
    changed = (str(entry.get("input")) for _, entry in maps(dig(config, "resources", "transformations")))
    return (*map(str, dig(config, "resources", "excludeResourcePrefixes") or ()), *changed)


def check_priority(cluster: ClusterReader, name: str, version: str) -> Check:
    """Whether the WorkloadPriorityClass exists."""
    title = f'Kueue WorkloadPriorityClass "{name}"'
    found, answer = _read(cluster, version, "WorkloadPriorityClass", name, None, title)
    if found is not None:
        return Check(title, True)
    return answer or Check(
        title, False, "not found", "kubectl get workloadpriorityclasses, then set scheduler.priority"
    )


def capacity(cluster: ClusterReader, name: str, namespace: str, version: str, resource: str) -> Capacity | None:
    """What the queue could admit now of that resource: its free quota, and what its cohort could lend.

    None where there is no such queue. Raises `ClusterError` where the queues may not be read.
    """
    local = cluster.get(version, "LocalQueue", name, namespace)
    above = dig(local, "spec", "clusterQueue")
    queue = cluster.get(version, "ClusterQueue", str(above)) if above else None
    if queue is None:
        return None
    quota, used = _quotas(queue).get(resource, Quota()), _reserved(queue).get(resource, Fraction(0))
    lendable, borrows, words = _lendable(cluster, queue, version, resource), Fraction(0), ""
    if lendable is not None:
        borrows = lendable if quota.borrowable is None else min(lendable, quota.borrowable)
        words = f", its cohort lends up to {show(resource, lendable)}"
    elif _cohort(queue):
        borrows, words = quota.borrowable or borrows, ", its cohort cannot be read"
    total = quota.nominal + borrows
    detail = (
        f'ClusterQueue "{above}": {show(resource, used)} of {show(resource, quota.nominal)} {resource} in use{words}'
    )
    return Capacity(int(max(Fraction(0), total - used)), int(total), detail)


def _lendable(cluster: ClusterReader, queue: Mapping[str, Any], version: str, resource: str) -> Fraction | None:
    """What the other queues of the cohort do not use themselves and may lend, what this one borrows already included.

    A queue that borrows counts against it. None without a cohort, and where its queues may not be read.
    """
    cohort = _cohort(queue)
    if not cohort:
        return None
    try:
        others = cluster.list(version, "ClusterQueue")
    except ClusterError:
        return None
    total = Fraction(0)
    for other in others:
        if _cohort(other) == cohort and dig(other, "metadata", "name") != dig(queue, "metadata", "name"):
            unused = _quotas(other).get(resource, Quota()).nominal - _reserved(other).get(resource, Fraction(0))
            total += min(unused, _lending_limit(other, resource, unused))
    return max(Fraction(0), total)


def _read(
    cluster: ClusterReader, version: str, kind: str, name: str, namespace: str | None, title: str
) -> tuple[Mapping[str, Any] | None, Check | None]:
    """The object, or the check that says why it could not be looked at; neither when it is simply not there."""
    try:
        return cluster.get(version, kind, name, namespace), None
    except ClusterError as error:
        fix = "leave `scheduler` out, or ask for Kueue to be installed"
        no_kueue = (f"this cluster has no Kueue ({version} is not served)", fix)
        return None, unreadable(error, title, not_served=no_kueue)


def _inactive(queue: Mapping[str, Any]) -> str:
    """Why a queue is not active; empty when it is, or nobody has said yet."""
    for _, condition in maps(dig(queue, "status", "conditions")):
        if condition.get("type") == "Active" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason") or "no reason is given")
    return ""


def _cohort(queue: Mapping[str, Any]) -> str:
    return str(dig(queue, "spec", "cohortName") or dig(queue, "spec", "cohort") or "")


def _entries(queue: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every flavor's quota of a resource, by the resource's name."""
    for _, group in maps(dig(queue, "spec", "resourceGroups")):
        for _, flavor in maps(group.get("flavors")):
            for _, entry in maps(flavor.get("resources")):
                yield str(entry.get("name")), entry


def _quotas(queue: Mapping[str, Any]) -> dict[str, Quota]:
    """By resource, all flavors together: what one flavor alone must hold is left for Kueue to judge."""
    found: dict[str, Quota] = {}
    for name, entry in _entries(queue):
        before, nominal = found.get(name, Quota()), quantity(entry.get("nominalQuota")) or Fraction(0)
        limit = quantity(entry.get("borrowingLimit")) if _cohort(queue) else Fraction(0)
        borrowable = None if limit is None or before.borrowable is None else before.borrowable + limit
        found[name] = Quota(before.nominal + nominal, borrowable)
    return found


def _lending_limit(queue: Mapping[str, Any], resource: str, otherwise: Fraction) -> Fraction:
    limits = [quantity(e.get("lendingLimit")) for name, e in _entries(queue) if name == resource]
    known = [limit for limit in limits if limit is not None]
    return sum(known, Fraction(0)) if limits and len(known) == len(limits) else otherwise


def _reserved(queue: Mapping[str, Any]) -> Amounts:
    """What workloads have reserved of each resource, over all flavors, borrowed quota included."""
    total: Amounts = {}
    for _, flavor in maps(dig(queue, "status", "flavorsReservation")):
        for _, entry in maps(flavor.get("resources")):
            name = str(entry.get("name"))
            total[name] = total.get(name, Fraction(0)) + (quantity(entry.get("total")) or Fraction(0))
    return total
