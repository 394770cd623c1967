"""Whether the hardware that the recipe counts on is the hardware that the Plan asks for: nodes, GPUs, gangs, segments, names.

Each mismatch here is a run whose pods wait for ever, or that dies after its GPUs were taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ..api import Role
from ..config import Config
from ..errors import Problem
from ..manifests.names import name_fault
from .choices import Choices
from .roles import Sizes, gpus_of
from .segments import remainder_hint, segment_names
from .written import Path, origin


def check(role: Role, config: Config, choices: Choices, sizes: Sizes) -> Iterable[Problem]:
    """Everything about one role's worker groups."""
    base: Path = ("kuberay", role.name, "spec", "workerGroupSpecs")
    yield from _segments(role, config, choices, base)
    yield from _names(role, config, choices, base)
    yield from _gangs(role, config, choices, base)
    if role.name == "training":
        yield from _nodes(role, config, choices, sizes)
        yield from _gpus(role, config, choices, sizes, base)


def _segments(role: Role, config: Config, choices: Choices, base: Path) -> Iterable[Problem]:
    for index, group in enumerate(role.groups):
        size = group.segment_size
        if size and group.replicas > size and group.replicas % size and choices.scheduler.traits.segments == "split":
            where = origin(config, "kuberay", role.name, "segmentSize") or origin(config, *base, index)
            yield Problem(
                f'segmentSize {size} does not divide the {group.replicas} replicas of group "{group.name}"',
                where, hint=remainder_hint(group.replicas, size),
            )  # fmt: skip


def _names(role: Role, config: Config, choices: Choices, base: Path) -> Iterable[Problem]:
    rendered: list[tuple[str, int, bool]] = []
    for index, group in enumerate(role.groups):
        size = group.segment_size if choices.scheduler.traits.segments == "split" else None
        names = segment_names(group.name, group.replicas, size)
        rendered += [(name, index, names != [group.name]) for name in names]
        if group.name in choices.scheduler.traits.reserved_groups:
            yield Problem(
                f'scheduler {choices.scheduler.name} reserves the group name "{group.name}"',
                origin(config, *base, index, "groupName"),
            )
    counts = Counter(name for name, _, _ in rendered)
    for name, index, split in rendered:
        where = origin(config, *base, index, "groupName")
        fault = name_fault(name, "worker group")
        if fault:
            yield Problem(fault + (" (after splitting into segments)" if split else ""), where)
        if counts[name] > 1:
            how = " (one from segmentSize expansion)" if any(s for n, _, s in rendered if n == name) else ""
            yield Problem(
                f'kuberay.{role.name}.spec.workerGroupSpecs: groupName "{name}" appears {counts[name]} times{how}',
                where,
            )
            counts[name] = 0


def too_many_groups(role: Role, count: int, choices: Choices, limit: int | None) -> Iterable[Problem]:
    """A scheduler's limit on worker groups, counted after splitting."""
    if limit is not None and count > limit:
        yield Problem(
            f"{role.name} has {count} worker groups; scheduler {choices.scheduler.name} takes {limit} here",
            hint="use a larger segmentSize, or fewer groups",
        )


def _gangs(role: Role, config: Config, choices: Choices, base: Path) -> Iterable[Problem]:
    if not choices.scheduler.traits.gang:
        return
    name = choices.scheduler.name
    for index, group in enumerate(role.groups):
        least = group.spec.get("minReplicas")
        if role.written and isinstance(least, int) and least != group.replicas:
            sign, start = (
                ("<", f"would start with {least or group.replicas}")
                if least < group.replicas
                else (">", "refuses this")
            )
            yield Problem(
                f'minReplicas ({least}) {sign} replicas ({group.replicas}) of group "{group.name}": scheduler {name} {start}',
                origin(config, *base, index, "minReplicas"), hint="leave minReplicas out, or write the same number",
            )  # fmt: skip


def _nodes(role: Role, config: Config, choices: Choices, sizes: Sizes) -> Iterable[Problem]:
    if sizes.num_nodes is None or "generation" in choices.roles or "generation" in choices.attached:
        return
    head_counts = 1 if role.written and _head_has_gpus(role, choices) else 0
    workers = sum(_hosts(group.spec) * group.replicas for group in role.groups) + head_counts
    where = config.recipe_origins.get("cluster.num_nodes")
    if not role.groups and head_counts == 0 and sizes.gpus_per_node == 0 and sizes.num_nodes == 1:
        return
    if workers < sizes.num_nodes:
        yield Problem(
            f"the recipe wants cluster.num_nodes {sizes.num_nodes}, {role.cluster} has {workers} worker nodes: it would wait for ever",
            where, hint=f"raise the replicas of kuberay.{role.name}, or override cluster.num_nodes={workers}",
        )  # fmt: skip
    elif workers > sizes.num_nodes:
        yield Problem(
            f"{role.cluster} has {workers} worker nodes, the recipe uses cluster.num_nodes {sizes.num_nodes}",
            where,
            severity="note",
        )


def _gpus(role: Role, config: Config, choices: Choices, sizes: Sizes, base: Path) -> Iterable[Problem]:
    wanted = sizes.gpus_per_node
    profile = choices.profile.get("gpus.perNode")
    where = config.recipe_origins.get("cluster.gpus_per_node")
    if wanted is not None and profile is not None and wanted != profile:
        yield Problem(
            f"the recipe wants cluster.gpus_per_node {wanted}, a {choices.profile.name} node has {profile}: such workers stay Pending",
            where, hint=f"override cluster.gpus_per_node={profile}",
        )  # fmt: skip
    expected = wanted if wanted is not None else profile
    if expected is None:
        return
    for index, group in enumerate(role.groups):
        if group.gpus != expected:
            place = (
                origin(config, *base, index)
                if role.written
                else origin(config, "resources", role.name, "worker", "gpu")
            )
            yield Problem(
                f'workers of group "{group.name}" have {group.gpus} GPUs, '
                f"{'the recipe wants cluster.gpus_per_node' if wanted is not None else choices.profile.name + ' has'} {expected}",
                place or where, hint="make the GPU limit and cluster.gpus_per_node agree",
            )  # fmt: skip


def _hosts(spec: object) -> int:
    count = spec.get("numOfHosts", 1) if isinstance(spec, dict) else 1
    return count if isinstance(count, int) and count > 0 else 1


def _head_has_gpus(role: Role, choices: Choices) -> bool:
    return (
        gpus_of(role.spec.get("headGroupSpec") or {}, str(choices.profile.get("gpus.resource", "nvidia.com/gpu"))) > 0
    )
