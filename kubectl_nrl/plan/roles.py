"""The Ray clusters of a Plan before any provider touched them: what the user wrote, or a skeleton from profile and recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..api import Group, Kind, Role, RunInfo
from ..config import Config
from ..errors import Problem
from ..manifests.merge import FieldPath
from ..manifests.names import RAYCLUSTER_MAX, RAYJOB_MAX, cut, dns_label
from .choices import Choices
from .drafts import RoleDraft
from .model import Options
from .ranks import Rank
from .segments import natural_size
from .written import author, origin

#: Names in a cluster made from a profile.
WORKER_GROUP = "worker"
HEAD_CONTAINER = "ray-head"
WORKER_CONTAINER = "ray-worker"
#: What a CPU head asks for when neither profile nor infra says.
HEAD_SIZE = {"cpu": "2", "memory": "8Gi"}


@dataclass(frozen=True)
class Sizes:
    """What the recipe says of the hardware; None where it says nothing."""

    num_nodes: int | None
    gpus_per_node: int | None
    segment_size: int | None
    generation_nodes: int | None

    @classmethod
    def read(cls, config: Config, problems: list[Problem]) -> Sizes:
        """Read `cluster.*` and the non-colocated generation nodes (NeMo-RL: virtual_cluster.py, grpo.py setup)."""
        apart = config.recipe_value("policy.generation.colocated.enabled") is False
        generation = "policy.generation.colocated.resources.num_nodes"
        return cls(
            _count(config, "cluster.num_nodes", 1, problems),
            _count(config, "cluster.gpus_per_node", 0, problems),
            _count(config, "cluster.segment_size", 1, problems),
            _count(config, generation, 1, problems) if apart else None,
        )


def _count(config: Config, path: str, least: int, problems: list[Problem]) -> int | None:
    value = config.recipe_value(path)
    if value is None or value == "???":
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        problems.append(
            Problem(f"{path} is {value!r}, must be a whole number from {least}", config.recipe_origins.get(path))
        )
        return None
    return value


def role_name(config: Config, role: str, run: RunInfo) -> str:
    """The cluster's name: as written, else `<user>-<recipe stem>` for training and `<training>-<role>` for the others."""
    written = ((config.infra.get("kuberay") or {}).get(role) or {}).get("name")
    if written:
        return str(written)
    if role != "training":
        return cut(f"{role_name(config, 'training', run)}-{role}", RAYCLUSTER_MAX)
    stem = config.recipe_path.replace("\\", "/").rsplit("/", 1)[-1].rsplit(".", 1)[0]
    return cut(dns_label(f"{run.user.name}-{stem}"), RAYJOB_MAX - 6)


def object_name(kind: Kind, cluster: str, options: Options, run: RunInfo) -> str:
    """The workload's name: a RayJob's is unique to the run, a RayCluster's is the cluster's own."""
    if kind != "RayJob":
        return cluster
    if options.rayjob_name is not None:
        return options.rayjob_name
    base = cluster if len(cluster) + len(run.short) < RAYJOB_MAX else cut(cluster, RAYJOB_MAX - len(run.short) - 1)
    return f"{base}-{run.short}"


def draft_role(
    role: str, config: Config, choices: Choices, options: Options, run: RunInfo, sizes: Sizes, problems: list[Problem]
) -> RoleDraft:
    """The documents of one role at the built-in and user ranks; the user's come last, when `add_user_spec` is called."""
    section = (config.infra.get("kuberay") or {}).get(role) or {}
    spec = section.get("spec") or {}
    cluster = role_name(config, role, run)
    if not spec and not choices.has_profile:
        problems.append(_no_spec(config, role))
    gpu = str(choices.profile.get("gpus.resource", "nvidia.com/gpu"))
    groups = (
        _written_groups(role, config, spec, section, gpu)
        if spec
        else _made_groups(role, config, section, choices, sizes, problems)
    )
    view = Role(role, cluster, object_name(choices.kind, cluster, options, run), bool(spec), tuple(groups), spec)
    draft = RoleDraft(view, choices.kind)
    if spec:
        _seed(draft.head, spec.get("headGroupSpec") or {}, HEAD_CONTAINER)
    else:
        draft.head.merge(_made_head(config, role), Rank.BUILTIN, "built-in")
    version = config.infra.get("rayVersion")
    if version is not None:
        draft.cluster.merge({"rayVersion": str(version)}, Rank.SECTION, author(config, "rayVersion"))
        if spec.get("rayVersion") not in (None, version):
            said = f"rayVersion {version} yields to the spec of {role}, which writes {spec['rayVersion']}"
            problems.append(Problem(said, origin(config, "rayVersion"), severity="note"))
    for group in groups:
        layered = draft.groups.setdefault(group.name, type(draft.head)())
        if spec:
            _seed(layered, group.spec, WORKER_CONTAINER)
            layered.merge(_counts(group.spec, group.replicas), Rank.BUILTIN, "built-in")
        else:
            layered.merge(dict(group.spec), Rank.BUILTIN, "built-in")
    return draft


