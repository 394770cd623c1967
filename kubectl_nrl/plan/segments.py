"""Worker groups split into segments: groups of segmentSize replicas that each land in one NVLink domain.

KAI has no segments for Ray (facts 1.1), so a group is split; under Kueue it stays whole and gets podset slices instead.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any


def segment_names(group: str, replicas: int, size: int | None) -> list[str]:
    """Names of the segments, as upstream writes them: `<group>-segment-<i>`; a group that fits one segment keeps its own."""
    if not size or replicas <= size:
        return [group]
    return [f"{group}-segment-{index}" for index in range(replicas // size)]


def split(group: Mapping[str, Any], size: int | None) -> list[dict[str, Any]]:
    """The group itself, or one copy per segment with `replicas` = `minReplicas` = `maxReplicas` = `size`."""
    names = segment_names(str(group["groupName"]), int(group["replicas"]), size)
    if names == [group["groupName"]]:
        return [copy.deepcopy(dict(group))]
    return [
        {**copy.deepcopy(dict(group)), "groupName": name, "replicas": size, "minReplicas": size, "maxReplicas": size}
        for name in names
    ]


def remainder_hint(replicas: int, size: int) -> str:
    """The nearest segment sizes that divide `replicas`, as a hint."""
    divisors = [d for d in range(1, replicas + 1) if replicas % d == 0]
    below = max((d for d in divisors if d <= size), default=1)
    above = min((d for d in divisors if d >= size), default=replicas)
    return f"use {below} or {above}, or change the replicas" if below != above else f"use {below}"


def natural_size(workers: int, rack_size: int | None, recipe_size: int | None) -> int | None:
    """The segment size of a short infra file: the recipe's, else the largest divisor of the workers that fits a rack."""
    if recipe_size:
        return recipe_size
    if not rack_size or workers <= rack_size:
        return None
    return max(d for d in range(1, rack_size + 1) if workers % d == 0)
