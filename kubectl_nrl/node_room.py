"""What the nodes have left, and whether pods fit into it: for schedulers that place pods by requests.

It counts as kube-scheduler does (requests against allocatable, node selector, required node affinity, taints). What it
leaves out (affinity between pods, volumes' zones, DRA devices) can only make less fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from .api import Capacity, ClusterReader, Context
from .manifests.amounts import Amounts, amounts, occupies, plus, pod_amounts
from .manifests.pods import PodSet, pod_sets

_NOTHING = Fraction(0)


@dataclass(frozen=True)
class NodeRoom:
    """A node that takes pods: `total` is allocatable, `free` that without what its pods request."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Mapping[str, Any], ...]
    total: Amounts
    free: Amounts

    def without(self, asked: Mapping[str, Fraction]) -> NodeRoom:
        """What is left beside one more pod that asks for this."""
        return NodeRoom(self.name, self.labels, self.taints, self.total, plus(self.free, asked, -1))

    def takes(self, asked: Mapping[str, Fraction]) -> bool:
        """Whether a pod that asks for this still fits; labels and taints are another matter."""
        return all(self.free.get(name, _NOTHING) >= amount for name, amount in asked.items() if amount)


def rooms(nodes: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]]) -> list[NodeRoom]:
    """The ready, schedulable nodes with what their pods leave."""
    used: dict[str, Amounts] = {}
    for pod in pods:
        if occupies(pod):
            spec = pod["spec"]
            node = spec["nodeName"]
            used[node] = plus(used.get(node, {}), {**pod_amounts(spec), "pods": Fraction(1)})
    return [room_of(node, used.get(node["metadata"]["name"], {})) for node in nodes if _schedulable(node)]


def room_of(node: Mapping[str, Any], used: Mapping[str, Fraction]) -> NodeRoom:
    """A node of which so much is used."""
    meta = node["metadata"]
    total = amounts((node.get("status") or {}).get("allocatable"))
    taints = tuple((node.get("spec") or {}).get("taints") or ())
    return NodeRoom(meta["name"], meta.get("labels") or {}, taints, total, plus(total, used, -1))


def _schedulable(node: Mapping[str, Any]) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = all(c.get("status") == "True" for c in conditions if c.get("type") == "Ready")
    return ready and not (node.get("spec") or {}).get("unschedulable")


def admits(node: NodeRoom, pod: Mapping[str, Any]) -> bool:
    """Whether a pod of that spec may go to the node: what it selects, and the taints it tolerates."""
    keeping = (taint for taint in node.taints if taint.get("effect") in ("NoSchedule", "NoExecute"))
    tolerations = pod.get("tolerations") or ()
    return selects(node, pod) and all(any(_tolerates(known, taint) for known in tolerations) for taint in keeping)