def add_user_spec(draft: RoleDraft, config: Config) -> None:
    """Merge what the user wrote on top of what weaker ranks gave."""
    spec = draft.role.spec
    base: FieldPath = ("kuberay", draft.role.name, "spec")
    draft.cluster.merge(
        {k: v for k, v in spec.items() if k not in ("headGroupSpec", "workerGroupSpecs")},
        Rank.USER,
        author(config, *base),
    )
    draft.head.merge(spec.get("headGroupSpec") or {}, Rank.USER, author(config, *base, "headGroupSpec"))
    for index, group in enumerate(spec.get("workerGroupSpecs") or []):
        layered = draft.groups.get(str(group.get("groupName")))
        if layered is not None:
            layered.merge(group, Rank.USER, author(config, *base, "workerGroupSpecs", index))
            counts = _counts(group, draft.role.groups[index].replicas)
            removed = {key: count for key, count in counts.items() if key not in layered.value}
            layered.merge(removed, Rank.USER, "built-in")


def _no_spec(config: Config, role: str) -> Problem:
    where = origin(config, "kuberay", role)
    return Problem(
        f"kuberay.{role}.spec is missing and no profile is set to make it from",
        where,
        hint="set profile: generic, or write the spec",
    )


def _seed(layered: Any, group: Mapping[str, Any], default: str) -> None:
    """Name container 0 as the user's spec does, so that weaker patches for the Ray container find it."""
    containers = ((group.get("template") or {}).get("spec") or {}).get("containers") or [{}]
    name = str(containers[0].get("name") or default)
    layered.merge({"template": {"spec": {"containers": [{"name": name}]}}}, Rank.BUILTIN, "built-in")


def _counts(spec: Mapping[str, Any], replicas: int) -> dict[str, Any]:
    """KubeRay's own defaults are 0 and 2147483647 (facts 5.9), which a gang scheduler would take for an elastic group."""
    return {"replicas": replicas, "minReplicas": replicas, "maxReplicas": max(replicas, spec.get("minReplicas") or 0)}


def _written_groups(
    role: str, config: Config, spec: Mapping[str, Any], section: Mapping[str, Any], gpu: str
) -> list[Group]:
    size = section.get("segmentSize")
    asked = _whole((((config.infra.get("resources") or {}).get(role) or {}).get("worker") or {}).get("gpu"))
    groups = []
    for group in spec.get("workerGroupSpecs") or []:
        replicas = next((n for n in (group.get("replicas"), group.get("minReplicas")) if n is not None), 1)
        groups.append(Group(str(group.get("groupName")), int(replicas), gpus_of(group, gpu) or asked, size, group))
    return groups


def gpus_of(group: Mapping[str, Any], resource: str = "nvidia.com/gpu") -> int:
    """Whole GPUs of a group's Ray container: its limit, else `num-gpus` (clusters that hand out GPUs by DRA only)."""
    pod = (group.get("template") or {}).get("spec") or {}
    resources = ((pod.get("containers") or [{}])[0]).get("resources") or {}
    for part in ("limits", "requests"):
        for name, count in (resources.get(part) or {}).items():
            if name == resource or str(name).endswith("gpu"):
                return _whole(count)
    return _whole((group.get("rayStartParams") or {}).get("num-gpus", 0))


def _whole(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        return 0


def _made_groups(
    role: str, config: Config, section: Mapping[str, Any], choices: Choices, sizes: Sizes, problems: list[Problem]
) -> list[Group]:
    if role == "gym" and not section.get("workers"):
        return []
    profile = choices.profile
    default = sizes.num_nodes if role == "training" else sizes.generation_nodes
    workers = section.get("workers") if section.get("workers") is not None else default
    if workers is None:
        where = origin(config, "kuberay", role)
        problems.append(
            Problem(f"how many workers {role} has is said nowhere", where, hint=f"set kuberay.{role}.workers")
        )
        workers = 1
    if not workers:
        return []
    resource = str(profile.get("gpus.resource", "nvidia.com/gpu"))
    asked = (((config.infra.get("resources") or {}).get(role) or {}).get("worker") or {}).get("gpu")
    gpus = next((int(g) for g in (asked, sizes.gpus_per_node, profile.get("gpus.perNode")) if g is not None), 0)
    size = section.get("segmentSize", natural_size(workers, profile.get("topology.rackSize"), sizes.segment_size))
    container: dict[str, Any] = {"name": WORKER_CONTAINER}
    if gpus:
        container["resources"] = {"limits": {resource: gpus}, "requests": {resource: gpus}}
    spec = {
        "groupName": WORKER_GROUP,
        "replicas": workers, "minReplicas": workers, "maxReplicas": workers,
        "rayStartParams": {},
        "template": {"spec": {"containers": [container]}},
    }  # fmt: skip
    return [Group(WORKER_GROUP, workers, gpus, size, spec)]


def _made_head(config: Config, role: str) -> dict[str, Any]:
    written = ((config.infra.get("resources") or {}).get(role) or {}).get("head") or {}
    limits = {"memory": HEAD_SIZE["memory"]}
    size = {} if written else {"resources": {"limits": limits, "requests": dict(HEAD_SIZE)}}
    params = {} if written.get("gpu") else {"num-gpus": "0"}
    return {"rayStartParams": params, "template": {"spec": {"containers": [{"name": HEAD_CONTAINER, **size}]}}}