def selects(node: NodeRoom, pod: Mapping[str, Any]) -> bool:
    """Whether the node has what a pod of that spec asks of its labels: node selector and required affinity."""
    selector = pod.get("nodeSelector") or {}
    if any(node.labels.get(key) != value for key, value in selector.items()):
        return False
    affinity = ((pod.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    terms = affinity.get("nodeSelectorTerms")
    return terms is None or any(_term(node, term) for term in terms)


def _term(node: NodeRoom, term: Mapping[str, Any]) -> bool:
    labels, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    named = {"metadata.name": node.name}
    fits = [*(_matches(node.labels, e) for e in labels), *(_matches(named, e) for e in fields)]
    return bool(fits) and all(fits)


def _matches(labels: Mapping[str, str], expression: Mapping[str, Any]) -> bool:
    value, operator = labels.get(str(expression.get("key"))), expression.get("operator")
    values = [str(v) for v in expression.get("values") or ()]
    if operator in ("In", "NotIn"):
        return (value in values) is (operator == "In")
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) is (operator == "Exists")
    try:
        there, limit = int(str(value)), int(values[0])
    except (ValueError, IndexError):
        return False
    return there > limit if operator == "Gt" else there < limit


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("operator") == "Exists":
        return not toleration.get("key") or toleration["key"] == taint.get("key")
    return toleration.get("key") == taint.get("key") and (toleration.get("value") or "") == (taint.get("value") or "")


def capacity_of_nodes(
    ctx: Context, cluster: ClusterReader, *, label: str = "", together: frozenset[str] = frozenset()
) -> Capacity:
    """What the nodes have left for the rendered pods; `together` are worker groups that must share a domain of the label.

    Raises `ClusterError` where nodes or pods may not be listed: what others use cannot be guessed.
    """
    pods = [pods for manifest in ctx.rendered for pods in pod_sets(manifest)]
    # Listing nodes is refused more often, and costs less.
    nodes = cluster.list("v1", "Node")
    running = cluster.list(
        "v1", "Pod", all_namespaces=True, field_selector="status.phase!=Succeeded,status.phase!=Failed"
    )
    label = label or str(ctx.profile.get("topology.label", ""))
    gpu = str(ctx.profile.get("gpus.resource", "nvidia.com/gpu"))
    room = room_for(pods, rooms(nodes, running), gpu, label=label, together=together)
    words = [f"{room.nodes} node{'' if room.nodes == 1 else 's'} with {gpu}"] if room.nodes else []
    if room.domain:
        words.append(f"most in one {label}: {room.largest} ({room.domain})")
    if not room.fits:
        words.append(f"no room for the {room.missing}")
    return Capacity(room.free, room.total, "; ".join(words), room.fits)


@dataclass(frozen=True)
class Room:
    """GPUs of the nodes that the pods may use, and whether all pods fit now.

    `missing` names the pods that do not; `largest` is the free GPUs of the fullest-free domain, `domain` its name.
    """

    free: int
    total: int
    nodes: int
    fits: bool
    missing: str = ""
    domain: str = ""
    largest: int = 0


def room_for(
    pods: Sequence[PodSet],
    nodes: Sequence[NodeRoom],
    gpu: str,
    *,
    label: str = "",
    together: frozenset[str] = frozenset(),
) -> Room:
    """Place every pod, the largest first, as a scheduler could; `together` are groups that must share a domain of `label`."""
    usable = [n for n in nodes if n.total.get(gpu) and any(admits(n, p.spec) for p in pods if _gpus(p, gpu))]
    missing, left = "", list(nodes)
    for pods_of in sorted(pods, key=lambda p: _gpus(p, gpu) * p.count, reverse=True):
        placed = _place(pods_of, left, label if pods_of.group in together else "")
        if placed is None:
            missing = missing or pods_of.words
        else:
            left = placed
    domains: dict[str, int] = {}
    for node in usable:
        if label and node.labels.get(label):
            domains[node.labels[label]] = domains.get(node.labels[label], 0) + _whole(node.free.get(gpu))
    domain = max(domains, key=lambda name: domains[name], default="")
    return Room(
        sum(_whole(n.free.get(gpu)) for n in usable), sum(_whole(n.total.get(gpu)) for n in usable), len(usable),
        not missing, missing, domain, domains.get(domain, 0),
    )  # fmt: skip


def _gpus(pods: PodSet, gpu: str) -> Fraction:
    return pod_amounts(pods.spec).get(gpu, _NOTHING)


def _whole(amount: Fraction | None) -> int:
    return max(0, int(amount or 0))


def _place(pods: PodSet, nodes: list[NodeRoom], label: str) -> list[NodeRoom] | None:
    """The nodes after all pods of the set went to them; None when not all fit. With a label, all go to one domain."""
    if not label:
        return _pack(pods, nodes, nodes)
    tries = (
        _pack(pods, nodes, [n for n in nodes if n.labels.get(label) == domain])
        for domain in sorted({n.labels[label] for n in nodes if n.labels.get(label)})
    )
    return next((done for done in tries if done is not None), None)


def _pack(pods: PodSet, nodes: list[NodeRoom], among: list[NodeRoom]) -> list[NodeRoom] | None:
    asked = {**pod_amounts(pods.spec), "pods": Fraction(1)}
    changed: dict[str, NodeRoom] = {}
    wanted = pods.count
    for node in among:
        room = node
        while wanted and room.takes(asked) and (room is not node or admits(node, pods.spec)):
            room, wanted = room.without(asked), wanted - 1
            changed[node.name] = room
    return None if wanted else [changed.get(n.name, n) for n in nodes]
